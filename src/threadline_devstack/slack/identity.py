"""The ids and the tokens of the sandbox's one team and one app, and the ids of its people."""

TEAM = "T0SANDBOX"
TEAM_NAME = "Sandbox"
TEAM_DOMAIN = "sandbox"
ENTERPRISE = "E0SANDBOX"
PARTNER = "T0PARTNER"
"""Another company, with which a channel may be shared by Slack Connect."""

APP_ID = "A0THREADLINE"
BOT_USER = "U0THREADLINE"
BOT_ID = "B0THREADLINE"
BOT_NAME = "threadline"

BOT_TOKEN = "xoxb-sandbox"  # noqa: S105  public by design: it opens only this sandbox
APP_TOKEN = "xapp-sandbox"  # noqa: S105
SIGNING_SECRET = "sandbox-signing-secret"  # noqa: S105

REPORTS = "C0REPORTS"
SUMMARIES = "C0SUMMARIES"
ESCALATIONS = "C0ESCALATE"
GENERAL = "C0GENERAL"

REPORTER = "U0REPORTER"
DEVELOPER = "U0DEV"
SECOND_DEVELOPER = "U0DEV2"
BYSTANDER = "U0OTHER"
ON_CALL = "U0ONCALL"

SLACKBOT = "USLACKBOT"
"""Slack's own bot, which becomes the author of a deleted root with replies (a tombstone)."""
