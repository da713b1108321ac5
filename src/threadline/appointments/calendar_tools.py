"""Meetings: what people mean by "book a meeting with me", over the same appointments.

`calendar.free` and `calendar.book` take the place of `appointments.freeSlots` and `appointments.book`, which have no
default for what is booked: a model that is offered both has to guess. Those stay for what was proposed before, and
listing, moving and cancelling is theirs.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from threadline.appointments import tools as appointments
from threadline.appointments.invitation_port import invite
from threadline.appointments.tool_parameters import Calendar, Minutes, ResourceName, Time
from threadline.models.model import ToolKind
from threadline.tools.context import ToolContext
from threadline.tools.effects import by_effect
from threadline.tools.model import ErrorCode, Risk, ToolResult, error_result
from threadline.tools.registry import tool

_WITH = "With whom or what, by its name. Null: the only one that can be booked, or the asker's own."
With = Annotated[ResourceName | None, Field(description=_WITH)]


class Meeting(BaseModel):
    model_config = ConfigDict(extra="forbid")

    resource: With = None
    starts_at: Time
    minutes: Minutes = 30
    title: Annotated[str, Field(min_length=1, max_length=300, description="What it is about.")] = "Meeting"
    attendee_id: Annotated[
        str | None, Field(max_length=100, description="Slack id of whom it is for. Null: whoever asks.")
    ] = None


@tool(
    "calendar.free",
    "Times at which a meeting, or whatever else can be booked, is possible.",
    needs=(Calendar,),
    instead="appointments.freeSlots",
    remote=True,
)
async def free(
    context: ToolContext,
    *,
    resource: With = None,
    after: Annotated[Time | None, Field(description="The earliest. Null: from now on.")] = None,
    minutes: Minutes = 30,
    days: Annotated[int, Field(ge=1, le=62, description="How many days to look at.")] = 7,
) -> ToolResult:
    name = await _meant(context, resource)
    return name if isinstance(name, ToolResult) else await appointments.free(context, name, after, minutes, days)


async def _book(context: ToolContext, given: Meeting) -> ToolResult:
    name = await _meant(context, given.resource)
    if isinstance(name, ToolResult):
        return name
    return await appointments.booked(
        context, appointments.Book(**given.model_dump(exclude={"resource"}), resource=name)
    )


@tool(
    "calendar.book",
    "Book a meeting, or whatever else can be booked, and attach an invitation to the thread. Where somebody else has "
    "the time, the answer names the nearest free ones.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    critical=True,
    needs=(Calendar,),
    rate_limit_key=lambda given: f"resource:{given.resource}" if given.resource else "",
    look_up=by_effect(Calendar, _book),
    side_effects=(invite,),
    instead="appointments.book",
    remote=True,
)
async def book(context: ToolContext, given: Meeting) -> ToolResult:
    return await _book(context, given)


TOOLS = [free, book]


async def _meant(context: ToolContext, resource: str | None) -> str | ToolResult:
    """What is to be booked, or which names there are to choose from; a call that is tried again means what it meant."""
    if resource:
        return resource
    calendar = context.services[Calendar]
    if effect := await calendar.effect(context.operation):
        return effect.record
    known = [each.name for each in await calendar.resources(context.team)]
    own = [each for each in known if each.casefold() == context.actor.strip().casefold()]
    if len(known) == 1 or len(own) == 1:
        return own[0] if own else known[0]
    if not known:
        said = "Nothing is set up to be booked yet: `threadline records load` does it."
        return error_result(ErrorCode.REFUSED, said, "Say so.")
    said = f"There are several: {', '.join(known[:20])}. Give one of these names in resource."
    return error_result(ErrorCode.INVALID_ARGUMENTS, said, "Ask which is meant, unless it was said.")
