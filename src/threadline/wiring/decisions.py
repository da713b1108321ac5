"""What the decision engine is made of in the core worker: what it knows of a turn, and by which rules it judges."""

from threadline.conversations.decide import Deciding, Rules
from threadline.conversations.decision_activities import LiveDecisionActivities
from threadline.conversations.situation import Lead, Situations
from threadline.conversations.think import Mind
from threadline.db.engine import Database
from threadline.decisions.variant_settings import variants
from threadline.knowledge.library import LookingUp
from threadline.models.chat_model import Embedder
from threadline.sales.crm import PostgresCrm
from threadline.settings import DecisionSettings
from threadline.slack.model import name_with_id
from threadline.threads.user_names import PeopleLookup


def decision_activities(
    database: Database, mind: Mind, people: PeopleLookup, settings: DecisionSettings, embedder: Embedder | None
) -> LiveDecisionActivities:
    """The steps of a decision with this mind; without an `embedder`, documents are found by words alone."""
    lead = lead_context(PostgresCrm(database, people), people)
    situations = Situations(database, mind, lead)
    rules = Rules(variants(settings), settings.decision_questions)
    return LiveDecisionActivities(Deciding(database, mind.model, situations, LookingUp(database, embedder), rules))


def lead_context(customers: PostgresCrm, people: PeopleLookup) -> Lead:
    """Who asks: what is on record of them as a customer or, where nothing is, what Slack says."""

    async def lead(team: str, user_id: str) -> str:
        if on_record := await customers.context_of(team, user_id):
            return on_record
        person = await people.person(user_id)
        if person is None or not (person.name or person.email):
            return ""
        return "\n".join(filter(None, (name_with_id(person.name, user_id), person.email)))

    return lead
