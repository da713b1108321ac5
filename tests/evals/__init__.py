"""Measures retrieval and decisions on labelled sets; `make evals` prints the figures."""
