"""Whose words in a thread count: external people are nobody, for every reader alike."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import structlog

from threadline.errors import Permanent, Transient
from threadline.slack.model import Thread, User, is_full_member
from threadline.threads.user_names import PeopleLookup

_AT_ONCE = 5
"""People about whom Slack is asked side by side."""

Raw = Mapping[str, Any]

_log = structlog.get_logger(__name__)


class HavingASay:
    """Args: `open_to_all` are the channels in which external people count like others."""

    def __init__(self, people: PeopleLookup, open_to_all: Collection[str] = ()) -> None:
        self._people = people
        self._open = frozenset(open_to_all)
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def among(self, thread: Thread, shown: Sequence[Raw]) -> tuple[list[Raw], dict[str, User | None]]:
        """Those messages of a thread that count, and who wrote there, as far as Slack says it, by their ids.

        Of whom Slack does not say who they are is left out, outside of the channels that are open to all.
        """
        users = list(dict.fromkeys(user for each in shown if (user := _user(each))))
        people = dict(zip(users, await asyncio.gather(*map(self._who, users)), strict=True))
        return [each for each in shown if self._counts(thread, each, people)], people

    async def has(self, thread: Thread, user: str) -> bool:
        """Whether what somebody brings into a thread counts.

        Raises:
            Permanent, Transient: Slack does not say who they are.
        """
        if thread.channel in self._open or not user:
            return True
        return is_full_member(thread.team, await self._people.person(user))

    async def _who(self, user: str) -> User | None:
        async with self._places:
            try:
                return await self._people.person(user)
            except (Permanent, Transient) as error:
                _log.info("author_lookup_failed", user=user, reason=str(error))
                return None

    def _counts(self, thread: Thread, said: Raw, people: Mapping[str, User | None]) -> bool:
        """Whether it is by an app of this workspace, or by somebody who has a say here."""
        if thread.channel in self._open:
            return True
        if said.get("bot_id") or not _user(said):
            return _home(said) in ("", thread.team)
        return is_full_member(thread.team, people[_user(said)])


def _user(said: Raw) -> str:
    return str(said.get("user") or "")


def _home(said: Raw) -> str:
    """The workspace of an app's message, as far as it says."""
    profile = said.get("bot_profile") or {}
    return str(profile.get("team_id") or said.get("user_team") or said.get("team") or "")
