"""Slack's Web API, the reading of Slack messages, and the writing of the bot's own."""
