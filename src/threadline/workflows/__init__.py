"""The protocols: deterministic, and read from top to bottom like a recipe."""
