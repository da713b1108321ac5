"""The workspace as it is at the start: four channels, five people, the bot, and one group."""

from threadline_devstack.slack import identity
from threadline_devstack.slack.model import User
from threadline_devstack.slack.workspace import Workspace

PEOPLE = (
    User(identity.REPORTER, "reporter", "reporter"),
    User(identity.DEVELOPER, "developer", "developer"),
    User(identity.SECOND_DEVELOPER, "second-developer", "second developer"),
    User(identity.BYSTANDER, "bystander", "bystander"),
    User(identity.ON_CALL, "on-call", "on-call"),
)
CHANNELS = (
    (identity.REPORTS, "bug-reports", "Report a bug here; the bot answers in the thread"),
    (identity.SUMMARIES, "bug-summaries", "What the bot found; developers answer in the threads"),
    (identity.ESCALATIONS, "bug-escalations", "Cases that need a human"),
    (identity.GENERAL, "general", "Talk to the bot by mentioning it"),
)


def populate(workspace: Workspace) -> None:
    """Fill an empty workspace, before anyone listens to it."""
    workspace.add_user(User(identity.BOT_USER, identity.BOT_NAME, "Threadline", is_bot=True))
    workspace.add_user(User(identity.SLACKBOT, "slackbot", "Slackbot", is_bot=True))
    for person in PEOPLE:
        workspace.add_user(person)
    members = [identity.BOT_USER, *(person.id for person in PEOPLE)]
    for channel_id, name, topic in CHANNELS:
        workspace.create_channel(name, members, channel_id).topic = topic
    group = {"id": "S0ONCALL", "team_id": identity.TEAM, "handle": "on-call", "name": "On-call", "date_delete": 0}
    workspace.usergroups.append(group | {"users": [identity.ON_CALL], "user_count": 1})
