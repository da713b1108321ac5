"""Slack events and interactions: each becomes one signal to one workflow, and only then is it acknowledged."""
