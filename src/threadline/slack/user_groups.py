"""UserGroups: the members of Slack's user groups, cached for five minutes."""

import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import structlog

from threadline.errors import Permanent, Transient

CACHE_SECONDS = 300.0
"""Seconds for which an answer is valid; a member who leaves the group counts until then."""
STALE_SECONDS = 3600.0
"""Seconds for which the last answer is valid while Slack does not give another."""

_log = structlog.get_logger(__name__)


class GroupFaults(Protocol):
    """Notifies the admin, once each, that a group cannot be read and that it can be read again."""

    def report(self, kind: str, subject: str, text: str) -> Awaitable[None]: ...

    def resolve(self, kind: str, subject: str = "") -> Awaitable[None]: ...


FAULT = "user group"
"""The kind of fault of a group that permanently cannot be read."""


class UserGroups:
    """The process's cache of `usergroups.users.list`. `fetch`: `SlackClient.user_group`. `clock`:
    monotonic seconds.
    """

    def __init__(
        self,
        fetch: Callable[[str], Coroutine[Any, Any, frozenset[str]]],
        clock: Callable[[], float] = time.monotonic,
        faults: GroupFaults | None = None,
    ) -> None:
        self._faults = faults
        self._fetch = fetch
        self._clock = clock
        self._cache: dict[str, tuple[frozenset[str], float]] = {}

    def is_cached(self, group_id: str) -> bool:
        """Return whether `members` answers without a call to Slack."""
        found = self._cache.get(group_id)
        return found is not None and self._clock() < found[1] + CACHE_SECONDS

    async def members(self, group_id: str) -> frozenset[str]:
        """Return the users of a group. While Slack does not answer, those of its last answer, for
        an hour.

        Raises:
            Permanent: there is no such group, or the bot may not read it.
            Transient: Slack does not answer, and has not within the last hour.
        """
        known = self._cache.get(group_id)
        if known and self._clock() < known[1] + CACHE_SECONDS:
            return known[0]
        try:
            members = await self._fetch(group_id)
        except Transient as fault:
            if known and self._clock() < known[1] + STALE_SECONDS:
                _log.warning("user_group_stale", group=group_id, reason=str(fault))
                return known[0]
            raise
        except Permanent as fault:
            self._cache.pop(group_id, None)
            _log.error("user_group_unreadable", group=group_id, reason=str(fault))
            if self._faults:
                await self._faults.report(
                    FAULT,
                    group_id,
                    f"Until this is solved, the group {group_id} counts as empty. {fault}",
                )
            raise
        if self._faults and known is None:
            await self._faults.resolve(FAULT, group_id)
        self._cache[group_id] = members, self._clock()
        return members
