"""Threadline: durable agents for Slack threads."""
