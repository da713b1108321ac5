"""The real Postgres under the properties of what is stored."""
