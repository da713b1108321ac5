"""What people are called and by which clock they live, so that a model can tell those in a thread apart."""

from collections import OrderedDict
from typing import Protocol
from zoneinfo import ZoneInfo

import structlog

from threadline.errors import Permanent, Transient
from threadline.slack.model import User

LONGEST = 80
_MOST = 10_000
"""People who are remembered; whoever was not seen for longest is asked about again."""

_log = structlog.get_logger(__name__)


class PeopleLookup(Protocol):
    async def person(self, user: str) -> User | None:
        """Who the user is; None when nobody is known by this id. Raises `Permanent` or `Transient`."""
        ...


class Names:
    """Remembers in this process whom it has asked about; what is new about them is seen with the next process."""

    def __init__(self, people: PeopleLookup) -> None:
        self._people = people
        self._known: OrderedDict[str, tuple[str, str]] = OrderedDict()

    async def of(self, user: str) -> str:
        """The name in one line without a colon, which ends a name before a message; the id while nobody says it."""
        return (await self._about(user))[0]

    async def time_zone(self, user: str) -> str:
        """As `zoneinfo` knows it; empty while nobody says it."""
        return (await self._about(user))[1]

    async def _about(self, user: str) -> tuple[str, str]:
        if user in self._known:
            self._known.move_to_end(user)
            return self._known[user]
        try:
            person = await self._people.person(user)
        except (Permanent, Transient) as error:
            _log.info("user_name_lookup_failed", user=user, reason=str(error))
            return user, ""
        name = " ".join((person.name if person else "").replace(":", " ").split())[:LONGEST] or user
        self._known[user] = name, _time_zone(person.time_zone if person else "")
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return self._known[user]


def _time_zone(name: str) -> str:
    try:
        return ZoneInfo(name).key
    except (LookupError, ValueError, OSError):
        return ""
