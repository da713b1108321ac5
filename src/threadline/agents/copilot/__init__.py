"""The mind that converses: what it is told, what of a thread it is shown, and how its replies are read. All pure."""
