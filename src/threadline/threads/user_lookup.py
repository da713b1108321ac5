"""Who people are, as Slack says it: asked once an hour for each of them, whoever wants to know."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from threadline.slack.model import User, is_full_member
from threadline.threads.user_names import PeopleLookup

KEPT = 3600.0
"""Seconds for which an answer counts, as it does at the gateway."""
_MOST = 10_000
"""People who are remembered; whoever was not seen for longest is asked about again."""


class KnownPeople(PeopleLookup):
    """Remembers in this process what it was told; what Slack did not say is asked again.

    Args:
        clock: seconds, rising.
    """

    def __init__(self, people: PeopleLookup, clock: Callable[[], float] = time.monotonic) -> None:
        self._people = people
        self._clock = clock
        self._known: OrderedDict[str, tuple[User | None, float]] = OrderedDict()
        self._asked: dict[str, asyncio.Task[User | None]] = {}

    async def person(self, user: str) -> User | None:
        person, until = self._known.get(user, (None, float("-inf")))
        if self._clock() < until:
            self._known.move_to_end(user)
            return person
        # One question for all who ask at once; whoever is broken off leaves it to the others.
        return await asyncio.shield(self._asked.get(user) or self._ask(user))

    def _ask(self, user: str) -> "asyncio.Task[User | None]":
        async def ask() -> User | None:
            return await self._people.person(user)

        task = asyncio.create_task(ask())
        self._asked[user] = task
        task.add_done_callback(lambda done: self._remember(user, done))
        return task

    def _remember(self, user: str, done: "asyncio.Task[User | None]") -> None:
        del self._asked[user]
        # Looking at the exception also keeps asyncio from complaining where nobody waits for it any more.
        if done.cancelled() or done.exception():
            return
        self._known[user] = (done.result(), self._clock() + KEPT)
        self._known.move_to_end(user)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)


async def all_inside(people: PeopleLookup, team: str, users: Iterable[str]) -> bool:
    """Whether each of them is a full member of the team's workspace. Raises `Permanent` or `Transient`."""
    return all([is_full_member(team, await people.person(each)) for each in users])
