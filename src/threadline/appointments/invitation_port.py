"""Invitations to appointments, which follow a booking as a file that calendars read."""

from typing import Any, Protocol

from threadline.sales.tools import Asker
from threadline.slack.model import Thread
from threadline.tools.registry import ToolSuccess


class Invitations(Protocol):
    async def attach(self, thread: Thread, asker: Asker, appointment_id: str, now: float) -> None:
        """Show the invitation in the thread as the appointment is now, once for each state of it.

        Whom it is for is named in it where they ask for it themselves, or where all who ask are of the workspace.

        Raises:
            Permanent, Transient: it is not there, or nobody knows; the appointment stands all the same.
        """
        ...


async def invite(success: ToolSuccess) -> str | None:
    """What follows when something was booked, moved or cancelled."""
    context, made = success.context, success.result.data
    if Invitations not in context.services or not _is_appointment(made):
        return None
    asker, now = Asker(context.user_id, context.co_requester_ids), context.clock().timestamp()
    await context.services[Invitations].attach(context.thread, asker, made["appointment_id"], now)
    return f"The invitation to {made['appointment_id']} is attached in the thread as invite.ics."


def _is_appointment(made: Any) -> bool:
    return isinstance(made, dict) and bool(made.get("appointment_id"))
