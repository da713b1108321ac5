"""Slack users: a directory that caches Slack's answers for an hour, and profiles, which are stored
for a day.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import structlog

from threadline.errors import Permanent, Transient
from threadline.slack.model import User, UserProfile, name_with_id, refusal_of

CACHE_SECONDS = 3600.0
"""Seconds for which an answer is valid; a member who becomes a guest counts as a member until
then.
"""
CACHE_SIZE = 10_000
"""Users in memory. The least recently requested one is dropped first."""
PROFILE_SECONDS = 24 * 3600.0
"""Seconds for which a profile in the database is valid. After that Slack is queried again; while
it fails, the old profile is used.
"""
MAX_NAME = 80
_MAX_EMAIL = 320

_log = structlog.get_logger(__name__)


class UserDirectory:
    """The process's cache of `users.info`. Concurrent lookups of a user share one request, since a
    burst of events must not use up Slack's rate limit. Failures are not cached. `fetch`:
    `SlackClient.user`. `clock`: monotonic seconds.
    """

    def __init__(
        self,
        fetch: Callable[[str], Coroutine[Any, Any, User | None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._cache: OrderedDict[str, tuple[User | None, float]] = OrderedDict()
        self._requests: dict[str, asyncio.Task[User | None]] = {}

    async def get(self, user_id: str) -> User | None:
        """Return the user; None if Slack does not know this id, or does not show the user. Raises
        `Permanent` or `Transient` if Slack did not answer.
        """
        user, until = self._cache.get(user_id, (None, float("-inf")))
        if self._clock() < until:
            self._cache.move_to_end(user_id)
            return user
        # A cancelled caller leaves the request to the others.
        if user_id not in self._requests:
            task = self._requests[user_id] = asyncio.create_task(self._fetch(user_id))
            task.add_done_callback(partial(self._remember, user_id))
        return await asyncio.shield(self._requests[user_id])

    def is_cached(self, user_id: str) -> bool:
        """Return whether `get` answers without a call to Slack."""
        return self._clock() < self._cache.get(user_id, (None, float("-inf")))[1]

    async def get_known(self, user_id: str) -> User | None:
        """Return the user as `get` does, for uses that tolerate a stale answer: while Slack does
        not answer, the last answer, or None. Never raises.
        """
        try:
            return await self.get(user_id)
        except (Permanent, Transient) as error:
            _log.info("user_lookup_failed", user=user_id, reason=str(error))
            return self._cache.get(user_id, (None, 0.0))[0]

    async def are_full_members(self, team: str, user_ids: Iterable[str]) -> bool:
        """Return whether each of them is a full member of the team's workspace. Raises as
        `get`.
        """
        return all([refusal_of(await self.get(each), team) is None for each in user_ids])

    def _remember(self, user_id: str, done: "asyncio.Task[User | None]") -> None:
        del self._requests[user_id]
        # Reading the exception also keeps asyncio from logging one that no caller awaits.
        if done.cancelled() or done.exception():
            return
        self._cache[user_id] = (done.result(), self._clock() + CACHE_SECONDS)
        self._cache.move_to_end(user_id)
        if len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)


async def current_profile(
    users: UserDirectory, user_id: str, stored: UserProfile | None, now: float
) -> UserProfile:
    """Return a user's profile: the stored one while it is fresh or Slack does not answer, else
    Slack's.

    Never raises: without any answer, the profile has only the id, and 0 as its time.

    Args:
        stored: the profile in the table `users`, which is available while Slack is down and after
            a restart.
        now: seconds since 1970.
    """
    if stored and now - stored.fetched_at < PROFILE_SECONDS:
        return stored
    old = stored or UserProfile(user_id, "", "", "", 0.0)
    try:
        user = await users.get(user_id)
    except (Permanent, Transient) as error:
        _log.warning("user_lookup_failed", user=user_id, reason=str(error))
        return old
    if user is None:
        return old
    email = "".join(user.email.split())[:_MAX_EMAIL]
    name = " ".join(user.name.split())[:MAX_NAME]
    # The company's own systems identify people by their address in lower case.
    return UserProfile(user_id, email, name, email.lower(), now)


def display_name(user: User | None, user_id: str) -> str:
    """Return the name in one line without a colon, which separates a name from a message; the id
    if there is no name.
    """
    return " ".join((user.name if user else "").replace(":", " ").split())[:MAX_NAME] or user_id


def known_names(users: Mapping[str, User | None]) -> dict[str, str]:
    """Return the names, with the ids, of all known users, for mentions in texts: `Ana (U1)`."""
    return {
        each: name_with_id(display_name(user, each), each) for each, user in users.items() if user
    }


def time_zone(user: User | None) -> str:
    """Return the user's time zone, as `zoneinfo` knows it; empty if there is no such zone."""
    try:
        return ZoneInfo(user.time_zone if user else "").key
    except (LookupError, ValueError, OSError):
        return ""
