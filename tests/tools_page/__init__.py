"""docs/tools.md: its lists follow from the registry, its example from a file that is run."""
