"""The base of the router and the skill chooser: the rule that ranks by outcomes, and skill files."""
