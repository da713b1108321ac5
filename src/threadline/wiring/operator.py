"""What the operator is made of around the loop: where its context comes from, and what is remembered."""

from threadline.conversations.operator_activities import LiveOperatorActivities
from threadline.conversations.think import Mind
from threadline.conversations.turn_memory import Remembering
from threadline.conversations.turn_routing import Beginning
from threadline.db.engine import Database
from threadline.operator.context_preparation import Preparing
from threadline.operator.context_queries import LiveSources
from threadline.threads.actor_lookup import Actors
from threadline.threads.thread_history import SaidBefore
from threadline.threads.user_names import PeopleLookup


def operating(
    database: Database, mind: Mind, people: PeopleLookup, said: SaidBefore, tokens: int
) -> LiveOperatorActivities:
    """The activities of an operator with this mind.

    Args:
        said: what stands in a thread before the bot was called.
        tokens: bound its context.
    """
    sources = LiveSources(database, Actors(database, people), said)
    return LiveOperatorActivities(
        database,
        Beginning(database, mind.bot_name),
        Preparing(database, sources, mind.model, mind.house.tools, tokens),
        Remembering(database, mind.registry, mind.clock),
    )
