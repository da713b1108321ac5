"""The memory: Postgres holds every case, conversation, turn and post; nothing else does."""
