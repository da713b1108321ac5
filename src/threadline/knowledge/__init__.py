"""What the team has written down: documents, their passages, and which of them answer a question."""
