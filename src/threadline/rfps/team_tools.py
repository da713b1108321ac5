"""The people who answer requests for proposals: what they can, and how much time they have."""

from typing import Annotated

from pydantic import Field

from threadline.rfps.json_documents import Document
from threadline.rfps.record_ports import TeamBook
from threadline.rfps.team_members import TeamMember
from threadline.rfps.tool_parameters import counted
from threadline.tools.context import ToolContext
from threadline.tools.model import RecordGroup, ToolResult
from threadline.tools.registry import tool

MOST = 50
"""People of one answer; fewer are found by a skill."""


@tool(
    "team.list",
    "The people of the team with their roles, skills and capacity, by name.",
    needs=(TeamBook,),
    remote=True,
)
async def list_members(
    context: ToolContext,
    *,
    skill: Annotated[
        str | None, Field(max_length=100, description="Only those with this in a skill of theirs.")
    ] = None,
) -> ToolResult:
    found = await context.services[TeamBook].listed(context.team, skill or "", MOST + 1)
    members, more = [_member(each) for each in found[:MOST]], len(found) > MOST
    none = f"Nobody of the team has the skill {skill}." if skill else "Nobody of the team is known yet."
    return ToolResult(
        data={"members": members, "more": more},
        display_text=f"{counted(len(members), 'person', 'people', more=more)}." if members else none,
        structured=_shown(members),
    )


@tool("team.get", "Somebody of the team, with the biography.", needs=(TeamBook,), remote=True)
async def get(
    context: ToolContext,
    *,
    name: Annotated[str, Field(min_length=1, max_length=300, description="The whole name, or the Slack id.")],
) -> ToolResult:
    found = await context.services[TeamBook].named(context.team, name)
    members = [_member(each) for each in found]
    biographies = [{"biography": each.biography} if each.biography else {} for each in found]
    return ToolResult(
        data={"members": [told | more for told, more in zip(members, biographies, strict=True)]},
        structured=_shown(members),
    )


TOOLS = [list_members, get]


def _member(member: TeamMember) -> Document:
    """Only what there is to tell."""
    told = {
        "name": member.name,
        "user_id": member.user_id,
        "role": member.role,
        "skills": list(member.skills),
        "hours_a_week": member.capacity,
        "email": member.email,
    }
    return {name: value for name, value in told.items() if value not in ("", [])}


def _shown(members: list[Document]) -> tuple[RecordGroup, ...]:
    return (RecordGroup("team_members", tuple(members)),) if members else ()
