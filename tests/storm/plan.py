"""What people do in a storm: each case's messages, in bursts and out of order, the same again for the same seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from random import Random

from threadline.devstack.slack_sandbox import identity
from threadline.domain import addressing, messages
from threadline.domain.addressing import Thread
from threadline.domain.messages import IncomingMessage

DUPLICATES, EDITS, CLOSES = 0.1, 0.12, 0.15
"""Shares of the messages that are delivered twice, that correct another, and that ask to close the case."""


def dice(seed: str) -> Random:
    """Throws that come again for the same seed."""
    return Random(seed)  # noqa: S311 - no secret depends on them


@dataclass(frozen=True)
class Burst:
    """Messages that are sent at once, `after` seconds after those before."""

    after: float
    messages: tuple[IncomingMessage, ...]


@dataclass(frozen=True)
class CasePlan:
    thread: Thread
    bursts: tuple[Burst, ...]

    @property
    def messages(self) -> dict[str, IncomingMessage]:
        return {message.id: message for burst in self.bursts for message in burst.messages}


def case_plan(thread: Thread, count: int, random: Random) -> CasePlan:
    """`count` messages; the last asks for more while the case is being closed at the word of the one before."""
    said = [_report(thread)]
    for number in range(1, count - 2):
        said.append(_next(thread, number, said, random))
    closing = _said(thread, count - 2, messages.CLOSE, messages.REPORTER, "never mind")
    last = _said(thread, count - 1, messages.MESSAGE, messages.REPORTER, "wait, it is still broken")
    ending = (Burst(random.uniform(0.3, 1.2), (closing,)), Burst(random.uniform(0.0, 0.6), (last,)))
    return CasePlan(thread, (*_bursts(_delivered(said, random), random), *ending))


def _next(thread: Thread, number: int, said: list[IncomingMessage], random: Random) -> IncomingMessage:
    fate = random.random()
    if fate < EDITS:
        return _edit(thread, number, random.choice([m for m in said if m.kind in (messages.REPORT, messages.MESSAGE)]))
    if fate < EDITS + CLOSES:
        return _said(thread, number, messages.CLOSE, messages.REPORTER, "never mind")
    sender = random.choice((messages.REPORTER, messages.REPORTER, messages.DEVELOPER))
    return _said(thread, number, messages.MESSAGE, sender, f"detail {number}")


def _report(thread: Thread) -> IncomingMessage:
    return _said(thread, 0, messages.REPORT, messages.REPORTER, "The cart total is wrong")


def _said(thread: Thread, number: int, kind: str, sender: str, text: str) -> IncomingMessage:
    ts = _ts(thread, number)
    developer = sender == messages.DEVELOPER
    channel = identity.SUMMARIES if developer else thread.channel
    user = identity.DEVELOPER if developer else identity.REPORTER
    return IncomingMessage(addressing.message_id(thread.team, channel, ts), kind, sender, user, text, channel, ts)


def _edit(thread: Thread, number: int, original: IncomingMessage) -> IncomingMessage:
    edited = _ts(thread, number)
    return IncomingMessage(
        addressing.edit_id(thread.team, original.channel, original.ts, edited),
        messages.EDIT,
        original.sender_type,
        original.sender_id,
        f"{original.text}, that is to say {number}",
        original.channel,
        original.ts,
        correction_of=original.id,
        version=edited,
    )


def _ts(thread: Thread, number: int) -> str:
    return str(Decimal(thread.ts) + Decimal(number) / 100)


def _delivered(said: list[IncomingMessage], random: Random) -> list[IncomingMessage]:
    """Each message near its place, some once more later; what opens the case is a word of its reporter."""
    places = [(number + random.uniform(0, 5), message) for number, message in enumerate(said)]
    again = [(place + random.uniform(0, 8), message) for place, message in places if random.random() < DUPLICATES]
    delivered = [message for _, message in sorted(places + again, key=lambda each: each[0])]
    opening = next(m for m in delivered if m.sender_type == messages.REPORTER and m.kind != messages.EDIT)
    delivered.remove(opening)
    return [opening, *delivered]


def _bursts(delivered: list[IncomingMessage], random: Random) -> Iterator[Burst]:
    yield Burst(0.0, (delivered.pop(0),))
    while delivered:
        size = random.choice((1, 1, 2, 4, 8))
        yield Burst(random.uniform(0.0, 1.6), tuple(delivered[:size]))
        delivered = delivered[size:]
