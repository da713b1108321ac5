"""What is said by rule about a thread and its RFP. Markdown, as answers are."""

from threadline.rfps.model import Rfp, RfpBinding, RfpNotFound


def bound(made: RfpBinding) -> str:
    """A binding is confirmed, with what it replaced."""
    named = _named(made.rfp)
    if made.before == made.rfp.rfp_id:
        return f"This thread is already bound to {named}."
    was = f" It was bound to `{made.before}` before." if made.before else ""
    return f"This thread is now bound to {named}.{was}"


def where(rfp: Rfp) -> str:
    due = f", due {rfp.due_date:%Y-%m-%d}" if rfp.due_date else ""
    return f"This thread is bound to {_named(rfp)}: {rfp.status.replace('_', ' ')}{due}."


def unbound(bot_name: str) -> str:
    return f"This thread is not bound to an RFP. Bind it with: `@{bot_name} link rfp_...`"


def no_id(bot_name: str) -> str:
    return f"That is not an RFP id, so nothing was bound. Write it like this: `@{bot_name} link rfp_abc123`"


def refused(error: RfpNotFound) -> str:
    """Nothing is done about an RFP that does not exist; the error names the nearest ids."""
    words = str(error)
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('?') else '.'} Nothing was done."


def left_undone() -> str:
    """Told with what was said about the thread, where nobody knows which RFP a request beside it is about."""
    return "I did nothing else that you asked for. Please write the rest again."


def asked_before(rfp_id: str) -> str:
    """A request was said before its thread was bound to another RFP."""
    return f"Your earlier request is about `{rfp_id}`."


def gone(error: RfpNotFound) -> str:
    """The thread's RFP was deleted since it was bound."""
    words = str(error).split(";")[0]
    return f"This thread is bound to an RFP that no longer exists: {words}. Bind it to another one."


def _named(rfp: Rfp) -> str:
    client = f" for {rfp.client}" if rfp.client else ""
    return f"`{rfp.rfp_id}` ({rfp.title}{client})"
