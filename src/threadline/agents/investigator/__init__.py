"""The investigator: one turn of Claude on one bug case, with the case's own tools and nothing else."""
