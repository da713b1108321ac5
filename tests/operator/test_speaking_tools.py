"""The operator's real toolset under its protocol, on real records."""

import itertools
import json
from typing import Any

import pytest

from tests.support.recording import create
from tests.support.tool_fakes import LossyLedger, context, unheld
from tests.support.tool_scene import ToolScene
from threadline.db.engine import Database
from threadline.models.model import ToolCall, ToolKind
from threadline.operator import enforcement as protocol
from threadline.operator.model.protocol import ProtocolState
from threadline.operator.tools import ask_clarifying_question, post_summary
from threadline.rfps.store import RfpStore
from threadline.tools.context import Services
from threadline.tools.model import ErrorCode, ToolResult
from threadline.tools.registry import ToolRegistry, allowed_tools
from threadline.tools.runner import ToolRunner
from threadline.wiring.toolsets import TOOLS

REGISTRY = ToolRegistry(TOOLS)
SPEAKING = (post_summary, ask_clarifying_question)


class Turn:
    """One turn about `scope`, without its model."""

    def __init__(self, database: Database, scope: str) -> None:
        self._database = database
        self._services = unheld()
        self._ledger = LossyLedger(database)
        self._ids = (f"call_{number}" for number in itertools.count(1))
        self.state = ProtocolState(scope=scope)

    async def ask(self, tool: str, call_id: str = "", **arguments: Any) -> ToolResult:
        everything = allowed_tools(REGISTRY, self._services, operator=True, read_only=False)
        run = ToolRunner(
            REGISTRY, everything, self._ledger, protocol.protocol_policy(self.state)
        ).run
        call = ToolCall(call_id or next(self._ids), tool, json.dumps(arguments))
        result = await run(
            call, context(services=self._services, call_id=call.id, correlation_id="C1:1")
        )
        self.state = protocol.record_result(REGISTRY, self.state, call, result)
        return result


def test_protocol_knows_the_real_tools() -> None:
    protocol.check_tool_declarations(REGISTRY)
    kinds = {each.wire_name: each.kind for each in TOOLS}
    assert [name for name, kind in kinds.items() if kind is ToolKind.LOAD] == ["opportunity_load"]
    assert {name for name, kind in kinds.items() if kind is ToolKind.SPEAK} == {
        each.wire_name for each in SPEAKING
    }
    reading = (
        "rfp_list",
        "rfp_search",
        "rfp_get",
        "journal_list",
        "event_list",
        "team_list",
        "team_get",
    )
    assert {kinds[name] for name in (*reading, "memory_search", "slack_get_thread")} == {
        ToolKind.READ
    }
    # A local tool records its call in the transaction of its change, and of the journal's entry
    # about its words.
    writing = {
        "opportunity_patch": ToolKind.PATCH,
        "journal_append": ToolKind.JOURNAL,
        "event_append": ToolKind.EVENT,
    }
    for name, kind in {
        **writing,
        **dict.fromkeys((each.wire_name for each in SPEAKING), ToolKind.SPEAK),
    }.items():
        tool = REGISTRY.get(name)
        assert tool
        assert (kinds[name], tool.remote) == (kind, False)


def test_model_is_not_shown_the_correlation_id() -> None:
    for definition in REGISTRY.definitions():
        assert "correlation_id" not in json.dumps(definition["parameters"])


def test_change_counts_for_the_rfp_that_it_names_and_for_no_other() -> None:
    state = ProtocolState(loaded=("rfp_abc123", "rfp_def456"), did_load=True)
    call = ToolCall(
        "c1",
        "opportunity_patch",
        json.dumps({"rfp_id": "rfp_abc123", "patch": '{"status": "won"}'}),
    )
    assert protocol.record_result(REGISTRY, state, call, ToolResult()).attempted == ("rfp_abc123",)


async def test_turn_loads_patches_journals_and_speaks(database: Database) -> None:
    await create(database, rfp_id="rfp_abc123")
    turn = Turn(database, "rfp_abc123")
    patch = {"rfp_id": "rfp_abc123", "patch": '{"status": "proposal submitted"}'}
    early = await turn.ask("opportunity_patch", **patch)
    assert early.error
    assert early.error.code is ErrorCode.PROTOCOL
    assert (await turn.ask("opportunity_load", rfp_id="RFP_abc123")).success
    assert (await turn.ask("opportunity_patch", **patch)).success
    assert (
        await turn.ask("journal_append", rfp_id="rfp_abc123", text="It went out.", kind="decision")
    ).success
    assert (
        await turn.ask("slack_post_summary", text=" It is submitted now. ", rfp_id="rfp_abc123")
    ).success
    assert turn.state.did_post
    assert not (await turn.ask("slack_post_summary", text="And again.")).success
    async with database.begin() as tx:
        assert (await RfpStore(tx).get("T1", "rfp_abc123")).status == "proposal_submitted"
        assert [
            each.author.correlation_id for each in await RfpStore(tx).journal("T1", "rfp_abc123")
        ] == ["C1:1"]


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("slack.post.summary", {}, "`text` is missing"),
        ("slack.post.summary", {"text": "x" * 5_001}, "`text`: Value should have at most 5000"),
        ("slack.post.summary", {"text": " \n\u200b"}, "`text`: the text is empty"),
        (
            "slack.ask.clarifying.question",
            {"question": "x" * 5_001},
            "`question`: Value should have at most 5000",
        ),
        ("slack.ask.clarifying.question", {"question": "\u2063"}, "`question`: the text is empty"),
    ],
)
async def test_empty_or_too_long_words_are_refused(
    database: Database, tool: str, arguments: dict[str, Any], says: str
) -> None:
    result = await ToolScene(database, SPEAKING).refused(tool, **arguments)
    assert result.error
    assert says in result.error.message


async def test_words_are_accepted_without_any_service(database: Database) -> None:
    desk = ToolScene(database, SPEAKING)
    registry = ToolRegistry(SPEAKING)
    assert allowed_tools(registry, Services(), operator=True, read_only=False).names == {
        each.name for each in SPEAKING
    }
    assert not allowed_tools(registry, Services(), read_only=False).names
    assert await desk.done("slack.post.summary", text="x" * 5_000)
    assert await desk.done("slack.ask.clarifying.question", question="Which one?")
