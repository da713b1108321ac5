"""Appointments: what can be booked and when it is free; booked, moved and cancelled without ever overlapping.

A time is told in ISO 8601. With an offset it is that moment; without one it is by the clocks of what is booked, and
every answer says those clocks' zone.
"""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from threadline.appointments.invitation_port import invite
from threadline.appointments.model import Appointment, Resource, Slot, SlotTaken, clock_of
from threadline.appointments.tool_parameters import AppointmentId, Calendar, Minutes, ResourceName, Time
from threadline.models.model import ToolKind
from threadline.tools.context import ToolContext
from threadline.tools.effects import by_effect
from threadline.tools.model import ErrorCode, RecordGroup, Risk, ToolError, ToolResult, ToolStatus, error_result
from threadline.tools.registry import Cache, tool

MOST = 50
"""Appointments of one answer; further ones are found by their resource or person."""
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Book(BaseModel):
    resource: ResourceName
    starts_at: Time
    minutes: Minutes = 60
    title: Annotated[str, Field(min_length=1, max_length=300, description="What it is about.")]
    attendee_id: Annotated[
        str | None, Field(max_length=100, description="Slack id of whom it is for. Null: whoever asks.")
    ] = None


class Move(BaseModel):
    appointment_id: AppointmentId
    starts_at: Time
    minutes: Annotated[Minutes | None, Field(description="Null keeps its length.")] = None


class Cancel(BaseModel):
    appointment_id: AppointmentId


@tool(
    "appointments.listResources",
    "What can be booked, with its opening hours and time zone.",
    needs=(Calendar,),
    cache=Cache(60, shared=True),
    remote=True,
)
async def list_resources(context: ToolContext) -> ToolResult:
    found = [_resource(each) for each in await context.services[Calendar].resources(context.team)]
    return ToolResult(
        data={"resources": found},
        display_text="" if found else "Nothing is set up to be booked yet.",
        structured=_shown("resources", found),
    )


@tool("appointments.freeSlots", "Times at which something can be booked.", needs=(Calendar,), remote=True)
async def free_slots(
    context: ToolContext,
    *,
    resource: ResourceName,
    after: Annotated[Time | None, Field(description="The earliest. Null: from now on.")] = None,
    minutes: Minutes = 60,
    days: Annotated[int, Field(ge=1, le=62, description="How many days to look at.")] = 7,
) -> ToolResult:
    return await free(context, resource, after, minutes, days)


async def free(context: ToolContext, resource: str, after: datetime | None, minutes: int, days: int) -> ToolResult:
    """The next free times of what is booked by this name."""
    calendar = context.services[Calendar]
    slots = await calendar.free(context.team, resource, after, minutes, days, context.clock())
    zone = await _zone(context, resource)
    shown = [_slot(each, zone) for each in slots]
    none = f"Nothing is free for {minutes} minutes in these {days} days."
    return ToolResult(
        data={"resource": resource, "minutes": minutes, "time_zone": zone, "slots": shown},
        display_text=f"The next free time is {slots[0].local} ({zone})." if slots else none,
        structured=_shown("slots", shown),
    )


@tool(
    "appointments.listUpcoming",
    "Booked times to come, with their ids; of everybody unless a person is named.",
    needs=(Calendar,),
    remote=True,
)
async def list_upcoming(
    context: ToolContext,
    *,
    resource: Annotated[str | None, Field(max_length=200, description="Only of this one.")] = None,
    attendee_id: Annotated[str | None, Field(max_length=100, description="Slack id of whom they are for.")] = None,
) -> ToolResult:
    calendar = context.services[Calendar]
    found = await calendar.upcoming(context.team, context.clock(), resource or "", attendee_id or "", MOST + 1)
    zones = {each.name: each.time_zone for each in await calendar.resources(context.team)}
    shown = [_appointment(each, zones[each.resource]) for each in found[:MOST]]
    return ToolResult(
        data={"appointments": shown, "more": len(found) > MOST},
        display_text="" if shown else "Nothing is booked.",
        structured=_shown("appointments", shown),
    )


def _resource_of(given: Book) -> str:
    return f"resource:{given.resource}"


def _appointment_of(given: Move | Cancel) -> str:
    return f"appointment:{given.appointment_id.strip().upper()}"


async def booked(context: ToolContext, given: Book) -> ToolResult:
    """Book a time, or say which are free around it."""
    calendar, attendee = context.services[Calendar], given.attendee_id or context.user_id
    if context.co_requesters and not given.attendee_id:
        said = f"Several people have written: {', '.join(context.requester_labels)}. Give one's id in attendee_id."
        return error_result(ErrorCode.INVALID_ARGUMENTS, said)
    try:
        booked = await calendar.book(
            context.change, given.resource, given.starts_at, given.minutes, given.title, attendee
        )
    except SlotTaken as taken:
        return await _others(context, taken, given.resource, given.starts_at, given.minutes)
    return await _told(context, booked, "Booked")


@tool(
    "appointments.book",
    "Book a time. Where somebody else has it, the answer names the nearest free ones.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(Calendar,),
    rate_limit_key=_resource_of,
    look_up=by_effect(Calendar, booked),
    side_effects=(invite,),
    remote=True,
)
async def book(context: ToolContext, given: Book) -> ToolResult:
    return await booked(context, given)


async def _move(context: ToolContext, given: Move) -> ToolResult:
    calendar = context.services[Calendar]
    try:
        moved = await calendar.move(context.change, given.appointment_id, given.starts_at, given.minutes)
    except SlotTaken as taken:
        kept = await calendar.get(context.team, given.appointment_id)
        minutes = given.minutes or int((kept.ends_at - kept.starts_at).total_seconds() // 60)
        return await _others(context, taken, kept.resource, given.starts_at, minutes)
    return await _told(context, moved, "Moved")


@tool(
    "appointments.move",
    "Give an appointment another time, and another length where one is said.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(Calendar,),
    rate_limit_key=_appointment_of,
    look_up=by_effect(Calendar, _move),
    side_effects=(invite,),
    remote=True,
)
async def move(context: ToolContext, given: Move) -> ToolResult:
    return await _move(context, given)


async def _cancel(context: ToolContext, given: Cancel) -> ToolResult:
    return await _told(
        context, await context.services[Calendar].cancel(context.change, given.appointment_id), "Cancelled"
    )


@tool(
    "appointments.cancel",
    "Cancel an appointment; its time is free again.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(Calendar,),
    rate_limit_key=_appointment_of,
    look_up=by_effect(Calendar, _cancel),
    side_effects=(invite,),
    remote=True,
)
async def cancel(context: ToolContext, given: Cancel) -> ToolResult:
    return await _cancel(context, given)


TOOLS = [list_resources, free_slots, list_upcoming, book, move, cancel]


async def _told(context: ToolContext, made: Appointment, what: str) -> ToolResult:
    zone = await _zone(context, made.resource)
    shown = _appointment(made, zone)
    return ToolResult(
        data=shown,
        display_text=f"{what} {made.appointment_id}: {made.resource}, {made.local} ({zone}).",
        structured=_shown("appointments", [shown]),
    )


async def _others(context: ToolContext, taken: SlotTaken, resource: str, wanted: datetime, minutes: int) -> ToolResult:
    """Somebody was faster: what is free instead."""
    slots = await context.services[Calendar].nearest(context.team, resource, wanted, minutes, context.clock())
    zone = await _zone(context, resource)
    free = f"free nearby: {', '.join(each.local for each in slots)} ({zone})" if slots else "nothing nearby is free"
    error = ToolError(ErrorCode.REFUSED, f"{taken}; {free}.", "Offer these times, or look for others.")
    return ToolResult(status=ToolStatus.ERROR, error=error, data={"slots": [_slot(each, zone) for each in slots]})


async def _zone(context: ToolContext, resource: str) -> str:
    """By whose clocks a resource's times are told; it may have been renamed since."""
    known = await context.services[Calendar].resources(context.team)
    return next((each.time_zone for each in known if each.name.casefold() == resource.strip().casefold()), "")


def _resource(resource: Resource) -> dict[str, Any]:
    return {
        "resource": resource.name,
        "time_zone": resource.time_zone,
        "opens": f"{resource.opens:%H:%M}",
        "closes": f"{resource.closes:%H:%M}",
        "days": ", ".join(_DAYS[day - 1] for day in sorted(resource.weekdays)),
    }


def _slot(slot: Slot, zone: str) -> dict[str, Any]:
    return {**_times(slot), "local": slot.local, "time_zone": zone}


def _appointment(made: Appointment, zone: str) -> dict[str, Any]:
    told = {name: value for name, value in vars(made).items() if name != "revision"}
    return {**told, **_times(made), "time_zone": zone}


def _times(at: Slot | Appointment) -> dict[str, str]:
    """Begin and end in ISO 8601, with the offset that the clocks of the place have."""
    clock = clock_of(at)
    return {
        name: getattr(at, name).astimezone(clock).isoformat(timespec="minutes") for name in ("starts_at", "ends_at")
    }


def _shown(kind: str, records: list[dict[str, Any]]) -> tuple[RecordGroup, ...]:
    return (RecordGroup(kind, tuple(records)),) if records else ()
