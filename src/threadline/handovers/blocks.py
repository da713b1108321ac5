"""The card of a handover with its two buttons, and what is said of it in both threads. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from threadline.decisions.model import EscalationReason
from threadline.handovers.model import CLOSE, TAKE, HandoverRef
from threadline.privacy.redaction import redact
from threadline.slack.formatting import (
    Block,
    Rendered,
    context,
    escape_all,
    fallback_text,
    link,
    mention,
    notice,
    section,
)
from threadline.slack.model import FileRef

_MAX_QUESTION, _MAX_LINE, _MAX_DETAIL = 1_500, 200, 400
"""Characters as Slack counts them; together within the 3,000 of a section."""
DELETED = "(deleted by its author)"
_POSTED_THERE = "Messages here are posted in the other thread until the handover is closed."
_WHY = {
    EscalationReason.LOW_CONFIDENCE: "the agent is not sure enough",
    EscalationReason.SENSITIVE_TOPIC: "the topic is sensitive",
    EscalationReason.RETRIEVAL_FAILURE: "the documents cannot be searched",
    EscalationReason.TOOL_FAILURE: "a critical tool has failed",
    EscalationReason.RESPONSE_ERROR: "the agent could not produce an answer",
    EscalationReason.DECIDED: "the agent asked for a person",
}


@dataclass(frozen=True)
class CardData:
    """What a person is to know before they take it. `address`: of the asker's thread, empty without one.

    `recent` are the last messages before the question; `detail` is the model's own sentence. `conflict`: the sources
    contradict each other.
    """

    ref: HandoverRef
    user_id: str
    question: str
    recent: Sequence[str] = ()
    reason: EscalationReason | None = None
    detail: str = ""
    sources: Sequence[str] = ()
    confidence: float = 0.0
    address: str = ""
    taken_by: str = ""
    closed_by: str = ""
    conflict: bool = False


def card(data: CardData) -> Rendered:
    """The message with which people are asked to take a thread over, as it is now."""
    reason = _WHY[data.reason or EscalationReason.DECIDED]
    asked = _quoted(data.question, _MAX_QUESTION) or "> (the question is no longer available)"
    place = link(data.address, "this thread") if data.address else f"<#{data.ref.thread.channel}>"
    why = f"*Why:* {reason} (confidence {data.confidence:.2f})"
    detail = f": {_cut(data.detail, _MAX_DETAIL)}" if data.detail else ""
    facts = [why + detail]
    if data.recent:
        facts.append("*Earlier in the thread:*\n" + "\n".join(f"• {_cut(each, _MAX_LINE)}" for each in data.recent))
    if data.sources:
        found = "*Sources, which contradict each other:* " if data.conflict else "*Sources:* "
        facts.append(found + _cut("; ".join(data.sources), _MAX_DETAIL))
    blocks = [
        section(f"*A person is needed.* {mention(data.user_id)} asks in {place}:\n{asked}"),
        section("\n".join(facts)),
        context(_state(data)),
    ]
    if not data.closed_by:
        blocks.append(_buttons(data))
    return Rendered(fallback_text("A person is needed", f"{data.question}\n{reason}"), tuple(blocks))


def taken_notice(user_id: str) -> tuple[Rendered, ...]:
    return notice("", mentions=(user_id,), headline="has taken this over and answers here from now on.")


def closed_notice(user_id: str) -> tuple[Rendered, ...]:
    return notice("", mentions=(user_id,), headline="has closed the handover. I answer here again.")


def reminder(user_id: str) -> tuple[Rendered, ...]:
    words = "Nobody has taken this over yet. The person who asked is still waiting for an answer."
    return notice(words, mentions=(user_id,))


def asker_wrote(user_id: str, text: str) -> tuple[Rendered, ...]:
    """Under the card: what somebody wrote in the other thread."""
    return notice(text, mentions=(user_id,), headline="wrote")


def deleted_part() -> Rendered:
    """Stands where a part of a deleted message stood."""
    return notice(DELETED)[0]


def person_answered(user_id: str, text: str) -> tuple[Rendered, ...]:
    """In the asker's thread: what the person who has it wrote."""
    return notice(text, mentions=(user_id,), headline="answers")


def retracted_part() -> Rendered:
    """Stands where a part of an answer stood that has fewer parts now."""
    return notice("(removed by its author)")[0]


def not_posted_notice(user_id: str, reason: str, *, correction: bool) -> tuple[Rendered, ...]:
    """Under the card: what somebody wrote or changed there cannot be shown in the other thread."""
    written = "Your message was not posted in the other thread. Send it again once the problem is fixed."
    changed = "Your change was not made in the other thread, which still shows the old text."
    return notice(f"{reason} {changed if correction else written}", mentions=(user_id,))


def already_closed_notice() -> tuple[Rendered, ...]:
    return notice("This handover is closed, so your message was not posted in the other thread. Write there instead.")


def with_files(text: str, files: Sequence[FileRef]) -> str:
    """What somebody wrote, with the names of what they attached: the files themselves stay where they are."""
    names = ", ".join(file.name or file.id for file in files)
    attached = f"(Attached in the other thread, not shown here: {names})" if names else ""
    return "\n\n".join(filter(None, (text.strip(), attached)))


def _state(data: CardData) -> str:
    if data.closed_by:
        return f"Closed by {mention(data.closed_by)}. The agent answers there again."
    if data.taken_by:
        return f"Taken by {mention(data.taken_by)}. {_POSTED_THERE}"
    return f"Take it, then answer in this thread. {_POSTED_THERE}"


def _buttons(data: CardData) -> Block:
    value = data.ref.key
    take = {"type": "button", "text": {"type": "plain_text", "text": "Take it"}, "action_id": TAKE, "style": "primary"}
    close = {"type": "button", "text": {"type": "plain_text", "text": "Close"}, "action_id": CLOSE}
    shown = [close] if data.taken_by else [take, close]
    return {"type": "actions", "block_id": f"handover:{value}", "elements": [each | {"value": value} for each in shown]}


def _cut(text: str, limit: int) -> str:
    return _shortened(escape_all(redact(text.strip())), limit)


def _quoted(text: str, limit: int) -> str:
    """Cut behind the quoting, which makes a column of short lines three times as long."""
    whole = escape_all(redact(text.strip()))
    return _shortened("\n".join(f"> {line}" for line in whole.splitlines()), limit)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
