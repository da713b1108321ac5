"""Projects, their roles, work items and quotes: read and changed from a thread that is about one
project.
"""

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

from threadline.estimates.model import (
    PROJECT_BINDING,
    NewWbsItem,
    Project,
    ProjectDetails,
    ProjectLocked,
    ProjectNotFound,
    ProjectRole,
    Quote,
    WbsItem,
    WbsItemChange,
    stale_quotes,
)
from threadline.estimates.store import EstimateStore, bound_project
from threadline.models.model import ToolKind
from threadline.threads.store import ThreadBindingStore
from threadline.tools.context import ToolContext
from threadline.tools.model import (
    ErrorCode,
    FieldChange,
    RecordGroup,
    Risk,
    ToolResult,
    error_result,
)
from threadline.tools.output import counted
from threadline.tools.policy import Assessment
from threadline.tools.registry import tool
from threadline.tools.roles import RecordKind

PAGE = 100
"""Items in one answer, which names the last item as the start of the next page; also projects in
one answer, which can be found by name.
"""

ProjectId = Annotated[
    str | None,
    Field(
        description="The project's id, such as PRJ-1, or its name. Null: the thread's own project."
    ),
]
Percent = Annotated[Decimal | None, Field(ge=0, le=100)]


@tool(
    "estimates.listProjects",
    "The team's projects, with their ids.",
    members_only=True,
    records=(RecordKind.QUOTES,),
)
async def list_projects(context: ToolContext) -> ToolResult:
    known = await EstimateStore(context.tx).projects(context.team, PAGE + 1)
    found = [_project(each) for each in known[:PAGE]]
    return ToolResult(
        data={"projects": found, "more": len(known) > PAGE},
        display_text=f"{counted(len(found), 'project')}." if found else "There is no project yet.",
        structured=_shown(projects=found),
    )


@tool(
    "estimates.useProject",
    "Make a project the one that this thread is about. Changes nothing in it.",
    binds_record=True,
    members_only=True,
    records=(RecordKind.QUOTES,),
)
async def use_project(
    context: ToolContext,
    *,
    project_id: Annotated[str, Field(description="Its id, such as PRJ-1, or its name.")],
) -> ToolResult:
    project = await EstimateStore(context.tx).project(context.team, project_id)
    await ThreadBindingStore(context.tx).bind(
        context.thread, PROJECT_BINDING, project.project_id, context.user_id
    )
    return ToolResult(
        data=_project(project),
        display_text=f"This thread is about {_named(project)} now.{_locked(project)}",
        structured=_shown(projects=[_project(project)]),
    )


@tool(
    "estimates.getProjectDetails",
    "A project with its roles, work items (WBS) and quotes, and whether it is locked.",
    binds_record=True,
    members_only=True,
    records=(
        RecordKind.QUOTES,
        RecordKind.RATES,
    ),
)
async def get_project_details(context: ToolContext, *, project_id: ProjectId = None) -> ToolResult:
    details = await _details(context, project_id)
    project = details.project
    late = stale_quotes(details)
    roles = [_role(each) for each in details.roles]
    items = [_item(each) for each in details.items]
    quotes = [_quote(project, each, current=each not in late) for each in details.quotes]
    size = f"{counted(len(roles), 'role')}, {counted(len(items), 'item')}"
    newest = (
        f", quote {quotes[-1]['quote']} comes to {quotes[-1]['total']} {project.currency}"
        if quotes
        else ""
    )
    return ToolResult(
        data={**_project(project), "roles": roles, **_page(items), "quotes": quotes},
        display_text=f"{_named(project)}: {size}{newest}.{_locked(project)}",
        structured=_shown(
            project, projects=[_project(project)], roles=roles, wbs_items=items, quotes=quotes
        ),
    )


@tool(
    "estimates.listRoles",
    "The roles of a project, with their day rates.",
    binds_record=True,
    members_only=True,
    records=(
        RecordKind.QUOTES,
        RecordKind.RATES,
    ),
)
async def list_roles(context: ToolContext, *, project_id: ProjectId = None) -> ToolResult:
    details = await _details(context, project_id)
    roles = [_role(each) for each in details.roles]
    return ToolResult(
        data={**_project(details.project), "roles": roles},
        display_text=f"{_named(details.project)} has {counted(len(roles), 'role')}.",
        structured=_shown(details.project, roles=roles),
    )


@tool(
    "estimates.listWbsItems",
    "The work items (WBS) of a project, by number.",
    binds_record=True,
    members_only=True,
    records=(RecordKind.QUOTES,),
)
async def list_wbs_items(
    context: ToolContext,
    *,
    project_id: ProjectId = None,
    role: Annotated[str | None, Field(description="Only those of this role.")] = None,
    after: Annotated[int, Field(ge=0, description="Only those with a higher number.")] = 0,
) -> ToolResult:
    details = await _details(context, project_id)
    items = [
        _item(each) for each in details.items if each.number > after and role in (None, each.role)
    ]
    return ToolResult(
        data={**_project(details.project), **_page(items)},
        display_text=f"{counted(len(items), 'item')} of {_named(details.project)}.",
        structured=_shown(details.project, wbs_items=items),
    )


async def _assess_items(context: ToolContext, given: Any) -> Assessment:
    """Assess a change of work items: medium risk, since totals change only when they are
    updated.
    """
    found = await _project_of(context, given.project_id)
    items = await EstimateStore(context.tx).items(found)
    known = {each.number: vars(each) for each in items}
    changes = [
        FieldChange(
            f"item {each.number} {name}",
            _plain(known.get(each.number, {}).get(name)),
            _plain(value),
        )
        for each in given.items
        for name, value in each.model_dump(exclude={"number"}, exclude_none=True).items()
    ]
    return Assessment(Risk.MEDIUM, tuple(changes), {"project": _named(found)})


async def _assess_totals(context: ToolContext, given: Any) -> Assessment:
    """Assess an update of totals. Another discount or tax changes the customer's price, so it is
    of high risk; a recalculation is not.
    """
    found = await _project_of(context, given.project_id)
    details = await EstimateStore(context.tx).details(found)
    quotes = [each for each in details.quotes if given.quote in (None, each.number)][-1:]
    changes = [
        FieldChange(name, _exact(getattr(each, name)), _exact(wanted))
        for each in quotes
        for name in ("discount_percent", "tax_percent")
        if (wanted := getattr(given, name)) is not None and wanted != getattr(each, name)
    ]
    shown = {"project": _named(found), "quote": quotes[0].number if quotes else given.quote}
    return Assessment(Risk.HIGH if changes else Risk.MEDIUM, tuple(changes), shown)


async def _project_of(context: ToolContext, project_id: str | None) -> Project:
    """Return the project like `use_project_in_thread`, but do not bind the thread to it. Raises
    `ProjectNotFound`.
    """
    if (project_id or "").strip():
        return await EstimateStore(context.tx).project(context.team, project_id or "")
    if bound := await bound_project(context.tx, context.thread):
        return bound
    raise ProjectNotFound(
        "this thread has no project yet: give a project's name or id, such as PRJ-1"
    )


def _plain(value: object) -> object:
    return _exact(value) if isinstance(value, Decimal) else value


@tool(
    "estimates.createWbsItems",
    (
        "Add work items (WBS) to a project, all or none. Quotes keep their totals until these "
        "are updated."
    ),
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    members_only=True,
    records=(RecordKind.QUOTES,),
)
async def create_wbs_items(
    context: ToolContext,
    *,
    project_id: ProjectId = None,
    items: Annotated[list[NewWbsItem], Field(min_length=1, max_length=50)],
) -> ToolResult:
    return await _change_items(
        context,
        project_id,
        "added to",
        lambda store, id_: store.create_items(context.team, id_, items),
    )


@tool(
    "estimates.updateWbsItems",
    (
        "Change work items (WBS) of a project, all or none. Quotes keep their totals until these "
        "are updated."
    ),
    kind=ToolKind.CHANGE,
    assess=_assess_items,
    members_only=True,
    records=(RecordKind.QUOTES,),
)
async def update_wbs_items(
    context: ToolContext,
    *,
    project_id: ProjectId = None,
    items: Annotated[
        list[WbsItemChange], Field(min_length=1, max_length=50, description="Null keeps a field.")
    ],
) -> ToolResult:
    return await _change_items(
        context,
        project_id,
        "changed in",
        lambda store, id_: store.update_items(context.team, id_, items),
    )


@tool(
    "estimates.updateQuoteTotals",
    (
        "Reckon a quote's totals anew from the project's items and rates, with another discount "
        "or tax where one is given."
    ),
    kind=ToolKind.CHANGE,
    assess=_assess_totals,
    members_only=True,
    records=(RecordKind.QUOTES,),
)
async def update_quote_totals(
    context: ToolContext,
    *,
    project_id: ProjectId = None,
    quote: Annotated[
        int | None, Field(ge=1, description="The quote's number. Null: the newest.")
    ] = None,
    discount_percent: Annotated[Percent, Field(description="Null keeps it.")] = None,
    tax_percent: Annotated[Percent, Field(description="Null keeps it.")] = None,
) -> ToolResult:
    project = await use_project_in_thread(context, project_id)
    await context.count_change(f"project:{project.project_id}")
    percents = {"discount_percent": discount_percent, "tax_percent": tax_percent}
    try:
        store = EstimateStore(context.tx)
        updated = await store.update_quote_totals(
            context.team, project.project_id, quote or 0, **percents
        )
    except ProjectLocked as locked:
        return error_result(ErrorCode.NOT_ALLOWED, f"{locked}.")
    shown = _quote(project, updated, current=True)
    return ToolResult(
        data={**_project(project), "quotes": [shown]},
        display_text=(
            f"Quote {updated.number} of {_named(project)} comes to {shown['total']} "
            f"{project.currency}."
        ),
        structured=_shown(project, quotes=[shown]),
    )


TOOLS = [list_projects, use_project, get_project_details, list_roles, list_wbs_items]
TOOLS += [create_wbs_items, update_wbs_items, update_quote_totals]


async def use_project_in_thread(context: ToolContext, project_id: str | None) -> Project:
    """Return the given project, or else the thread's; the first given one becomes the thread's.
    Raises `ProjectNotFound`: the team has no such project, or none was given and the thread has
    none.
    """
    named = await _project_of(context, project_id)
    if not (project_id or "").strip():
        return named
    await ThreadBindingStore(context.tx).bind_first(
        context.thread, PROJECT_BINDING, named.project_id, context.user_id
    )
    return named


async def _details(context: ToolContext, project_id: str | None) -> ProjectDetails:
    project = await use_project_in_thread(context, project_id)
    return await EstimateStore(context.tx).details(project)


async def _change_items(
    context: ToolContext,
    project_id: str | None,
    what: str,
    change: Callable[[EstimateStore, str], Awaitable[Sequence[WbsItem]]],
) -> ToolResult:
    project = await use_project_in_thread(context, project_id)
    await context.count_change(f"project:{project.project_id}")
    store = EstimateStore(context.tx)
    try:
        items = [_item(each) for each in await change(store, project.project_id)]
    except ProjectLocked as locked:  # locked before or since the thread was bound to it
        return error_result(ErrorCode.NOT_ALLOWED, f"{locked}.")
    # New or changed work makes the totals of a quote wrong until an update.
    stale = stale_quotes(await store.details(project))
    numbers = ", ".join(str(each.number) for each in stale)
    note = (
        f"[Side Effect] The totals of quote {numbers} of {project.project_id} are out of date "
        "now: estimates.updateQuoteTotals mends that."
    )
    return ToolResult(
        data={**_project(project), "items": items},
        display_text=f"{counted(len(items), 'item')} {what} {_named(project)}.",
        structured=_shown(project, wbs_items=items),
        notes=(note,) if stale else (),
    )


def _page(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first page; `after` is the start of the next one, if any."""
    more = (
        {"item_count": len(items), "after": items[PAGE - 1]["number"]} if len(items) > PAGE else {}
    )
    return {"items": items[:PAGE], **more}


def _project(project: Project) -> dict[str, Any]:
    return vars(project).copy()


def _role(role: ProjectRole) -> dict[str, Any]:
    return {"role": role.name, "day_rate": _exact(role.day_rate)}


def _item(item: WbsItem) -> dict[str, Any]:
    return {**vars(item), "days": _exact(item.days)}


def _quote(project: Project, quote: Quote, *, current: bool) -> dict[str, Any]:
    return {
        "quote": quote.number,
        "currency": project.currency,
        "discount_percent": _exact(quote.discount_percent),
        "tax_percent": _exact(quote.tax_percent),
        # whole cents: nothing is rounded
        **{name: f"{amount:.2f}" for name, amount in vars(quote.totals).items()},
        "up_to_date": current,
    }


def _exact(number: Decimal) -> str:
    return f"{number:f}"  # all digits, without an exponent


def _named(project: Project) -> str:
    return f"{project.project_id} ({project.name})"


def _locked(project: Project) -> str:
    return " It is locked: it can be read, but not changed." if project.locked else ""


def _shown(of: Project | None = None, **kinds: list[dict[str, Any]]) -> tuple[RecordGroup, ...]:
    """Return records for the thread, with the project's id: it distinguishes records of several
    projects, so that the last state of a changed one is shown.
    """
    about = {"project_id": of.project_id} if of else {}
    return tuple(
        RecordGroup(kind, tuple(about | each for each in rows))
        for kind, rows in kinds.items()
        if rows
    )
