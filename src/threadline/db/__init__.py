"""Postgres, the only store of cases, conversations, turns and posts."""
