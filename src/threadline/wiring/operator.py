"""What the operator is made of around the loop: the routes of turns, and where its context comes from."""

from threadline.conversations.operator_activities import LiveOperatorActivities
from threadline.conversations.think import Mind
from threadline.conversations.turn_routing import Beginning
from threadline.db.engine import Database
from threadline.operator.context import SlackContext
from threadline.slack.history import History
from threadline.slack.users import UserDirectory, UserProfiles
from threadline.threads.authors import AuthorPolicy


def operating(
    database: Database, mind: Mind, users: UserDirectory, history: History, authors: AuthorPolicy, tokens: int
) -> LiveOperatorActivities:
    """The activities of an operator with this mind.

    Args:
        history: shows what was said in a thread before the bot was called.
        authors: says what of it counts.
        tokens: bound its context.
    """
    return LiveOperatorActivities(
        database,
        Beginning(database, mind),
        SlackContext(UserProfiles(database, users), history, authors),
        mind.model,
        mind.house.tools,
        tokens,
    )
