"""The team's documents, their passages, and the search for passages that answer a question."""
