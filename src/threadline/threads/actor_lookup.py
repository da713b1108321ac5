"""Who asks: a Slack user as an actor, from the table that Slack's answers are kept in."""

import time
from collections.abc import Callable

import structlog

from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.slack.model import User, UserProfile
from threadline.threads.user_names import LONGEST, PeopleLookup

KEPT = 24 * 3600.0
"""Seconds for which what is kept counts; then Slack is asked again, and while it is silent the old answer stands."""
_LONGEST_EMAIL = 320

_log = structlog.get_logger(__name__)


class Actors:
    """Args: `clock` returns seconds since 1970."""

    def __init__(self, database: Database, people: PeopleLookup, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._people = people
        self._clock = clock

    async def of(self, team: str, user_id: str) -> UserProfile:
        """Who that is, as far as it can be known; never raises: without an answer there is only the id."""
        known = await self._kept(team, user_id)
        if known and self._clock() - known.fetched_at < KEPT:
            return known
        nobody = known or UserProfile(user_id, "", "", "", 0.0)
        try:
            person = await self._people.person(user_id)
        except (Permanent, Transient) as error:
            _log.warning("actor_lookup_failed", user=user_id, reason=str(error))
            return nobody
        return await self._save(team, _actor(user_id, person, self._clock())) if person else nobody

    async def _kept(self, team: str, user_id: str) -> UserProfile | None:
        try:
            async with self._database.begin() as work:
                return await work.actors.of(team, user_id)
        except (Permanent, Transient) as error:
            _log.warning("actor_read_failed", user=user_id, reason=str(error))
            return None

    async def _save(self, team: str, actor: UserProfile) -> UserProfile:
        try:
            async with self._database.begin() as work:
                await work.actors.save(team, actor)
        except (Permanent, Transient) as error:
            _log.warning("actor_not_stored", user=actor.user_id, reason=str(error))
        return actor


def _actor(user_id: str, person: User, now: float) -> UserProfile:
    """To the company's own systems a person is their address, whatever the case of its letters."""
    email = "".join(person.email.split())[:_LONGEST_EMAIL]
    name = " ".join(person.name.split())[:LONGEST]
    return UserProfile(user_id, email, name, email.lower(), now)
