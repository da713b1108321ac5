"""Projects, roles, work items and quotes. Every change locks the project's row, and is refused
while the project is `locked`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import func, insert, or_, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.engine import Store
from threadline.db.values import storable
from threadline.errors import Permanent
from threadline.estimates.model import (
    PROJECT_BINDING,
    NewWbsItem,
    Project,
    ProjectDetails,
    ProjectLocked,
    ProjectNotFound,
    ProjectRole,
    Quote,
    Totals,
    WbsItem,
    WbsItemChange,
    calculate_totals,
    check_number,
)
from threadline.estimates.tables import (
    estimate_items,
    estimate_projects,
    estimate_quotes,
    estimate_roles,
)
from threadline.slack.model import Thread
from threadline.threads.store import ThreadBindingStore
from threadline.threads.tables import thread_bindings

_MAX_DAYS = 100_000
_MOST_RATE = 1_000_000
_MOST_PERCENT = 100
_LATEST_QUOTE = 0
_ID = re.compile(r"prj-\d+", re.IGNORECASE)
_CURRENCY = re.compile("[A-Z]{3}")
_PROJECTS = select(*(estimate_projects.c[each.name] for each in fields(Project)))


class EstimateStore(Store):
    """Projects of one team at a time: other teams' projects are not found."""

    async def get_or_create_project(self, team: str, name: str, currency: str) -> Project:
        """Return the team's project of this name; create it with its first quote if missing. An
        existing project keeps its currency.

        Raises:
            Permanent: the name is empty or looks like a project's id, or `currency` is not three
                capital letters, such as `EUR`.
        """
        named = storable(name).strip()
        if not named or _ID.fullmatch(named):
            raise Permanent(f"a project cannot be called {named!r}")
        if not _CURRENCY.fullmatch(currency):
            raise Permanent(
                f"{currency!r} is not a currency: give its three capital letters, such as EUR"
            )
        new = postgresql.insert(estimate_projects).values(team=team, name=named, currency=currency)
        kept = new.on_conflict_do_nothing().returning(estimate_projects.c.project_id)
        project_id = (await self._tx.execute(kept)).scalar_one_or_none()
        if project_id:
            await self._tx.execute(insert(estimate_quotes).values(project_id=project_id, number=1))
        return await self.project(team, project_id or named)

    async def set_locked(self, team: str, project_id: str, *, locked: bool) -> None:
        """Lock or unlock a project, after a change that is under way. Raises `ProjectNotFound`."""
        project = estimate_projects.c
        named = update(estimate_projects).where(
            project.team == team, project.project_id == project_id
        )
        if (await self._tx.execute(named.values(locked=locked))).rowcount == 0:
            raise ProjectNotFound(f"there is no project {project_id}")

    async def save_role(self, team: str, project_id: str, role: ProjectRole) -> None:
        """Store a role, or its new rate. Raises `ProjectNotFound`, `ProjectLocked`,
        `Permanent`.
        """
        await self._lock(team, project_id)
        rate = check_number("a day rate", role.day_rate, _MOST_RATE)
        name = storable(role.name).strip()
        if not name:
            raise Permanent("a role needs a name")
        new = postgresql.insert(estimate_roles).values(
            project_id=project_id, name=name, day_rate=rate
        )
        known = new.on_conflict_do_update(
            index_elements=["project_id", "name"], set_={"day_rate": rate}
        )
        await self._tx.execute(known)

    async def projects(self, team: str, limit: int | None = None) -> list[Project]:
        """Return projects by name; all of them without a `limit`."""
        project = estimate_projects.c
        query = (
            _PROJECTS.where(project.team == team).order_by(func.lower(project.name)).limit(limit)
        )
        return [Project(*row) for row in await self._tx.execute(query)]

    async def project(self, team: str, words: str) -> Project:
        """Return the project of this id or name, in any case. Raises `ProjectNotFound`."""
        project = estimate_projects.c
        sought = storable(words).strip()
        named = or_(
            project.project_id == sought.upper(), func.lower(project.name) == func.lower(sought)
        )
        row = (await self._tx.execute(_PROJECTS.where(project.team == team, named))).one_or_none()
        if row is None:
            raise ProjectNotFound(
                f"there is no project {sought!r}: give a project's name or id, such as PRJ-1"
            )
        return Project(*row)

    async def records_of(self, thread: Thread) -> tuple[dict[str, str], bool]:
        """Return the records that a thread is about, by kind, and whether its project is
        locked.
        """
        bound = thread_bindings.c
        project = estimate_projects.c
        same = (
            (bound.kind == PROJECT_BINDING)
            & (project.team == bound.team)
            & (project.project_id == bound.record_id)
        )
        query = select(bound.kind, bound.record_id, project.locked).outerjoin_from(
            thread_bindings, estimate_projects, same
        )
        here = (
            bound.team == thread.team,
            bound.channel == thread.channel,
            bound.thread_ts == thread.ts,
        )
        rows = (await self._tx.execute(query.where(*here))).all()
        return {each.kind: each.record_id for each in rows}, any(each.locked for each in rows)

    async def details(self, project: Project) -> ProjectDetails:
        """Return a project with all its parts."""
        roles = await self._roles(project.project_id)
        items = await self.items(project)
        return ProjectDetails(project, roles, items, await self._quotes(project.project_id))

    async def items(self, project: Project) -> list[WbsItem]:
        """Return a project's work items, by number."""
        return await self._items(project.project_id)

    async def roles(self, team: str, project_id: str) -> list[ProjectRole]:
        """Return a project's roles by name. Raises `ProjectNotFound`."""
        return await self._roles((await self.project(team, project_id)).project_id)

    async def create_items(
        self, team: str, project_id: str, new: Sequence[NewWbsItem]
    ) -> list[WbsItem]:
        """Add work items, all or none; their numbers follow the last one. Raises
        `ProjectNotFound`, `ProjectLocked`, `Permanent`: nothing was added; the message has the
        reason.
        """
        await self._lock(team, project_id)
        roles = await self._roles(project_id)
        last = max((item.number for item in await self._items(project_id)), default=0)
        rows = [_checked(project_id, roles, vars(item)) for item in new]
        items = [WbsItem(number=number, **row) for number, row in enumerate(rows, start=last + 1)]
        if items:
            row = [{"project_id": project_id, **vars(item)} for item in items]
            await self._tx.execute(insert(estimate_items).values(row))
        return items

    async def update_items(
        self, team: str, project_id: str, changes: Sequence[WbsItemChange]
    ) -> list[WbsItem]:
        """Change work items, all or none. Return them afterwards, by number. Raises
        `ProjectNotFound`, `ProjectLocked`, `Permanent`: nothing was changed; the message has the
        reason.
        """
        await self._lock(team, project_id)
        roles = await self._roles(project_id)
        known = {item.number: item for item in await self._items(project_id)}
        for each in changes:
            if each.number not in known:
                raise Permanent(f"{project_id} has no item {each.number}; list its items")
            given = {name: value for name, value in vars(each).items() if value is not None}
            known[each.number] = replace(known[each.number], **_checked(project_id, roles, given))
        changed = [known[number] for number in sorted({each.number for each in changes})]
        row = estimate_items.c
        for item in changed:
            here = update(estimate_items).where(
                row.project_id == project_id, row.number == item.number
            )
            await self._tx.execute(here.values(vars(item)))
        return changed

    async def update_quote_totals(
        self,
        team: str,
        project_id: str,
        number: int = _LATEST_QUOTE,
        *,
        discount_percent: Decimal | None = None,
        tax_percent: Decimal | None = None,
    ) -> Quote:
        """Recalculate a quote from the current items and rates.

        Args:
            number: of the quote; 0 for the newest.
            discount_percent: None keeps it.
            tax_percent: None keeps it.

        Raises:
            ProjectNotFound: the team has no such project.
            ProjectLocked: the project is locked; the quote is unchanged.
            Permanent: the quote is unchanged; the message has the reason.
        """
        await self._lock(team, project_id)
        quotes = await self._quotes(project_id)
        found = [quote for quote in quotes if number in (quote.number, _LATEST_QUOTE)]
        if not found:
            raise Permanent(
                f"{project_id} has no quote {number}; its newest is {quotes[-1].number}"
            )
        old = found[-1]
        discount = old.discount_percent if discount_percent is None else discount_percent
        tax = old.tax_percent if tax_percent is None else tax_percent
        check_number("a discount in percent", discount, _MOST_PERCENT)
        check_number("a tax in percent", tax, _MOST_PERCENT)
        rates = {role.name: role.day_rate for role in await self._roles(project_id)}
        lines = [(item.days, rates[item.role]) for item in await self._items(project_id)]
        quote = Quote(old.number, discount, tax, calculate_totals(lines, discount, tax))
        row = estimate_quotes.c
        here = update(estimate_quotes).where(
            row.project_id == project_id, row.number == quote.number
        )
        await self._tx.execute(
            here.values(discount_percent=discount, tax_percent=tax, **vars(quote.totals))
        )
        return quote

    async def _lock(self, team: str, project_id: str) -> None:
        """Hold the project's row until the transaction ends, so that it cannot be locked or
        changed concurrently. Raises `ProjectNotFound`, `ProjectLocked`.
        """
        project = estimate_projects.c
        query = select(project.locked, project.name).where(
            project.team == team, project.project_id == project_id
        )
        row = (await self._tx.execute(query.with_for_update(key_share=True))).one_or_none()
        if row is None:
            raise ProjectNotFound(f"there is no project {project_id}")
        if row.locked:
            raise ProjectLocked(
                f"{project_id} ({row.name}) is locked: it can be read, but nothing in it can "
                "be changed"
            )

    async def _roles(self, project_id: str) -> list[ProjectRole]:
        role = estimate_roles.c
        query = (
            select(role.name, role.day_rate)
            .where(role.project_id == project_id)
            .order_by(role.name)
        )
        return [ProjectRole(*row) for row in await self._tx.execute(query)]

    async def _items(self, project_id: str) -> list[WbsItem]:
        item = estimate_items.c
        query = select(item.number, item.title, item.role, item.days).where(
            item.project_id == project_id
        )
        return [WbsItem(*row) for row in await self._tx.execute(query.order_by(item.number))]

    async def _quotes(self, project_id: str) -> list[Quote]:
        quote = estimate_quotes.c
        percents = (quote.discount_percent, quote.tax_percent)
        totals = (quote[each.name] for each in fields(Totals))
        query = select(quote.number, *percents, *totals).where(quote.project_id == project_id)
        rows = await self._tx.execute(query.order_by(quote.number))
        return [
            Quote(number, discount, tax, Totals(*rest)) for number, discount, tax, *rest in rows
        ]


async def bound_project(tx: AsyncConnection, thread: Thread) -> Project | None:
    """Return the project that a thread is about; while it is locked, the thread can change
    nothing.
    """
    project_id = (await ThreadBindingStore(tx).of(thread)).get(PROJECT_BINDING)
    return await EstimateStore(tx).project(thread.team, project_id) if project_id else None


def _checked(
    project_id: str, roles: Sequence[ProjectRole], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return fields of an item in stored form. Raises `Permanent`."""
    row = {**given}
    if "title" in row and not (title := storable(row["title"]).strip()):
        raise Permanent("an item needs a title")
    if "title" in row:
        row["title"] = title
    if "role" in row and row["role"] not in (known := [role.name for role in roles]):
        raise Permanent(
            f"{project_id} has no role {row['role']!r}; its roles: {', '.join(known) or 'none'}"
        )
    if "days" in row:
        check_number("the days of an item", row["days"], _MAX_DAYS)
    return row
