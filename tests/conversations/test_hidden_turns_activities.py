"""In a turn for a person without a role, the model reads no result that earlier turns have fetched
for people with it.
"""

from tests.support.conversation_activities import ConversationActivityScene, Make, make_talk
from tests.support.role_fakes import directory
from tests.support.tool_fakes import unheld
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.registry import ToolRegistry, tool
from threadline.tools.roles import Group, RecordKind, RoleDirectory, Roles
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import BYSTANDER, REPORTER

__all__ = ["make_talk"]

SALES = Roles(
    {"sales": Group(users=frozenset({REPORTER}))}, see={RecordKind.RFPS: frozenset({"sales"})}
)


@tool("tenders.list", "List the tenders.", records=(RecordKind.RFPS,))
async def list_tenders(context: ToolContext) -> ToolResult:
    return ToolResult(data={"tenders": [{"rfp_id": "rfp_abc123", "budget": "900"}]})


@tool("lamps.list", "List the lamps.")
async def list_lamps(context: ToolContext) -> ToolResult:
    return ToolResult(data={"lamps": 3})


async def list_once(turn: ScriptTurn) -> None:
    if "tenders" in turn.prompt:
        await turn.call("tenders_list")
    await turn.text_only("Here you are.")


def told(talk: ConversationActivityScene) -> str:
    return str(talk.sent())


async def test_people_without_the_role_get_neither_results_nor_their_ids(
    make_talk: Make,
) -> None:
    services = unheld(Services().with_service(RoleDirectory, directory(SALES)))
    talk = make_talk(registry=ToolRegistry([list_tenders]), services=services)
    talk.model.script(list_once)
    await talk.said("list the tenders")
    await talk.answer()
    await talk.said(talk.message("and which is the largest?", sender_id=BYSTANDER))
    await talk.answer(2)
    assert "Here you are." in told(talk)
    assert "900" not in told(talk)
    assert "rfp_abc123" not in told(talk)
    await talk.said(talk.message("and the smallest?"))
    await talk.answer(3)
    assert "rfp_abc123" in told(talk), "the person with the role reads it again"


async def look_at_lamps(turn: ScriptTurn) -> None:
    if "tenders" in turn.prompt:
        await turn.call("tenders_list")
    else:
        await turn.call("lamps_list")
    await turn.text_only("Here you are.")


async def test_every_step_of_a_turn_reads_only_records_that_all_its_askers_may_see(
    make_talk: Make,
) -> None:
    services = unheld(Services().with_service(RoleDirectory, directory(SALES)))
    talk = make_talk(registry=ToolRegistry([list_tenders, list_lamps]), services=services)
    talk.model.script(look_at_lamps)
    await talk.said("list the tenders")
    await talk.answer()
    aside = talk.message("and the lamps?", sender_id=BYSTANDER)
    await talk.said(aside, talk.message("yes, how many lamps are there?"))
    await talk.answer(2)
    assert '"lamps": 3' in told(talk).replace("\\", ""), "it is the second step"
    assert "900" not in told(talk)
    assert "rfp_abc123" not in told(talk)
