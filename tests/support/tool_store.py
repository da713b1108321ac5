"""Shared parts of the tests of the tools' records: a thread, a moment, and calls in it."""

from threadline.slack.model import Thread
from threadline.tools.model import Author, Change, Operation

AUTHOR = Author("U1", "corr-1")
THREAD = Thread("T1", "C1", "1700000000.000000")
NOW = 1_772_000_000.0
"""25 February 2026, 06:13:20 UTC."""


def operation(
    call_id: str = "call_1", *, turn: int = 1, step: int = 1, thread: Thread = THREAD
) -> Operation:
    return Operation(thread, turn, step, call_id)


def change(
    call_id: str = "call_1", *, now: float = NOW, team: str = "T1", author: Author = AUTHOR
) -> Change:
    return Change(operation(call_id, thread=Thread(team, THREAD.channel, THREAD.ts)), author, now)
