"""What an operator is asked, before anything is done about it: its white space in order, its length bounded."""

import re
from dataclasses import dataclass
from enum import StrEnum

LONGEST = 5_000
"""Characters of a question; a longer one is cut at a word, and its writer is told."""

_UNSEEN = re.compile(r"[\u200b\u2060\ufeff]")
"""Marks without a width that come along when text is copied, amid words and ids; not those that join an emoji."""
_MENTION = re.compile(r"<@[^<>]*>")
_MARKUP = 300
"""Characters of a link or a mention that a cut spares; a `<` further back is somebody's own sign."""


class Missing(StrEnum):
    """Why nothing is done, on record under this name."""

    QUESTION = "missing_question"
    """Nothing was said besides mentions."""
    CHANNEL = "missing_channel"
    THREAD = "missing_thread"


@dataclass(frozen=True)
class Question:
    """`cut`: it was longer, and the reply has to say so. `thread_ts`: of the thread's root."""

    text: str
    channel: str
    thread_ts: str
    cut: bool = False


def validated(text: str | None, channel: str | None, thread_ts: str | None) -> Question | Missing:
    """The question as the operator takes it, or the first thing that it lacks."""
    whole = normalised(text or "")
    if not _MENTION.sub("", whole).strip():
        return Missing.QUESTION
    if not (channel or "").strip():
        return Missing.CHANNEL
    if not (thread_ts or "").strip():
        return Missing.THREAD
    kept = cut(whole)
    return Question(kept, (channel or "").strip(), (thread_ts or "").strip(), cut=kept != whole)


def cut_note() -> str:
    """The sentence that tells somebody that their question was too long."""
    return f"Your message is longer than {LONGEST:,} characters. I have read only the part before that."


def normalised(text: str) -> str:
    """One blank for many, no blanks around a line, one empty line for many: a list stays a list."""
    lines = (" ".join(line.split()) for line in _UNSEEN.sub("", text).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def cut(text: str) -> str:
    """At most `LONGEST` characters of a normalised text: whole words, unless one has no end."""
    if len(text) <= LONGEST:
        return text
    gaps = [text.rfind(blank, LONGEST // 2, LONGEST + 1) for blank in (" ", "\n")]
    kept = text[: max(gaps)] if max(gaps) > 0 else text[:LONGEST]
    before, opened, inside = kept.rpartition("<")
    if opened and before.strip() and ">" not in inside and len(inside) < _MARKUP:
        kept = before
    return kept.rstrip()
