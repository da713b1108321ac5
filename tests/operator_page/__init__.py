"""docs/operator.md: its decision tree, its tables and its examples follow from the rules."""
