"""Who may have a say: people of other companies, strangers and guests count only in channels that are open to them."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

from threadline.errors import Permanent, Transient
from threadline.gateway.routes import Ignored, IgnoreReason, Placed
from threadline.slack.model import Thread, User
from threadline.threads.messages import DELETION

KEPT = 3600.0
"""Seconds for which an answer counts; somebody who becomes a guest is noticed after that."""

REFUSALS = frozenset({IgnoreReason.STRANGER, IgnoreReason.OTHER_COMPANY, IgnoreReason.GUEST})

_PATIENCE = 1.0
"""Seconds that an event waits for Slack's answer. The question goes on, and the next delivery finds its answer."""

_MOST = 10_000
"""People who are remembered; whoever was not seen for longest is asked about again."""


class PeopleLookup(Protocol):
    async def person(self, user: str) -> User | None:
        """Who the user is; None when Slack knows nobody of this id, or does not show them.

        Raises:
            Permanent | Transient: Slack did not say.
        """
        ...


class Doorkeeper:
    """Lets routes pass, or turns them into ignored ones.

    Args:
        people: asked once an hour for each person.
        open_to_all: channels in which external people count like others; nobody is asked about them there.
        clock: seconds, rising.
    """

    def __init__(
        self, people: PeopleLookup, open_to_all: Collection[str] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._people = people
        self._open = frozenset(open_to_all)
        self._clock = clock
        self._known: OrderedDict[str, tuple[User | None, float]] = OrderedDict()
        self._asked: dict[str, asyncio.Task[User | None]] = {}

    async def admit(self, route: Placed | Ignored) -> Placed | Ignored:
        """The route, or why it goes nowhere; a deletion passes, since it only takes something away.

        Raises:
            Permanent | Transient: Slack did not say who it is: nobody is let in, or turned away, by a guess.
        """
        if isinstance(route, Ignored) or route.message.kind == DELETION:
            return route
        message = route.message
        if reason := await self.refusal(route.thread, message.channel, message.sender_id):
            return Ignored(reason)
        return await self._among_people(route)

    async def refusal(self, thread: Thread, channel: str, user_id: str) -> IgnoreReason | None:
        """Why somebody's words count for nothing in a channel; None where they count. Raises as `admit`."""
        return None if channel in self._open else _refusal(await self._who(user_id), thread)

    async def _among_people(self, route: Placed) -> Placed:
        """The route, without an app that wrote the root, an alert say: it is nobody to whom people talk there.

        While Slack does not say what wrote the root, it counts as somebody.
        """
        message = route.message
        if message.root_by in ("", message.sender_id):
            return route
        try:
            root = await self._who(message.root_by)
        except (Permanent, Transient):
            return route
        return replace(route, message=replace(message, root_by="")) if root and root.bot else route

    async def _who(self, user: str) -> User | None:
        person, until = self._known.get(user, (None, float("-inf")))
        if self._clock() < until:
            self._known.move_to_end(user)
            return person
        # One question for all events of one person: a burst must not use up Slack's rate limit.
        asked = self._asked.get(user) or self._ask(user)
        try:
            async with asyncio.timeout(_PATIENCE):
                return await asyncio.shield(asked)
        except TimeoutError as exc:
            raise Transient(f"Slack did not identify {user} in time, so it will deliver the event again.") from exc

    def _ask(self, user: str) -> "asyncio.Task[User | None]":
        task = asyncio.create_task(self._people.person(user))
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


def _refusal(person: User | None, thread: Thread) -> IgnoreReason | None:
    if person is None or person.external:
        return IgnoreReason.STRANGER
    # History, which the catch-up reads, does not always name the author's workspace; their record does.
    if person.team not in ("", thread.team):
        return IgnoreReason.OTHER_COMPANY
    return IgnoreReason.GUEST if person.guest else None
