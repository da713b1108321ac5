"""Content of a conversation's posts: a turn's answer with the records of its tools, and short
fixed texts. Pure.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from threadline.approvals import blocks as approvals
from threadline.conversations.help import ASK_EXAMPLE
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import NoticeReason
from threadline.privacy.redaction import redact
from threadline.slack.formatting import (
    TEXT_LIMIT,
    Block,
    Rendered,
    escape_mentions,
    fallback_text,
    notice,
    section,
)
from threadline.tools import blocks as records

MOST_BLOCKS = 50
"""Blocks of one message: https://docs.slack.dev/reference/block-kit/blocks."""
MOST_CHARACTERS = 12_000
"""Characters in all blocks of one message; see `slack.formatting` for Slack's limits."""

_UNSENDABLE = re.compile(r"[\x00\ud800-\udfff]")
"""Characters that UTF-8 or Slack does not allow."""


@dataclass(frozen=True)
class _Draft:
    """A message that can take more records. `text` is Markdown with escaped mentions."""

    text: str = ""
    blocks: tuple[Block, ...] = ()
    has_table: bool = False

    def joined(self, shown: records.RenderedRecords) -> "_Draft | None":
        """Return the message with these records, as lines if it would get a second table; None if
        there is no room.
        """
        as_lines = self.has_table and shown.has_table
        blocks = (*self.blocks, *(shown.lines if as_lines else shown.blocks))
        if (
            (as_lines and not shown.lines)
            or len(blocks) > MOST_BLOCKS
            or _characters(blocks) > MOST_CHARACTERS
        ):
            return None
        text = f"{self.text}\n\n{shown.text}" if self.text else shown.text
        return _Draft(text, blocks, self.has_table or shown.has_table)


def answer_of(
    text: str, structured: Iterable[tuple[str, Sequence[object]]] = (), detail: bool = False
) -> tuple[Rendered, ...]:
    """Return the messages of an answer. The records are in the last part, or after it if it has no
    room for them. Empty only if the text shows nothing and there are no records.

    Args:
        text: Markdown by the model or by the bot. Its mentions are escaped.
        structured: Kinds with their records, oldest first; see `tools.blocks.render_records` and
            `approvals.blocks`.
        detail: Post the whole text in as many parts as it takes, instead of at most
            `answers.LIMIT` characters of it.
    """
    limit = TEXT_LIMIT if detail else answers.LIMIT
    # Redact before the split: a key that is spread over two messages would be recognised in
    # neither.
    clean = escape_mentions(
        redact(_UNSENDABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\0", "")))
    )
    lines = clean.split("\n")
    # Slack shows nothing of a message with two tables, so later tables become code blocks.
    for start, end in reversed(_tables(clean)[1:]):
        lines[start:end] = ["```", *lines[start:end], "```"]
    parts = answers.split_answer("\n".join(lines), detail=detail, limit=limit)
    drafts = [_Draft(part, notice(part)[0].blocks, bool(_tables(part))) for part in parts]
    groups = list(structured)
    for shown in (
        *records.render_records(approvals.other_groups(groups)),
        *approvals.cards(groups),
    ):
        if drafts and (joined := drafts[-1].joined(shown)):
            drafts[-1] = joined
        else:
            drafts.append(_Draft(shown.text, shown.blocks, shown.has_table))
    return tuple(
        Rendered(fallback_text("", draft.text, limit=limit), draft.blocks) for draft in drafts
    )


def help_message(text: str, examples: Sequence[str] = ()) -> Rendered:
    """Return the message of a help. Each button asks its example in the name of the person who
    presses it.

    Args:
        text: mrkdwn of the bot's own; its links to channels stay live.
        examples: requests of at most 75 characters each, Slack's limit for a label:
            https://docs.slack.dev/reference/block-kit/block-elements/button-element.
    """
    buttons = [
        {
            "type": "button",
            "text": {"type": "plain_text", "text": example},
            "action_id": f"{ASK_EXAMPLE}:{number}",
            "value": example,
        }
        for number, example in enumerate(examples, start=1)
    ]
    actions: tuple[Block, ...] = ({"type": "actions", "elements": buttons},) if buttons else ()
    return Rendered(text, (section(text), *actions))


def _tables(text: str) -> list[tuple[int, int]]:
    """Return the line ranges of the tables in a Markdown text, as first line and end
    (exclusive).
    """
    found: list[tuple[int, int]] = []
    lines = text.split("\n")
    fenced = False
    for number, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif found and number < found[-1][1]:
            continue
        elif (
            not fenced
            and number
            and {"|", "-"} <= set(line) <= set("|-: \t\r")
            and "|" in lines[number - 1]
        ):
            # The line between the head of a table and its rows.
            end = next(
                (at for at in range(number, len(lines)) if "|" not in lines[at]), len(lines)
            )
            found.append((number - 1, end))
    return found


def _characters(value: Any) -> int:
    """Count the characters of blocks that a person reads."""
    if isinstance(value, Mapping):
        texts = value.get("text")
        own = len(texts) if isinstance(texts, str) else 0
        return own + sum(_characters(each) for each in value.values() if not isinstance(each, str))
    return sum(map(_characters, value)) if isinstance(value, list | tuple) else 0


def notice_text(kind: NoticeReason, until: float = 0.0) -> str:
    """Return the text of a notice; `until` is in seconds since 1970."""
    if kind is NoticeReason.THROTTLED:
        return (
            "You are writing faster than I can answer, so I have skipped your last messages. "
            "Please wait a minute, then send again what you still need."
        )
    if kind is NoticeReason.NOT_FORWARDED:
        return (
            "Your last message could not be shown to the person who took this over, so they "
            "have not seen it. Please send it again later, or contact them another way."
        )
    if kind is NoticeReason.FORWARDED_LATER:
        return (
            "The person who took this over has not seen your last message yet, because Slack is "
            "not accepting it at the moment. I will show it to them as soon as Slack accepts it."
        )
    if kind is NoticeReason.MODEL_SLOW:
        by = f" by {datetime.fromtimestamp(until, UTC):%H:%M} UTC" if until else ""
        return (
            "I am still waiting for my language model. I will answer here as soon as it responds, "
            f"or tell you{by} that it has not. Write *stop* to cancel."
        )
    waits = f" until {datetime.fromtimestamp(until, UTC):%H:%M} UTC" if until else ""
    return (
        "My language model is not answering at the moment. Your message is saved. I will keep "
        f"trying{waits} and answer here as soon as the model is back. Write *stop* to cancel."
    )


DELETED = (
    "The message was deleted, so there is nothing for me to answer. Write again when you need me."
)
NO_MODEL = (
    "I cannot answer yet, because I have no language model. "
    "Please ask the admin to set one up, and then write to me again."
)
TOO_LONG = (
    "This thread is too long for my language model, even after I shortened it. "
    "Please start a new thread and tell me there what matters from this one."
)


def no_answer_text(reason: str) -> str:
    """Return the text for a turn without an answer. `reason`: the model's failure as a sentence
    without internals.
    """
    return f"I have no answer for you, because my language model did not give one. {reason}"
