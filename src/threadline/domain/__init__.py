"""Values, names and rules: no I/O, no Temporal, safe inside the workflow sandbox."""
