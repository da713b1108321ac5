"""Who sees and changes which customers: members of the workspace all, others only their own record.

Where one of several people who ask is no member, all of them are treated as from outside.
"""

from collections.abc import Sequence

from threadline.db.engine import Transaction
from threadline.errors import Permanent
from threadline.sales.model import Lead, LeadRefused, SlackContact, format_customer, without_company_details
from threadline.sales.store import LeadStore
from threadline.slack.model import User, refusal_of
from threadline.tools.context import ToolContext

RECENT_INTERACTIONS = 3
"""Interactions of which the decision engine is told."""


async def find_visible_leads(context: ToolContext, words: str, limit: int) -> Sequence[Lead]:
    """The leads that the askers may see, among those that match."""
    store = LeadStore(context.tx)
    if context.requester.are_members:
        return await store.find(context.team, words, limit)
    own = await store.find_by_contact(context.team, requester_contact(context))
    return [without_company_details(own)] if own and not context.co_requesters else []


async def require_lead_access(context: ToolContext, lead_id: str) -> None:
    """Args: `lead_id`: empty for the lead of whoever asks.

    Raises:
        LeadRefused: the askers may not see and change it.
    """
    if context.requester.are_members or not lead_id:
        return
    own = await LeadStore(context.tx).find_by_contact(context.team, requester_contact(context))
    if own is None or own.lead_id != lead_id.strip().upper():
        raise LeadRefused("people outside the workspace can see and change only their own record: leave lead_id out")


def visible(context: ToolContext, lead: Lead) -> Lead:
    """The lead as the askers may see it."""
    return lead if context.requester.are_members else without_company_details(lead)


def requester_contact(context: ToolContext) -> SlackContact:
    return _contact(context.user_id, context.requester.user)


async def describe_customer(tx: Transaction, team: str, user_id: str, user: User | None) -> str:
    """What is on record of a person, in at most `MAX_CONTEXT` characters; empty where nothing is.

    Args:
        user: the person, as Slack knows them.
    """
    store = LeadStore(tx)
    lead = await store.find_by_contact(team, _contact(user_id, user))
    if lead is None:
        return ""
    shown = lead if refusal_of(user, team) is None else without_company_details(lead)
    return format_customer(shown, await store.interactions(lead.lead_id, RECENT_INTERACTIONS))


def _contact(user_id: str, user: User | None) -> SlackContact:
    if not user_id.strip():  # it would be the lead of anybody who is not in Slack
        raise Permanent("the person who asks is unknown: name the lead")
    return SlackContact(user_id, user.name, user.email) if user else SlackContact(user_id)
