"""The commands: each parses, calls a method of `Holdfast`, and draws what it returns."""
