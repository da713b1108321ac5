"""The card of a handover with its buttons, the modal and the previews of replies, and texts in
both threads. Pure.
"""

from collections.abc import Sequence
from urllib.parse import quote

from threadline.conversations.model.handover import Handover
from threadline.decisions.model import DecisionRound, EscalationReason
from threadline.handovers.model import CLOSE, REPLY, TAKE, UNDO, UnshownFile, reply_value
from threadline.handovers.reply import HandoverAnswer, ReplyState
from threadline.models.model import Message
from threadline.privacy.redaction import redact
from threadline.slack import formatting
from threadline.slack.formatting import (
    Block,
    Rendered,
    context,
    escape_all,
    fallback_text,
    link,
    mention,
    section,
)
from threadline.slack.model import FileRef
from threadline.tools.public_text import public_sentence

_MAX_QUESTION = 1_500
_MAX_LINE = 200
_MAX_DETAIL = 400
"""Maximum characters as Slack counts them; together within the 3,000 of a section."""
MAX_REPLY = 3_000
"""Maximum characters of a modal's field:
https://docs.slack.dev/reference/block-kit/block-elements/plain-text-input-element.
"""
TAKEN_BY = "has taken this over and will answer here. I will stay silent until they are done."
CLOSED_BY = "has closed the handover. I am answering here again."
"""Posted in the asker's thread, after the name of the person."""
ANSWERS = "answers"
"""Posted in the asker's thread, between the name of the person and the reply."""
NOBODY_YET = (
    "Nobody has taken this over yet, and the person who asked is still waiting. Press *Take it* "
    "on the card."
)
ALREADY_CLOSED = (
    "This handover is closed, so your reply was not posted in the other thread. Write there "
    "instead."
)
_REFUSED = "Slack did not accept it."
NOT_POSTED = (
    "Your reply was not posted in the other thread. Send it again once the problem is fixed."
)


def refused_text(refused: Exception, then: str) -> str:
    """Return the reason for Slack's refusal as public text, without a program's ids and terms, and
    the consequence `then`.
    """
    return f"{public_sentence(str(refused), _REFUSED)} {then}"


def untold(what: str, *, later: bool) -> str:
    """Return the notice that the asker does not know of a press. `later`: the asker will be
    notified once Slack accepts the post.
    """
    if later:
        return (
            f"I will tell the other thread that you have {what} the handover as soon as Slack "
            "accepts the message."
        )
    return f"I could not tell the other thread that you have {what} the handover."


POSTED_LATER = (
    "Your reply is saved. I will post it in the other thread as soon as Slack accepts it."
)
CHANGED_LATER = (
    "The other thread still shows your old text. I will change it there as soon as Slack accepts "
    "the change."
)
NOT_CHANGED = (
    "Your change was not made in the other thread, which still shows the old text. "
    "Make it again once the problem is fixed: edit your message, or delete it."
)
NOT_MARKED = (
    "Your edit does not begin with `reply:`, so it stays here, and the other thread still shows "
    "your old text. To change it there, begin the message with `reply:` again. To remove it "
    "there, delete the message."
)
INTERNAL_HINT = (
    "Only your team reads this. To answer the person who asked, press *Reply* on the card, "
    "or begin your message with `reply:`."
)
EMPTY_REPLY = "Your reply was empty, so nothing was sent. Press *Reply* to write another."
UNDO_TOO_LATE = (
    "The reply was already on its way, so it was not undone. Delete or edit your message to "
    "change it there."
)
NOT_HELD = "This reply is no longer waiting to be sent, so nothing was changed."
DELETED = "(deleted by its author)"
REMOVED = "(removed by its author)"
"""Placeholders for a deleted message, and for the unused parts of an answer that now has fewer
parts.
"""
TOO_MANY_FILES = "I can show ten files of a message: send the others in another one."
NOT_DELIVERED = "Slack is not delivering the file at the moment: attach it again later."
NOT_COPIED = "Slack does not let me copy it there."
NO_SCOPE = "I may not copy files there yet: an admin has to allow it first."
_IN_LINKS = "%/:?&=#@+,;~!$*"
"""Characters of an address that do not end a Markdown link."""
_INTERNAL = "Messages here stay in your team."
_HOW_TO_REPLY = (
    "To answer, press *Reply* or begin a message with `reply:`. You then have ten seconds to "
    "undo it."
)
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
    on_call: Sequence[str] = (),
) -> Rendered:
    """Return the message that asks people to take a thread over, with all they need for that, in
    its current state.

    Args:
        recent: the last messages before the question.
        address: of the asker's thread; empty without one.
        on_call: users and groups that are called.
    """
    judgement = decided.judgement if decided else None
    reason = _WHY[(judgement and judgement.reason) or EscalationReason.DECIDED]
    # Cut after the quoting, which makes a column of short lines three times as long.
    quoted = "\n".join(f"> {line}" for line in escape_all(redact(question.strip())).splitlines())
    asked = _shortened(quoted, _MAX_QUESTION) or "> (the question is no longer available)"
    place = link(address, "this thread") if address else f"<#{handover.ref.thread.channel}>"
    facts = [f"*Why:* {reason} (confidence {judgement.confidence if judgement else 0.0:.2f})"]
    if detail := decided and (decided.decision.escalation_reason or decided.decision.reasoning):
        facts = [f"{facts[0]}: {_cut(detail, _MAX_DETAIL)}"]
    if recent:
        said = [
            f"{each.author or each.role.value}: {' '.join(each.content.split())}"
            for each in recent
        ]
        facts.append(
            "*Earlier in the thread:*\n" + "\n".join(f"• {_cut(line, _MAX_LINE)}" for line in said)
        )
    if decided and decided.sources:
        conflict = decided.factors is not None and decided.factors.conflict
        found = "*Sources, which contradict each other:* " if conflict else "*Sources:* "
        facts.append(found + _cut("; ".join(each.cited for each in decided.sources), _MAX_DETAIL))
    called = " ".join(mention(each) for each in on_call)
    headline = " ".join(
        filter(None, (called, f"{mention(handover.user_id)} *needs a person* in {place}:"))
    )
    blocks = [
        section(f"{headline}\n{asked}"),
        section("\n".join(facts)),
        context(_state(handover)),
    ]
    if handover.open:
        blocks.append(_buttons(handover))
    return Rendered(
        fallback_text("Somebody needs a person", f"{question}\n{reason}", called), tuple(blocks)
    )


def _buttons(handover: Handover) -> Block:
    take = {
        "text": {"type": "plain_text", "text": "Take it"},
        "action_id": TAKE,
        "style": "primary",
    }
    reply = {"text": {"type": "plain_text", "text": "Reply"}, "action_id": REPLY}
    close = {"text": {"type": "plain_text", "text": "Close"}, "action_id": CLOSE}
    value = handover.ref.key
    shown = [reply, close] if handover.taken_by else [take, reply, close]
    buttons = [{"type": "button", **each, "value": value} for each in shown]
    return {"type": "actions", "block_id": f"handover:{value}", "elements": buttons}


def preview(handover: Handover, answer: HandoverAnswer, words: str, hold: float) -> Rendered:
    """Return a reply under the card as the asker will see it, with its state and, while it is
    held, a button to undo it. Of a long reply only the first part is shown. `words`: the reply's
    text as Markdown.
    """
    text = DELETED if answer.deleted else with_files(words, answer.files)
    parts = formatting.notice(text)
    heading = f"{mention(answer.user_id)} replies to {mention(handover.user_id)}:"
    state = _reply_state(handover, answer, hold)
    more = (
        ""
        if len(parts) == 1
        else f" The reply has {len(parts)} parts, of which this is the first."
    )
    blocks: list[Block] = [section(heading), *parts[0].blocks, context(f"{state}{more}")]
    if answer.state is ReplyState.HELD:
        value = reply_value(handover.ref, answer.message_id)
        label = {"type": "plain_text", "text": "Undo"}
        button = {
            "type": "button",
            "text": label,
            "action_id": UNDO,
            "style": "danger",
            "value": value,
        }
        blocks.append({"type": "actions", "elements": [button]})
    return Rendered(fallback_text(state, text), tuple(blocks))


def reply_modal(value: str, channel: str, thread_ts: str) -> Block:
    """Return the modal in which a person writes a reply.

    See https://docs.slack.dev/reference/views/modal-views.

    Args:
        value: of the pressed button.
        channel: the channel for private notices about the reply.
        thread_ts: the thread for these notices.
    """
    label = {"type": "plain_text", "text": "Your reply"}
    field = {
        "type": "plain_text_input",
        "action_id": REPLY,
        "multiline": True,
        "max_length": MAX_REPLY,
    }
    hint = (
        "The person who asked reads exactly this, ten seconds after you send it. Until then you "
        "can undo it."
    )
    return {
        "type": "modal",
        "callback_id": REPLY,
        "private_metadata": f"{channel} {thread_ts} {value}",
        "title": {"type": "plain_text", "text": "Reply"},
        "submit": {"type": "plain_text", "text": "Send"},
        "close": {"type": "plain_text", "text": "Cancel"},
        "blocks": [
            {
                "type": "input",
                "block_id": REPLY,
                "label": label,
                "element": field,
                "hint": {"type": "plain_text", "text": hint},
            }
        ],
    }


def with_files(text: str, files: Sequence[FileRef]) -> str:
    """Return a person's text with the names of its attachments."""
    names = ", ".join(_label(file.name or file.id) for file in files)
    attached = f"(Attached: {names})" if names else ""
    return "\n\n".join(filter(None, (text.strip(), attached)))


def with_unshown(text: str, files: Sequence[UnshownFile]) -> str:
    """Return a person's text with names and links of the files that are not shown beside it.
    Markdown.
    """
    names = ", ".join(
        f"[{_label(file.name)}]({quote(file.link, _IN_LINKS)})"
        if file.link
        else _literal(file.name)
        for file in files
    )
    attached = f"(Not shown here: {names})" if names else ""
    return "\n\n".join(filter(None, (text.strip(), attached)))


def unshown_text(files: Sequence[UnshownFile]) -> str:
    """Return the notice for the author of files that the other thread only names, with the
    reasons.
    """
    return "\n".join(
        f"{_literal(file.name)} is only named in the other thread. {file.reason}" for file in files
    )


def attached_by(name: str) -> str:
    """Return the text beside a file in the other thread. It mentions no user: the message before
    it does.
    """
    return (
        f"{formatting.one_line(name)} attached this file."
        if name.strip()
        else "Attached to the message above."
    )


def _label(name: str) -> str:
    """Return a name in Markdown that forms no link, also inside of one."""
    return " ".join(name.replace("[", "(").replace("]", ")").split())


def _literal(name: str) -> str:
    """Return a name in Markdown unchanged: as code, in which Slack forms neither links nor
    mentions.
    """
    return f"`{' '.join(name.replace('`', chr(39)).split())}`"


def _state(handover: Handover) -> str:
    if handover.closed_by:
        return f"Closed by {mention(handover.closed_by)}. The agent answers there again."
    if handover.taken_by:
        return f"Taken by {mention(handover.taken_by)}. {_INTERNAL} {_HOW_TO_REPLY}"
    return (
        "Press *Take it* or write *take* to keep the agent silent there; a reply does the same. "
        f"{_INTERNAL} {_HOW_TO_REPLY}"
    )


def _reply_state(handover: Handover, answer: HandoverAnswer, hold: float) -> str:
    match answer.state:
        case ReplyState.HELD:
            return f"It will be sent in {hold:.0f} seconds. Press *Undo* to stop it."
        case ReplyState.SENT:
            return f":white_check_mark: Sent to {mention(handover.user_id)}."
        case ReplyState.UNDONE if answer.undone_by:
            return f"Not sent: {mention(answer.undone_by)} has undone it."
        case ReplyState.UNDONE:
            return "Not sent: its author has taken it back."
        case ReplyState.REFUSED:
            return "Not sent: Slack did not accept it. See my message about it."
    return "It is on its way."


def _cut(text: str, limit: int) -> str:
    return _shortened(escape_all(redact(text.strip())), limit)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
