"""The model that converses: what it is asked and answers, and OpenAI's two APIs that carry it."""
