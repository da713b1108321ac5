"""The card of a handover with its two buttons, and what is said of it in both threads. Pure."""

from collections.abc import Sequence

from threadline.decisions.model import DecisionRound, EscalationReason
from threadline.handovers.model import CLOSE, TAKE, Handover
from threadline.models.model import Message
from threadline.privacy.redaction import redact
from threadline.slack.formatting import Rendered, context, escape_all, fallback_text, link, mention, section
from threadline.slack.model import FileRef

_MAX_QUESTION, _MAX_LINE, _MAX_DETAIL = 1_500, 200, 400
"""Characters as Slack counts them; together within the 3,000 of a section."""
TAKEN_BY = "has taken this over and answers here from now on."
CLOSED_BY = "has closed the handover. I answer here again."
"""Said in the asker's thread, behind the name of who did it."""
NOBODY_YET = "Nobody has taken this over yet. The person who asked is still waiting for an answer."
ALREADY_CLOSED = "This handover is closed, so your message was not posted in the other thread. Write there instead."
NOT_POSTED = "Your message was not posted in the other thread. Send it again once the problem is fixed."
NOT_CHANGED = "Your change was not made in the other thread, which still shows the old text."
DELETED, REMOVED = "(deleted by its author)", "(removed by its author)"
"""Stand for a deleted message, and where a part of an answer stood that has fewer parts now."""
_POSTED_THERE = "Messages here are posted in the other thread until the handover is closed."
_WHY = {
    EscalationReason.LOW_CONFIDENCE: "the agent is not sure enough",
    EscalationReason.SENSITIVE_TOPIC: "the topic is sensitive",
    EscalationReason.RETRIEVAL_FAILURE: "the documents cannot be searched",
    EscalationReason.TOOL_FAILURE: "a critical tool has failed",
    EscalationReason.RESPONSE_ERROR: "the agent could not produce an answer",
    EscalationReason.DECIDED: "the agent asked for a person",
}


def card(
    handover: Handover,
    question: str,
    recent: Sequence[Message] = (),
    decided: DecisionRound | None = None,
    address: str = "",
) -> Rendered:
    """The message with which people are asked to take a thread over, as it is now: what they are to know before.
    `recent`: the last messages before the question. `address`: of the asker's thread; empty without one."""
    judgement = decided.judgement if decided else None
    reason = _WHY[(judgement and judgement.reason) or EscalationReason.DECIDED]
    # Cut behind the quoting, which makes a column of short lines three times as long.
    quoted = "\n".join(f"> {line}" for line in escape_all(redact(question.strip())).splitlines())
    asked = _shortened(quoted, _MAX_QUESTION) or "> (the question is no longer available)"
    place = link(address, "this thread") if address else f"<#{handover.ref.thread.channel}>"
    facts = [f"*Why:* {reason} (confidence {judgement.confidence if judgement else 0.0:.2f})"]
    if detail := decided and (decided.decision.escalation_reason or decided.decision.reasoning):
        facts = [f"{facts[0]}: {_cut(detail, _MAX_DETAIL)}"]
    if recent:
        said = [f"{each.author or each.role.value}: {' '.join(each.content.split())}" for each in recent]
        facts.append("*Earlier in the thread:*\n" + "\n".join(f"• {_cut(line, _MAX_LINE)}" for line in said))
    if decided and decided.sources:
        conflict = decided.factors is not None and decided.factors.conflict
        found = "*Sources, which contradict each other:* " if conflict else "*Sources:* "
        facts.append(found + _cut("; ".join(each.cited for each in decided.sources), _MAX_DETAIL))
    blocks = [
        section(f"*A person is needed.* {mention(handover.user_id)} asks in {place}:\n{asked}"),
        section("\n".join(facts)),
        context(_state(handover)),
    ]
    if handover.open:
        take = {"text": {"type": "plain_text", "text": "Take it"}, "action_id": TAKE, "style": "primary"}
        close = {"text": {"type": "plain_text", "text": "Close"}, "action_id": CLOSE}
        value, shown = handover.ref.key, [close] if handover.taken_by else [take, close]
        buttons = [{"type": "button", **each, "value": value} for each in shown]
        blocks.append({"type": "actions", "block_id": f"handover:{value}", "elements": buttons})
    return Rendered(fallback_text("A person is needed", f"{question}\n{reason}"), tuple(blocks))


def with_files(text: str, files: Sequence[FileRef]) -> str:
    """What somebody wrote, with the names of what they attached: the files themselves stay where they are."""
    names = ", ".join(file.name or file.id for file in files)
    attached = f"(Attached in the other thread, not shown here: {names})" if names else ""
    return "\n\n".join(filter(None, (text.strip(), attached)))


def _state(handover: Handover) -> str:
    if handover.closed_by:
        return f"Closed by {mention(handover.closed_by)}. The agent answers there again."
    if handover.taken_by:
        return f"Taken by {mention(handover.taken_by)}. {_POSTED_THERE}"
    return f"Take it, then answer in this thread. {_POSTED_THERE}"


def _cut(text: str, limit: int) -> str:
    return _shortened(escape_all(redact(text.strip())), limit)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
