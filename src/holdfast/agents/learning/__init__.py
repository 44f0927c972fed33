"""What the router and the skill chooser stand on: the rule that ranks by outcomes, and skill files."""
