"""What holds for one turn: fixed at its first step, kept with the note that tells it, and so the same at every step.

The note stands in the transcript (`c:<turn>`). Its words are for the model; what the steps themselves need to know is
beside them as JSON, in the field in which an assistant's message keeps its provider's form.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter, ValidationError

from threadline.models.model import Message, Role
from threadline.slack.model import name_with_id


@dataclass(frozen=True)
class Briefing:
    """A turn's context.

    Args:
        turn: its number, from 1.
        at: when it began, in seconds since 1970.
        user_id: who is acted for: the author of the newest message that the turn began with,
            of those to the bot if there are any.
        actor: their name.
        request_id: the id of that message.
        others: further people whose messages the turn began with, as `name_with_id` names them.
        clocks: time zones with the people who live by them, named likewise.
        begun_late: what was said in the thread before the bot was first called was not told to it.
        several: more than one person has written in the thread.
        addressed: the bot was spoken to, so it has to answer.
        read_only: nothing may be changed in this turn, `because` of this ("the project PRJ-1 is locked").
        records: what the thread is about, in words ("project PRJ-1").
        ids: of the latest results, see `references`.
        since: the place of the first earlier message of the transcript that is sent as it is.
    """

    turn: int
    at: float
    user_id: str
    actor: str
    request_id: str
    others: tuple[str, ...] = ()
    clocks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    begun_late: bool = False
    several: bool = False
    addressed: bool = True
    read_only: bool = False
    because: str = ""
    records: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    since: int = 0

    def message(self) -> Message:
        """The note, as the transcript keeps it."""
        return Message(Role.SYSTEM, "\n".join(self._lines()), opaque=_BRIEFINGS.dump_json(self).decode())

    def _lines(self) -> Iterable[str]:
        yield f"[Context] It is {_moment(self.at, UTC)} UTC."
        for zone, people in self.clocks:
            there = _moment(self.at, ZoneInfo(zone))
            yield f"For {_together(people)} it is {there} ({zone}): they mean its days and times."
        yield from [_BEGUN_LATE] if self.begun_late else []
        yield f"{_together([name_with_id(self.actor, self.user_id), *self.others])} wrote what follows."
        if self.others:
            yield "What you do for one of them names that person by the id."
        if not self.addressed:
            yield "You were not spoken to: people talk with each other here. Answer only what is meant for you."
        elif self.several:
            yield "You were spoken to, in a thread with several people: give an answer."
        else:
            yield "You were spoken to: give an answer."
        if self.records:
            yield f"This thread is about {_together(self.records)}."
        if self.read_only:
            yield f"Read-only: {self.because or 'nothing may be changed'}. What would change something is not offered."
        if self.ids:
            yield f"Ids in the latest results, the newest result first, each in its own order: {', '.join(self.ids)}."


def read(message: Message | None) -> Briefing | None:
    """The briefing that a message of the transcript is; None when it is none."""
    if message is None or message.role is not Role.SYSTEM or not message.opaque:
        return None
    try:
        return _BRIEFINGS.validate_json(message.opaque)
    except ValidationError:
        return None


def _moment(at: float, zone: tzinfo) -> str:
    return f"{datetime.fromtimestamp(at, zone):%A, %Y-%m-%d %H:%M}"


def _together(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


_BEGUN_LATE = "What was said here before you were called is not shown to you: where it matters, say so and ask for it."
_BRIEFINGS = TypeAdapter(Briefing)
