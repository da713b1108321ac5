"""What the operator is made of around the loop: where its context comes from, and what is remembered."""

from threadline.activities.actors import Actors
from threadline.activities.beginning import Beginning
from threadline.activities.names import PeopleLookup
from threadline.activities.operator import LiveOperatorActivities
from threadline.activities.operator_sources import LiveSources
from threadline.activities.preparing import Preparing
from threadline.activities.remembering import Remembering
from threadline.activities.said_before import SaidBefore
from threadline.activities.thinking import Mind
from threadline.db.engine import Database


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
