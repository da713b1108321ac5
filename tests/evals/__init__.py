"""How well documents are found and questions are decided, measured on labelled sets; `make evals` prints it."""
