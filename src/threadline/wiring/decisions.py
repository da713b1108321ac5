"""What the decision engine is made of in the core worker: what it knows of a turn, and by which rules it judges."""

from functools import partial

from threadline.conversations.decide import Deciding, Rules
from threadline.conversations.think import Mind
from threadline.db.engine import Database, Transaction
from threadline.decisions.model import Thresholds
from threadline.decisions.variants import load_variants
from threadline.knowledge.search import look_up
from threadline.models.embeddings import Embedder
from threadline.sales.crm import describe_customer
from threadline.settings import DecisionSettings
from threadline.slack.model import User, name_with_id
from threadline.slack.users import UserDirectory


def deciding(
    database: Database, mind: Mind, users: UserDirectory, settings: DecisionSettings, embedder: Embedder | None
) -> Deciding:
    """The decisions of turns with this mind; without an `embedder`, documents are found by words alone."""
    looking_up = partial(look_up, database, embedder)
    return Deciding(database, mind.model, mind, users, lead_context, looking_up, decision_rules(settings))


def decision_rules(settings: DecisionSettings) -> Rules:
    """Raises `Permanent` where a variant is wrong."""
    thresholds = Thresholds(settings.decision_high, settings.decision_low)
    return Rules(load_variants(settings.decision_variants, thresholds), settings.decision_questions)


async def lead_context(tx: Transaction, team: str, user_id: str, user: User | None) -> str:
    """Who asks: what is on record of them as a customer or, where nothing is, what Slack says."""
    if on_record := await describe_customer(tx, team, user_id, user):
        return on_record
    if user is None or not (user.name or user.email):
        return ""
    return "\n".join(filter(None, (name_with_id(user.name, user_id), user.email)))
