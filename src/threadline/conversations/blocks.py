"""What a conversation says in Slack: a turn's answer with the records of its tools, and short fixed texts. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from threadline.approvals import blocks as approvals
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import NoticeReason
from threadline.privacy.redaction import redact
from threadline.slack.formatting import TEXT_LIMIT, Block, Rendered, escape_mentions, fallback_text, notice
from threadline.tools import blocks as records

MOST_BLOCKS = 50
"""In one message: https://docs.slack.dev/reference/block-kit/blocks."""
MOST_CHARACTERS = 12_000
"""In all blocks of one message; see `slack.formatting` for what Slack takes."""

_UNSENDABLE = re.compile(r"[\x00\ud800-\udfff]")
"""What is no text in UTF-8, or not for Slack."""


@dataclass(frozen=True)
class _Draft:
    """A message that more may be added to. `text` is Markdown that calls nobody."""

    text: str = ""
    blocks: tuple[Block, ...] = ()
    has_table: bool = False

    def joined(self, shown: records.RenderedRecords) -> "_Draft | None":
        """With these records in it, as lines where a second table would be too much; None where there is no room."""
        as_lines = self.has_table and shown.has_table
        blocks = (*self.blocks, *(shown.lines if as_lines else shown.blocks))
        if (as_lines and not shown.lines) or len(blocks) > MOST_BLOCKS or _characters(blocks) > MOST_CHARACTERS:
            return None
        text = f"{self.text}\n\n{shown.text}" if self.text else shown.text
        return _Draft(text, blocks, self.has_table or shown.has_table)


def answer_of(
    text: str, structured: Iterable[tuple[str, Sequence[object]]] = (), detail: bool = False
) -> tuple[Rendered, ...]:
    """What to post, one message each: the records stand in the last part, or behind it where Slack takes no more in one
    message. Empty only when nothing could be seen of the text and there are no records.

    `text`: Markdown by the model, or our own; it can call nobody. `structured`: kinds with their records, oldest first;
    see `tools.blocks.render_records` and `approvals.blocks`. With `detail` all of the text is posted, in as many parts
    as it takes, else at most `answers.LIMIT` characters of it.
    """
    limit = TEXT_LIMIT if detail else answers.LIMIT
    # Before it is cut: a key that is spread over two messages would be recognised in neither.
    clean = escape_mentions(redact(_UNSENDABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\0", ""))))
    lines = clean.split("\n")
    for start, end in reversed(_tables(clean)[1:]):  # of a message with two Slack shows nothing, whoever drew them
        lines[start:end] = ["```", *lines[start:end], "```"]
    parts = answers.split_answer("\n".join(lines), detail=detail, limit=limit)
    drafts = [_Draft(part, notice(part)[0].blocks, bool(_tables(part))) for part in parts]
    groups = list(structured)
    for shown in (*records.render_records(approvals.other_groups(groups)), *approvals.cards(groups)):
        if drafts and (joined := drafts[-1].joined(shown)):
            drafts[-1] = joined
        else:
            drafts.append(_Draft(shown.text, shown.blocks, shown.has_table))
    return tuple(Rendered(fallback_text("", draft.text, limit=limit), draft.blocks) for draft in drafts)


def _tables(text: str) -> list[tuple[int, int]]:
    """Where the tables of a Markdown text are: the first line of each, and the one behind its last."""
    found: list[tuple[int, int]] = []
    lines = text.split("\n")
    fenced = False
    for number, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif found and number < found[-1][1]:
            continue
        elif not fenced and number and {"|", "-"} <= set(line) <= set("|-: \t\r") and "|" in lines[number - 1]:
            # The line between the head of a table and its rows.
            end = next((at for at in range(number, len(lines)) if "|" not in lines[at]), len(lines))
            found.append((number - 1, end))
    return found


def _characters(value: Any) -> int:
    """Characters that a person reads of blocks."""
    if isinstance(value, Mapping):
        texts = value.get("text")
        own = len(texts) if isinstance(texts, str) else 0
        return own + sum(_characters(each) for each in value.values() if not isinstance(each, str))
    return sum(map(_characters, value)) if isinstance(value, list | tuple) else 0


def notice_text(kind: NoticeReason, until: float = 0.0) -> str:
    """A short text beside a conversation's answers; `until` is in seconds since 1970."""
    if kind is NoticeReason.THROTTLED:
        return (
            "You are writing faster than I can answer, so I have skipped your last messages. "
            "Please wait a minute, then send again what you still need."
        )
    if kind is NoticeReason.NOT_FORWARDED:
        return (
            "Your last message could not be shown to the person who took this over, so they have not seen it. "
            "Please send it again later, or contact them another way."
        )
    if kind is NoticeReason.FORWARDED_LATER:
        return (
            "The person who took this over has not seen your last message yet, because Slack does not take it at the "
            "moment. I will show it to them as soon as it does."
        )
    waits = f" until {datetime.fromtimestamp(until, UTC):%H:%M} UTC" if until else ""
    return (
        "My language model is not answering at the moment. Your message is saved. I keep trying"
        f"{waits} and answer here as soon as the model is back. Write *stop* to cancel."
    )


DELETED = "The message was deleted, so there is nothing for me to answer. Write again when you need me."
NO_MODEL = (
    "I cannot answer yet, because I have no language model. "
    "Please ask the admin to set one up, and then write to me again."
)
TOO_LONG = (
    "This thread is too long for my language model, even after I shortened it. "
    "Please start a new thread and tell me there what matters from this one."
)


def no_answer_text(reason: str) -> str:
    """For the person whose turn has none; `reason` is the model's side of it as a sentence without internals."""
    return f"I have no answer for you, because my language model did not give one. {reason}"
