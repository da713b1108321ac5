"""The schema's history: each version is SQL that is read, not generated."""
