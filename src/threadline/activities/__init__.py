"""Thin activities: open a unit of work, call one thing, return a value."""
