"""Invitations to appointments, made of what is on record, and shown in the thread where somebody booked."""

from datetime import UTC, datetime

from threadline.appointments import invitations
from threadline.appointments.invitation_port import Invitations
from threadline.appointments.invitations import Invitation
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.sales.model import Contact, is_address
from threadline.sales.tools import Asker
from threadline.slack.model import Thread
from threadline.slack.uploads import FileUpload
from threadline.slack.users import UserDirectory
from threadline.threads.outbox import Outbox


class SlackInvitations(Invitations):
    """Args: `organizer`: the address that replies go to, with a name if it has one; empty for none."""

    def __init__(self, database: Database, users: UserDirectory, outbox: Outbox, organizer: str = "") -> None:
        self._database = database
        self._users = users
        self._outbox = outbox
        self._organizer = organizer

    async def attach(self, thread: Thread, asker: Asker, appointment_id: str, now: float) -> None:
        invitation = await self._invitation(thread.team, asker, appointment_id)
        made = invitation.appointment
        change = f", update {made.revision}" if made.revision else ""
        state = "is cancelled" if made.cancelled else f"is at {made.local} ({invitation.time_zone})"
        await self._outbox.share(
            FileUpload(
                key=f"talk:{thread.key}:invitation:{made.appointment_id}:{made.revision}",
                channel=thread.channel,
                thread_ts=thread.ts,
                name=invitations.NAME,
                title=f"{made.appointment_id}{change}",
                comment=f"{made.appointment_id} {state}. Open this file to add it to your calendar.",
                content=invitations.written(invitation, datetime.fromtimestamp(now, UTC)),
            )
        )

    async def _invitation(self, team: str, asker: Asker, appointment_id: str) -> Invitation:
        async with self._database.begin() as work:
            made = await work.appointments.get(team, appointment_id)
            zones = {each.name: each.time_zone for each in await work.appointments.resources(team)}
            lead = await work.crm.known(team, Contact(made.attendee))
        name, address = "", ""
        if await self._may_see(team, asker, made.attendee):
            name, address = await self._attendee(made.attendee)
            name, address = name or (lead.name if lead else ""), address or (lead.email if lead else "")
        return Invitation(team, made, zones[made.resource], self._organizer, address, name)

    async def _may_see(self, team: str, asker: Asker, attendee: str) -> bool:
        """Whether the askers may be shown name and address of whom it is for; others are not, while Slack is away."""
        askers = {asker.user_id, *asker.others}
        try:
            return askers == {attendee} or await self._users.are_full_members(team, askers)
        except (Permanent, Transient):
            return False

    async def _attendee(self, user_id: str) -> tuple[str, str]:
        """Name and address, as far as Slack says them: without, the file is still one that calendars read."""
        try:
            user = await self._users.get(user_id)
        except (Permanent, Transient):
            return "", ""
        address = user.email.strip().lower() if user else ""
        return (user.name if user else ""), address if is_address(address) else ""
