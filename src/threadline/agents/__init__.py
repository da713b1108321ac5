"""The minds: agents that are given ports and know nothing of Temporal, Slack or SQL."""
