"""A prompt holds no record that its author may not see, neither in the context nor from an earlier
turn.
"""

from dataclasses import replace

import pytest

from tests.operator.test_preparation_activities import QUESTION, fill
from tests.support.conversation_store import THREAD
from threadline.conversations.call_input import without_hidden
from threadline.conversations.operator_context import context_request
from threadline.conversations.prompt import recent_ids, tool_message
from threadline.conversations.store.transcript import Transcript, TranscriptEntry
from threadline.db.engine import Database
from threadline.models.model import Message, Role, ToolCall
from threadline.operator.context import read_records
from threadline.tools.registry import ToolRegistry
from threadline.tools.roles import RecordKind
from threadline.wiring.toolsets import TOOLS

REGISTRY = ToolRegistry(TOOLS)


async def shown(database: Database, rfp_id: str, *hidden: RecordKind) -> dict[str, str]:
    """The layers of the records, each as its pieces or why it is missing."""
    async with database.begin() as tx:
        request = await context_request(tx, THREAD, "U1", f"{QUESTION} Who of the team?", rfp_id)
        records = await read_records(tx, replace(request, hidden=frozenset(hidden)))
    made = {name: make() for name, make in records.layers.items()}
    return {
        name: "\n".join(layer.pieces) or f"missing: {layer.missing}"
        for name, layer in made.items()
    }


async def test_context_holds_no_rfps_that_the_person_may_not_see(
    database: Database,
) -> None:
    await fill(database, 2)
    for rfp_id in ("rfp_abc123", ""):
        open_to_all = await shown(database, rfp_id)
        assert any("rfp_" in told for told in open_to_all.values())
        told = await shown(database, rfp_id, RecordKind.RFPS)
        hidden = {"rfp_state", "journal", "events", "other_threads", "related_rfps", "memories"}
        assert {told[name] for name in hidden} == {"missing: whoever asks may not see this"}
        assert "rfp_" not in told["team"]


async def test_context_holds_no_team_where_it_is_hidden(database: Database) -> None:
    await fill(database, 2)
    told = await shown(database, "rfp_abc123", RecordKind.TEAM)
    assert told["team"].startswith("missing")
    assert not told["rfp_state"].startswith("missing")


def entry(position: int, message: Message) -> TranscriptEntry:
    return TranscriptEntry(position, str(position), 1, 1, message)


PAST = Transcript(
    "They spoke of the day rate of 900.",
    2,
    (
        entry(
            3,
            Message(
                Role.ASSISTANT,
                calls=(
                    ToolCall("c1", "estimates_listRoles"),
                    ToolCall("c2", "jira.get", '{"key": 1}'),
                ),
            ),
        ),
        entry(4, tool_message("c1", "the day rate is 900")),
        entry(5, tool_message("c2", "the ticket is open")),
        entry(6, Message(Role.ASSISTANT, "Here you are.")),
    ),
)


def test_result_that_somebody_else_asked_for_is_not_shown_to_people_without_the_role() -> None:
    kept = without_hidden(REGISTRY, PAST, frozenset({RecordKind.RATES}))
    said = [each.message.content for each in kept.messages]
    assert "900" not in str(kept)
    assert "not everybody who asks now" in said[1]
    assert said[2:] == ["the ticket is open", "Here you are."]
    assert [each.message.call_id for each in kept.messages] == [
        each.message.call_id for each in PAST.messages
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("agent_job_list", RecordKind.RFPS),
        ("crm.get", RecordKind.CUSTOMERS),
        ("propose_action", RecordKind.RFPS),
        ("tool.that.is.gone", RecordKind.RATES),
    ],
)
def test_call_that_may_reveal_hidden_records_is_not_shown(name: str, kind: RecordKind) -> None:
    """Including the model's text around it, and the thoughts that led there."""
    call = ToolCall("c1", name, '{"budget": 900}')
    asked = Message(
        Role.ASSISTANT, "One moment.", calls=(call,), provider_data='{"items": ["900"]}'
    )
    past = Transcript("", 0, (entry(1, asked), entry(2, tool_message("c1", "it is 900"))))
    kept = without_hidden(REGISTRY, past, frozenset({kind}))
    assert "900" not in repr(kept)
    [message, result] = [each.message for each in kept.messages]
    assert (message.content, message.calls[0].name, result.call_id) == ("One moment.", name, "c1")


def test_ids_of_hidden_results_are_not_named() -> None:
    """The note of a turn names the ids of the latest results."""
    found = tool_message("c1", '{"success": true, "data": {"rfp_id": "rfp_abc123"}}')
    called = Message(Role.ASSISTANT, calls=(ToolCall("c1", "rfp_list"),))
    past = Transcript("", 0, (entry(1, called), entry(2, found)))

    def named(*hidden: RecordKind) -> tuple[str, ...]:
        kept = without_hidden(REGISTRY, past, frozenset(hidden))
        return recent_ids([each.message for each in kept.messages])

    assert named() == ("rfp_abc123",)
    assert named(RecordKind.RFPS) == ()


def test_past_stays_whole_where_nothing_is_hidden() -> None:
    assert without_hidden(REGISTRY, PAST, frozenset()) is PAST
