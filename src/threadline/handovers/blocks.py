"""What people see of a hand-over: its card with two buttons, and what is said of it in both threads. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from threadline.decisions.model import EscalationReason
from threadline.handovers.model import CLOSE, TAKE, HandoverRef, button_value
from threadline.privacy.redaction import redact
from threadline.slack.formatting import Block, Rendered, context, fallback, link, mention, notice, plain, section
from threadline.slack.model import FileRef

_LONGEST_QUESTION, _LONGEST_LINE, _LONGEST_DETAIL = 1_500, 200, 400
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
class Told:
    """What a person is to know before they take it. `where`: the address of the asker's thread, empty without one.

    `recent` are the last messages before the question; `detail` is the model's own sentence.
    """

    ref: HandoverRef
    user_id: str
    question: str
    recent: Sequence[str] = ()
    reason: EscalationReason | None = None
    detail: str = ""
    sources: Sequence[str] = ()
    confidence: float = 0.0
    where: str = ""
    taken_by: str = ""
    closed_by: str = ""
    conflict: bool = False
    """What was found contradicts itself."""


def card(told: Told) -> Rendered:
    """The message with which people are asked to take a thread over, as it is now."""
    reason = _WHY[told.reason or EscalationReason.DECIDED]
    asked = _quoted(told.question, _LONGEST_QUESTION) or "> (the question is no longer available)"
    place = link(told.where, "this thread") if told.where else f"<#{told.ref.thread.channel}>"
    why = f"*Why:* {reason} (confidence {told.confidence:.2f})"
    detail = f": {_cut(told.detail, _LONGEST_DETAIL)}" if told.detail else ""
    facts = [why + detail]
    if told.recent:
        facts.append("*Earlier in the thread:*\n" + "\n".join(f"• {_cut(each, _LONGEST_LINE)}" for each in told.recent))
    if told.sources:
        found = "*Sources, which contradict each other:* " if told.conflict else "*Sources:* "
        facts.append(found + _cut("; ".join(told.sources), _LONGEST_DETAIL))
    blocks = [
        section(f"*A person is needed.* {mention(told.user_id)} asks in {place}:\n{asked}"),
        section("\n".join(facts)),
        context(_state(told)),
    ]
    if not told.closed_by:
        blocks.append(_buttons(told))
    return Rendered(fallback("A person is needed", f"{told.question}\n{reason}"), tuple(blocks))


def taken(user_id: str) -> tuple[Rendered, ...]:
    return notice("", mentions=(user_id,), headline="has taken this over and answers here from now on.")


def closed(user_id: str) -> tuple[Rendered, ...]:
    return notice("", mentions=(user_id,), headline="has closed the handover. I answer here again.")


def reminder(user_id: str) -> tuple[Rendered, ...]:
    words = "Nobody has taken this over yet. The person who asked is still waiting for an answer."
    return notice(words, mentions=(user_id,))


def said(user_id: str, text: str) -> tuple[Rendered, ...]:
    """What somebody wrote in the other thread."""
    return notice(text, mentions=(user_id,), headline="wrote")


def emptied() -> Rendered:
    """What a message shows of which nothing is left."""
    return notice(DELETED)[0]


def answered(user_id: str, text: str) -> tuple[Rendered, ...]:
    """What the person who has it wrote."""
    return notice(text, mentions=(user_id,), headline="answers")


def left_out() -> Rendered:
    """Stands where a part of an answer stood that has fewer of them now."""
    return notice("(removed by its author)")[0]


def unsaid(user_id: str, reason: str, *, again: bool) -> tuple[Rendered, ...]:
    """Under the card: what somebody did there cannot be shown in the other thread. `again`: it was no correction."""
    written = "Your message was not posted in the other thread. Send it again once the problem is fixed."
    changed = "Your change was not made in the other thread, which still shows the old text."
    return notice(f"{reason} {written if again else changed}", mentions=(user_id,))


def over() -> tuple[Rendered, ...]:
    return notice("This handover is closed, so your message was not posted in the other thread. Write there instead.")


def with_files(text: str, files: Sequence[FileRef]) -> str:
    """What somebody wrote, with the names of what they attached: the files themselves stay where they are."""
    names = ", ".join(file.name or file.id for file in files)
    attached = f"(Attached in the other thread, not shown here: {names})" if names else ""
    return "\n\n".join(filter(None, (text.strip(), attached)))


def _state(told: Told) -> str:
    if told.closed_by:
        return f"Closed by {mention(told.closed_by)}. The agent answers there again."
    if told.taken_by:
        return f"Taken by {mention(told.taken_by)}. {_POSTED_THERE}"
    return f"Take it, then answer in this thread. {_POSTED_THERE}"


def _buttons(told: Told) -> Block:
    value = button_value(told.ref)
    take = {"type": "button", "text": {"type": "plain_text", "text": "Take it"}, "action_id": TAKE, "style": "primary"}
    close = {"type": "button", "text": {"type": "plain_text", "text": "Close"}, "action_id": CLOSE}
    shown = [close] if told.taken_by else [take, close]
    return {"type": "actions", "block_id": f"handover:{value}", "elements": [each | {"value": value} for each in shown]}


def _cut(text: str, longest: int) -> str:
    return _shortened(plain(redact(text.strip())), longest)


def _quoted(text: str, longest: int) -> str:
    """Cut behind the quoting, which makes a column of short lines three times as long."""
    whole = plain(redact(text.strip()))
    return _shortened("\n".join(f"> {line}" for line in whole.splitlines()), longest)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
