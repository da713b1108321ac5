"""Slack's sandbox and a client of it."""

from tests.support.slack import clock, sandbox, serve, session, slack

__all__ = ["clock", "sandbox", "serve", "session", "slack"]
