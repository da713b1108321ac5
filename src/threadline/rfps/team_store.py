"""Who answers requests for proposals, as they are known to the team."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.values import storable
from threadline.rfps.tables import team_members
from threadline.rfps.team_members import MemberNotFound, MemberRefused, TeamMember

_HOURS = 168
_LONGEST = 300
_LONGEST_BIOGRAPHY = 10_000
_MOST_SKILLS = 100


class Team:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def save(self, team: str, member: TeamMember) -> None:
        """Keep what is known of somebody, in the place of what was.

        Raises:
            MemberRefused: there is no id or no name, or the capacity is no number of hours in a week.
        """
        texts = (member.user_id, member.name, member.email, member.role)
        user_id, name, email, role = (_line(each) for each in texts)
        if not (user_id and name):
            raise MemberRefused("a team member needs a Slack user id and a name")
        if not 0 <= member.capacity <= _HOURS:
            raise MemberRefused(f"the capacity of {name} must be a number of hours a week, from 0 to {_HOURS}")
        row = {
            "name": name,
            "email": email,
            "role": role,
            "biography": storable(member.biography).strip()[:_LONGEST_BIOGRAPHY],
            "skills": [skill for skill in dict.fromkeys(map(_line, member.skills)) if skill][:_MOST_SKILLS],
            "capacity": member.capacity,
            "updated_at": func.now(),
        }
        new = insert(team_members).values(team=team, user_id=user_id, **row)
        await self._connection.execute(new.on_conflict_do_update(index_elements=["team", "user_id"], set_=row))

    async def listed(self, team: str, skill: str = "", limit: int = 100) -> list[TeamMember]:
        """By name; only those who have a skill with these words in it, where some are given."""
        member = team_members.c
        query = select(team_members).where(member.team == team).order_by(func.lower(member.name)).limit(limit)
        if skill:
            each = func.unnest(member.skills).column_valued("skill")
            has = func.strpos(func.lower(each), func.lower(_line(skill))) > 0
            query = query.where(select(each).where(has).exists())
        return [_member(row) for row in await self._connection.execute(query)]

    async def named(self, team: str, words: str) -> list[TeamMember]:
        """Everybody of this Slack id or this name, whatever its letters' case. Raises `MemberNotFound`."""
        member, sought = team_members.c, _line(words).removeprefix("<@").removesuffix(">")
        named = or_(member.user_id == sought, func.lower(member.name) == func.lower(sought))
        query = select(team_members).where(member.team == team, named).order_by(member.user_id)
        found = [_member(row) for row in await self._connection.execute(query)]
        if not found:
            raise MemberNotFound(f"no team member is called {sought!r}: list the team")
        return found

    async def has_address(self, team: str, email: str) -> bool:
        """Whether somebody of the team has this mail address, in small letters."""
        member = team_members.c
        query = select(member.user_id).where(member.team == team, func.lower(member.email) == storable(email)).limit(1)
        return (await self._connection.execute(query)).first() is not None

    async def of(self, team: str, user_ids: Sequence[str]) -> dict[str, TeamMember]:
        """What is known of these people, by id; who is not there is nobody of the team."""
        member = team_members.c
        query = select(team_members).where(member.team == team, member.user_id.in_([_line(each) for each in user_ids]))
        return {row.user_id: _member(row) for row in await self._connection.execute(query)}

    async def forget(self, team: str, user_id: str) -> bool:
        """Whether somebody was known by this id; nobody is any more."""
        member = team_members.c
        gone = delete(team_members).where(member.team == team, member.user_id == _line(user_id))
        return (await self._connection.execute(gone)).rowcount > 0


def _line(text: str) -> str:
    return " ".join(storable(text).split())[:_LONGEST]


def _member(row: Row[Any]) -> TeamMember:
    skills = tuple(row.skills)
    return TeamMember(row.user_id, row.name, row.email, row.role, row.biography, skills, row.capacity)
