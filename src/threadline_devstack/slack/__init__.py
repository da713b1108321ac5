"""A stand-in for Slack that speaks its wire protocols: Web API, Socket Mode, signed events, and a page to chat on."""

from threadline_devstack.slack.app import SlackSandbox

__all__ = ["SlackSandbox"]
