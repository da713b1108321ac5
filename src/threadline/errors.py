"""The two sides an error can be on; it picks one where it is understood, and Temporal does the retrying."""

from collections.abc import Iterator
from contextlib import contextmanager


class Permanent(Exception):
    """Trying again cannot help. The message tells a person what to do next."""


class ProgramFault(Permanent):
    """The program or its schema is wrong. The message is for whoever runs it, and for nobody who only asks for
    something."""


class Transient(Exception):
    """Trying again may help.

    `retry_after` is the least number of seconds to wait, where the other side named one.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Undone(Transient):
    """The other side surely did nothing: it limits the rate of calls, say."""


@contextmanager
def before_a_change() -> Iterator[None]:
    """Around what is read before something is changed: when that fails for now, surely nothing was changed."""
    try:
        yield
    except Transient as fault:
        raise Undone(str(fault), retry_after=fault.retry_after) from fault


class CaseNotFound(Permanent):
    """No case has this `bug_id`, or no case belongs to this thread."""


class ConversationNotFound(Permanent):
    """Nobody has spoken to the bot in this thread, or it is forgotten."""


class IllegalTransition(Permanent):
    """The case's status does not allow this step; see `TRANSITIONS` in `cases/model.py`."""


class ClaimLost(Permanent):
    """Another attempt, or the closing of the case, has taken the turn over: whoever sees this stops at once."""


class OnRecord(Permanent):
    """What is on record stays as it is: a journal, a log of events and a decision are never rewritten."""
