"""Tools of appointments: list the resources and their free times; book, list, move and cancel
appointments.

Times are written in ISO 8601. A time with an offset is that moment; a time without one is by the
clocks of the resource, and every answer names their time zone.
"""

from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from threadline.appointments.model import (
    Appointment,
    InvitationSender,
    Resource,
    Slot,
    SlotTaken,
    find_resource,
    local_offset,
)
from threadline.appointments.store import AppointmentStore
from threadline.errors import Permanent
from threadline.models.model import ToolKind
from threadline.slack.text import parse_user_id
from threadline.tools.context import ToolContext
from threadline.tools.model import (
    ErrorCode,
    FieldChange,
    Risk,
    ToolError,
    ToolResult,
    ToolStatus,
    error_result,
    record_group,
)
from threadline.tools.policy import Assessment
from threadline.tools.registry import Cache, tool
from threadline.tools.roles import RecordKind

MAX_LISTED = 50
"""Appointments of one answer; the model finds further ones by their resource or person."""
_MAX_SLOTS = 40
"""Free times of one answer; the model finds later ones by their day."""
_MAX_NAMES = 20
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_EXAMPLES = "2026-03-02T10:00, by the clocks of what is booked, or 2026-03-02T10:00+01:00"
_YEARS = range(2000, 2200)
_ONLY_OWN = (
    "people from outside the workspace can see and change only what is booked for themselves"
)


def _parse_time(value: object) -> datetime:
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise ValueError(f"expected a date and time such as {_EXAMPLES}") from None
    if time.year not in _YEARS:
        raise ValueError(f"expected a year from {_YEARS.start} to {_YEARS.stop - 1}")
    return time


def _parse_attendee(text: str) -> str:
    user_id = parse_user_id(text)
    if text.strip() and not user_id:
        raise ValueError("expected a Slack id such as U0123ABCD, and no name")
    return user_id


LocalTime = Annotated[
    datetime,
    BeforeValidator(_parse_time, json_schema_input_type=str),
    Field(description=f"Such as {_EXAMPLES}."),
]
ResourceName = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=200,
        description=(
            "With whom or what, by its name. Null: the only one that can be booked, or the "
            "asker's own."
        ),
    ),
]
Minutes = Annotated[int, Field(ge=1, le=24 * 60, description="How long, in minutes.")]
Attendee = Annotated[str, Field(max_length=100), AfterValidator(_parse_attendee)]
AppointmentId = Annotated[
    str,
    StringConstraints(strip_whitespace=True, to_upper=True),
    Field(min_length=1, max_length=40, description="Such as APT-7."),
]


async def attach_invitation(context: ToolContext, _given: Any, result: ToolResult) -> str | None:
    """Share the invitation in the thread after a booking, a move or a cancellation."""
    sender = context.services.get(InvitationSender)
    if sender is None:
        return None
    appointment_id = result.data["appointment_id"]
    await sender.send(context.thread, appointment_id, context.clock())
    return f"The invitation to {appointment_id} is attached in the thread as invite.ics."


@tool(
    "appointments.listResources",
    "What can be booked, with its opening hours and time zone.",
    cache=Cache(60, shared=True),
    records=(RecordKind.APPOINTMENTS,),
)
async def list_resources(context: ToolContext) -> ToolResult:
    found = [
        {
            "resource": each.name,
            "time_zone": each.time_zone,
            "opens": f"{each.opens:%H:%M}",
            "closes": f"{each.closes:%H:%M}",
            "days": ", ".join(_DAYS[day - 1] for day in sorted(each.weekdays)),
        }
        for each in await AppointmentStore(context.tx).resources(context.team)
    ]
    return ToolResult(
        data={"resources": found},
        display_text="" if found else "Nothing can be booked yet.",
        structured=record_group("resources", found),
    )


@tool(
    "appointments.listUpcoming",
    "Booked times to come, with their ids; of everybody unless a person is named.",
    needs_requester=True,
    records=(RecordKind.APPOINTMENTS,),
)
async def list_upcoming(
    context: ToolContext,
    *,
    resource: Annotated[str | None, Field(max_length=200, description="Only of this one.")] = None,
    attendee_id: Annotated[
        Attendee | None, Field(description="Slack id of whom they are for.")
    ] = None,
) -> ToolResult:
    attendee = _only_attendee(context, attendee_id or "") or attendee_id or ""
    store = AppointmentStore(context.tx)
    known = await store.resources(context.team)
    named = find_resource(known, resource or "")
    name = named.name if named else resource or ""
    found = await store.upcoming(
        context.team, context.clock(), resource=name, attendee=attendee, limit=MAX_LISTED + 1
    )
    zones = {each.name: each.time_zone for each in known}
    listed = [_appointment_record(each, zones[each.resource]) for each in found[:MAX_LISTED]]
    return ToolResult(
        data={"appointments": listed, "more": len(found) > MAX_LISTED},
        display_text="" if listed else "Nothing is booked.",
        structured=record_group("appointments", listed),
    )


@tool(
    "calendar.free",
    "Times at which a meeting, or whatever else can be booked, is possible.",
    records=(RecordKind.APPOINTMENTS,),
)
async def free(
    context: ToolContext,
    *,
    resource: ResourceName = None,
    after: Annotated[
        LocalTime | None, Field(description="The earliest. Null: from now on.")
    ] = None,
    minutes: Minutes = 30,
    days: Annotated[int, Field(ge=1, le=62, description="How many days to look at.")] = 7,
) -> ToolResult:
    store = AppointmentStore(context.tx)
    now = context.clock()
    found = await _resolve_resource(context, resource)
    if isinstance(found, ToolResult):
        return found
    start = max(now, await store.resolve_time(found, after or now))
    slots = await store.free_slots(context.team, found, start, minutes, days, _MAX_SLOTS)
    zone = found.time_zone
    listed = [{**_times(each), "local": each.local, "time_zone": zone} for each in slots]
    none = f"Nothing is free for {minutes} minutes in these {days} days."
    return ToolResult(
        data={"resource": found.name, "minutes": minutes, "time_zone": zone, "slots": listed},
        display_text=f"The next free time is {slots[0].local} ({zone})." if slots else none,
        structured=record_group("slots", listed),
    )


def _booking_risk(context: ToolContext, attendee: str) -> Risk:
    """Return the risk of booking for a person, or of changing their appointment: high unless they
    ask themselves.
    """
    return Risk.MEDIUM if context.only_asker(attendee) else Risk.HIGH


async def _assess_booking(context: ToolContext, given: Any) -> Assessment:
    return Assessment(_booking_risk(context, given.attendee_id or context.user_id))


async def _assess_moving(context: ToolContext, given: Any) -> Assessment:
    held, resource = await _held_appointment(context, given.appointment_id)
    start = await AppointmentStore(context.tx).resolve_time(resource, given.starts_at)
    zone = ZoneInfo(resource.time_zone)
    times = [
        each.astimezone(zone).isoformat(timespec="minutes") for each in (held.starts_at, start)
    ]
    changes = [FieldChange("starts_at", *times)]
    if given.minutes not in (None, held.minutes):
        changes.append(FieldChange("minutes", held.minutes, given.minutes))
    return Assessment(
        _booking_risk(context, held.attendee), tuple(changes), _shown_appointment(held)
    )


async def _assess_cancelling(context: ToolContext, given: Any) -> Assessment:
    held, _ = await _held_appointment(context, given.appointment_id)
    changes = (FieldChange("booked", f"{held.local} ({held.resource})", None),)
    return Assessment(_booking_risk(context, held.attendee), changes, _shown_appointment(held))


def _shown_appointment(held: Appointment) -> dict[str, Any]:
    attendee = f"<@{held.attendee}>" if held.attendee else ""
    return {
        "appointment": f"{held.appointment_id} ({held.title})",
        "with": held.resource,
        "for": attendee,
    }


@tool(
    "calendar.book",
    "Book a meeting, or whatever else can be booked, and attach an invitation to the thread. "
    "Where somebody else has the time, the answer names the nearest free ones.",
    kind=ToolKind.CHANGE,
    assess=_assess_booking,
    critical=True,
    needs_requester=True,
    side_effects=(attach_invitation,),
    records=(RecordKind.APPOINTMENTS,),
)
async def book(
    context: ToolContext,
    *,
    resource: ResourceName = None,
    starts_at: LocalTime,
    minutes: Minutes = 30,
    title: Annotated[
        str, Field(min_length=1, max_length=300, description="What it is about.")
    ] = "Meeting",
    attendee_id: Annotated[
        Attendee | None, Field(description="Slack id of whom it is for. Null: whoever asks.")
    ] = None,
) -> ToolResult:
    found = await _resolve_resource(context, resource)
    if isinstance(found, ToolResult):
        return found
    if not attendee_id and (refused := context.unclear_requester("Give one's id in attendee_id.")):
        return refused
    attendee = attendee_id or context.user_id
    _only_attendee(context, attendee)
    await context.count_change(f"resource:{found.name}")
    store = AppointmentStore(context.tx)
    now = context.clock()
    start = await store.resolve_time(found, starts_at)
    try:
        booked = await store.book(context.team, found, start, minutes, title, attendee, now)
    except SlotTaken as taken:
        return await _suggest_slots(context, taken, found, start, minutes)
    return _appointment_result(booked, found, "Booked")


@tool(
    "appointments.move",
    "Give an appointment another time, and another length where one is said.",
    kind=ToolKind.CHANGE,
    assess=_assess_moving,
    needs_requester=True,
    side_effects=(attach_invitation,),
    records=(RecordKind.APPOINTMENTS,),
)
async def move(
    context: ToolContext,
    *,
    appointment_id: AppointmentId,
    starts_at: LocalTime,
    minutes: Annotated[Minutes | None, Field(description="Null keeps its length.")] = None,
) -> ToolResult:
    store = AppointmentStore(context.tx)
    held, resource = await _find_appointment(context, appointment_id)
    start = await store.resolve_time(resource, starts_at)
    try:
        moved = await store.move(
            context.team, held.appointment_id, start, minutes, context.clock()
        )
    except SlotTaken as taken:
        return await _suggest_slots(context, taken, resource, start, minutes or held.minutes)
    return _appointment_result(moved, resource, "Moved")


@tool(
    "appointments.cancel",
    "Cancel an appointment; its time is free again.",
    kind=ToolKind.CHANGE,
    assess=_assess_cancelling,
    needs_requester=True,
    side_effects=(attach_invitation,),
    records=(RecordKind.APPOINTMENTS,),
)
async def cancel(context: ToolContext, *, appointment_id: AppointmentId) -> ToolResult:
    held, resource = await _find_appointment(context, appointment_id)
    cancelled = await AppointmentStore(context.tx).cancel(
        context.team, held.appointment_id, context.clock()
    )
    return _appointment_result(cancelled, resource, "Cancelled")


TOOLS = [list_resources, list_upcoming, free, book, move, cancel]


def _only_attendee(context: ToolContext, attendee: str = "") -> str:
    """Return the only user whose appointments the askers may see and change; empty for members of
    the workspace, who may access all.

    Raises:
        Permanent: the askers may access none, or `attendee` is another user.
    """
    if context.requester.are_members:
        return ""
    if context.co_requesters:
        raise Permanent(
            f"{_ONLY_OWN}, and several people have written here: one of them must ask alone"
        )
    if attendee not in ("", context.user_id):
        raise Permanent(f"{_ONLY_OWN}: leave attendee_id out")
    return context.user_id


async def _resolve_resource(context: ToolContext, name: str | None) -> Resource | ToolResult:
    """Return the named or only possible resource, or an error result with the names to choose
    from.

    Raises:
        Permanent: the name is unknown.
    """
    store = AppointmentStore(context.tx)
    if name:
        return await store.resource(context.team, name)
    known = await store.resources(context.team)
    own = [each for each in known if find_resource([each], context.actor)]
    if len(known) == 1 or len(own) == 1:
        return own[0] if own else known[0]
    if not known:
        message = (
            "Nothing can be booked yet: the admin adds resources with `threadline records load`."
        )
        return error_result(ErrorCode.REFUSED, message, "Say so.")
    names = ", ".join(each.name for each in known[:_MAX_NAMES])
    message = f"There are several: {names}. Give one of these names in resource."
    return error_result(
        ErrorCode.INVALID_ARGUMENTS, message, "Ask which is meant, unless it was said."
    )


async def _find_appointment(
    context: ToolContext, appointment_id: str
) -> tuple[Appointment, Resource]:
    """Return an appointment that the askers may change, and its resource, and count the change.

    Raises:
        Permanent: there is no such appointment, or the askers may not change it.
        RateExceeded: it was changed too often.
    """
    found, resource = await _held_appointment(context, appointment_id)
    await context.count_change(f"appointment:{found.appointment_id}")
    return found, resource


async def _held_appointment(
    context: ToolContext, appointment_id: str
) -> tuple[Appointment, Resource]:
    """Return the same as `_find_appointment`, without counting a change."""
    store = AppointmentStore(context.tx)
    found = await store.get(context.team, appointment_id, _only_attendee(context))
    return found, await store.resource(context.team, found.resource)


async def _suggest_slots(
    context: ToolContext, taken: SlotTaken, resource: Resource, wanted: datetime, minutes: int
) -> ToolResult:
    """Return a refusal that names the free times around the wanted one."""
    slots = await AppointmentStore(context.tx).nearest_slots(
        context.team, resource, wanted, minutes, context.clock()
    )
    zone = resource.time_zone
    nearby = (
        f"free nearby: {', '.join(each.local for each in slots)} ({zone})"
        if slots
        else "nothing nearby is free"
    )
    error = ToolError(
        ErrorCode.REFUSED, f"{taken}; {nearby}.", "Offer these times, or look for others."
    )
    records = [{**_times(each), "local": each.local, "time_zone": zone} for each in slots]
    return ToolResult(status=ToolStatus.ERROR, error=error, data={"slots": records})


def _appointment_result(made: Appointment, resource: Resource, what: str) -> ToolResult:
    zone = resource.time_zone
    record = _appointment_record(made, zone)
    return ToolResult(
        data=record,
        display_text=f"{what} {made.appointment_id}: {made.resource}, {made.local} ({zone}).",
        structured=record_group("appointments", [record]),
    )


def _appointment_record(made: Appointment, zone: str) -> dict[str, Any]:
    fields = {name: value for name, value in vars(made).items() if name != "revision"}
    return {**fields, **_times(made), "time_zone": zone}


def _times(slot: Slot | Appointment) -> dict[str, str]:
    """Return start and end in ISO 8601, with the offset of the place's clocks."""
    offset = local_offset(slot)
    return {
        name: getattr(slot, name).astimezone(offset).isoformat(timespec="minutes")
        for name in ("starts_at", "ends_at")
    }
