"""Records in a line each, as lists tell them."""

from threadline.appointments.model import Resource
from threadline.rfps.model import Rfp
from threadline.rfps.team_members import TeamMember

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def resource(resource: Resource) -> str:
    hours = f"{resource.opens:%H:%M} to {resource.closes:%H:%M} {resource.time_zone}"
    return f"{resource.name}: {hours}, {', '.join(_DAYS[day - 1] for day in resource.weekdays)}"


def rfp(rfp: Rfp) -> str:
    due = f"due {rfp.due_date}" if rfp.due_date else ""
    told = (rfp.title, rfp.client, rfp.status.replace("_", " "), due, rfp.owner)
    return f"{rfp.rfp_id}: {', '.join(filter(None, told))}"


def member(member: TeamMember) -> str:
    skills = f"can {', '.join(member.skills)}" if member.skills else ""
    told = (member.role, f"{member.capacity} hours a week", skills)
    return f"{member.name} ({member.user_id}): {', '.join(filter(None, told))}"
