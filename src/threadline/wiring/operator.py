"""What the operator is made of around the loop: the routes of turns, and where its context comes from."""

from threadline.conversations.operator_context import OperatorContext
from threadline.conversations.think import Mind
from threadline.db.engine import Database
from threadline.operator.context import SlackContext
from threadline.slack.history import History
from threadline.slack.users import UserDirectory, UserProfiles
from threadline.threads.authors import AuthorPolicy


def operator_context(
    database: Database, mind: Mind, users: UserDirectory, history: History, authors: AuthorPolicy, tokens: int
) -> OperatorContext:
    """What gathers the context of an operator with this mind.

    Args:
        history: shows what was said in a thread before the bot was called.
        authors: says what of it counts.
        tokens: bound its context.
    """
    return OperatorContext(
        database,
        SlackContext(UserProfiles(database, users), history, authors),
        mind.model,
        mind.house.tools,
        tokens,
    )
