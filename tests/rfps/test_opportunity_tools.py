"""Tools of opportunities: states, journals and events of RFPs."""

import asyncio
import json
from typing import Any

import pytest

from tests.support import tool_store as tooling
from tests.support.recording import create, until_waited_for
from tests.support.tool_results import code_of, message_of
from tests.support.tool_scene import ToolScene
from threadline.conversations.blocks import answer_of
from threadline.db.engine import Database
from threadline.db.rate_limits import Rate
from threadline.rfps import tools as rfps
from threadline.rfps.store import RfpStore
from threadline.tools.model import Author, ErrorCode

TOOLS = rfps.TOOLS
ID = "rfp_abc123"
SUBMITTED = '{"status": "proposal submitted"}'
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("opportunity.patch", {"patch": SUBMITTED}),
    ("journal.append", {"text": "The proposal went out."}),
    ("event.append", {"event_type": "proposal_sent", "payload": '{"pages": 40}'}),
]
READS: list[tuple[str, dict[str, Any]]] = [
    ("opportunity.load", {}),
    ("journal.list", {}),
    ("event.list", {}),
]


@pytest.fixture(autouse=True)
async def rfp(database: Database) -> None:
    await create(database, rfp_id=ID)


@pytest.fixture
def desk(database: Database) -> ToolScene:
    return ToolScene(database, TOOLS)


async def everything(desk: ToolScene) -> Any:
    """Return all records of the RFP."""
    return [await desk.done(tool, rfp_id=ID) for tool, _ in READS]


async def test_load_shows_facts_state_and_newest_entries(desk: ToolScene) -> None:
    for number in range(rfps.RECENT + 1):
        await desk.done("journal.append", rfp_id=ID, text=f"entry {number}")
    await desk.done("event.append", rfp_id=ID, event_type="asked")
    result = await desk.ask("opportunity.load", rfp_id=" RFP_ABC123 ")
    assert result.data["rfp"] == {
        "rfp_id": ID,
        "title": "Website relaunch",
        "client": "Acme",
        "status": "new",
    }
    assert (result.data["version"], result.data["state"]["client"]) == (1, "Acme")
    texts = [each["text"] for each in result.data["newest_journal_entries"]]
    assert texts == [f"entry {number}" for number in range(rfps.RECENT, 0, -1)]
    assert [each["type"] for each in result.data["newest_events"]] == ["asked"]
    assert "rfp_abc123 (Website relaunch)" in result.display_text


async def test_patch_lists_its_changes(desk: ToolScene) -> None:
    patch = (
        '{"status": "Proposal submitted", "due_date": "2026-04-01", "client": null, "team": '
        '["U1"]}'
    )
    result = await desk.ask("opportunity.patch", rfp_id=ID, patch=patch)
    for fact in (
        ID,
        "status is proposal submitted",
        "2026-04-01",
        "client removed",
        "team changed",
    ):
        assert fact in result.display_text
    assert (result.data["version"], result.data["changed_by"]) == (2, "U1")
    assert result.data["now"] == {
        "status": "proposal_submitted",
        "due_date": "2026-04-01",
        "client": None,
        "team": ["U1"],
    }


async def test_rfp_is_shown_once_in_its_last_state(desk: ToolScene) -> None:
    results = [await desk.ask("opportunity.load", rfp_id=ID)]
    results.append(await desk.ask("opportunity.patch", rfp_id=ID, patch=SUBMITTED))
    results.append(await desk.ask("opportunity.load", rfp_id=ID))
    shown = [(part.kind, part.records) for result in results for part in result.structured]
    text = "\n".join(message.text for message in answer_of("Done.", shown))
    assert text.count("rfp_abc123 · Website relaunch · Acme · proposal submitted") == 1
    assert "· new" not in text


async def test_patch_may_be_an_object_and_keeps_its_nulls(desk: ToolScene) -> None:
    await desk.done(
        "opportunity.patch", rfp_id=ID, patch={"client": None, "budget": {"total": 1.5, "x": None}}
    )
    state = (await desk.done("opportunity.load", rfp_id=ID))["state"]
    assert "client" not in state
    assert state["budget"] == {"total": 1.5}


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ('[{"op": "replace"}]', "must be a JSON object"),
        ("null", "must be a JSON object"),
        ("status: won", "`patch`"),
        ('{"a": NaN}', "`patch`"),
        ('{"a": 1e999}', "contains a number"),
        ('{"a": "\\u0000"}', "a character"),
        ('{"a": "\\ud800"}', "a character"),
        ('{"a": ' + "[" * 900 + "]" * 900 + "}", "more than 20"),
        (json.dumps({"notes": "x" * 900_000}), "64,000"),
        ('{"status": "asleep"}', "in_progress"),
    ],
)
async def test_bad_patch_is_refused_and_changes_nothing(
    desk: ToolScene, patch: str, says: str
) -> None:
    before = await everything(desk)
    assert says in message_of(await desk.refused("opportunity.patch", rfp_id=ID, patch=patch))
    assert await everything(desk) == before


async def test_lost_race_is_retried_on_the_newer_state(
    desk: ToolScene, database: Database
) -> None:
    async with database.begin() as tx:
        first = {"status": "won", "budget": {"total": 1}}
        await RfpStore(tx).patch_state(
            tooling.change("other", author=Author("U2", "turn-2")), ID, first
        )
        late = asyncio.create_task(
            desk.ask("opportunity.patch", rfp_id=ID, patch='{"budget": {"currency": "EUR"}}')
        )
        await until_waited_for(tx)
    result = await late
    assert result.data["version"] == 3
    state = (await desk.done("opportunity.load", rfp_id=ID))["state"]
    assert (state["status"], state["budget"]) == ("won", {"total": 1, "currency": "EUR"})


async def test_concurrent_patches_are_all_kept(desk: ToolScene) -> None:
    async def patch(number: int) -> None:
        given = json.dumps({f"field {number}": number})
        while (
            await desk.ask("opportunity.patch", thread_ts=f"{number}.1", rfp_id=ID, patch=given)
        ).error:
            pass

    await asyncio.gather(*map(patch, range(8)))
    loaded = await desk.done("opportunity.load", rfp_id=ID)
    assert loaded["version"] == 9
    assert {f"field {number}" for number in range(8)} < loaded["state"].keys()


async def test_patch_of_an_older_version_is_refused(desk: ToolScene) -> None:
    await desk.done("opportunity.patch", rfp_id=ID, patch='{"risks": ["late"]}')
    late = await desk.refused(
        "opportunity.patch", rfp_id=ID, patch='{"risks": ["dear"]}', version=1
    )
    assert "version 2" in message_of(late)
    await desk.done("opportunity.patch", rfp_id=ID, patch='{"risks": ["late", "dear"]}', version=2)
    assert (await desk.done("opportunity.load", rfp_id=ID))["state"]["risks"] == ["late", "dear"]


@pytest.mark.parametrize(("tool", "arguments"), WRITES)
async def test_call_whose_worker_dies_has_changed_nothing_and_is_made_once(
    desk: ToolScene, tool: str, arguments: dict[str, Any]
) -> None:
    before = await everything(desk)
    desk.ledger.lost = RuntimeError("the worker died")
    with pytest.raises(RuntimeError):
        await desk.ask(tool, "lost", rfp_id=ID, **arguments)
    assert await everything(desk) == before
    assert (await desk.ask(tool, "lost", rfp_id=ID, **arguments)).success
    assert await everything(desk) != before


@pytest.mark.parametrize(("tool", "arguments"), WRITES)
async def test_call_that_is_repeated_later_gets_its_first_answer(
    desk: ToolScene, database: Database, tool: str, arguments: dict[str, Any]
) -> None:
    first = await desk.ask(tool, "once", rfp_id=ID, **arguments)
    after = await everything(desk)
    await desk.done("opportunity.patch", rfp_id=ID, patch='{"status": "won"}')
    assert await desk.ask(tool, "once", rfp_id=ID, **arguments) == first
    assert (await everything(desk))[1:] == after[1:]
    assert (await desk.done("opportunity.load", rfp_id=ID))["state"]["status"] == "won"
    async with database.begin() as tx:
        await RfpStore(tx).delete("T1", ID)
    assert await desk.ask(tool, "once", rfp_id=ID, **arguments) == first, "also of a deleted RFP"


@pytest.mark.parametrize(("tool", "arguments"), WRITES)
async def test_same_call_at_once_is_made_once(
    desk: ToolScene, tool: str, arguments: dict[str, Any]
) -> None:
    await asyncio.gather(*(desk.ask(tool, "same", rfp_id=ID, **arguments) for _ in range(6)))
    loaded, entries, events = await everything(desk)
    assert loaded["version"] + len(entries["entries"]) + len(events["events"]) == 2


async def test_records_have_the_correlation_id_of_their_turn(
    desk: ToolScene, database: Database
) -> None:
    for tool, arguments in WRITES:
        await desk.done(tool, rfp_id=ID, **arguments)
    async with database.begin() as tx:
        [entry] = await RfpStore(tx).journal_of_turn("T1", "turn-1")
        [logged] = await RfpStore(tx).events_of_turn("T1", "turn-1")
        assert (entry.text, entry.author, entry.kind) == (
            "The proposal went out.",
            Author("U1", "turn-1"),
            "note",
        )
        assert (logged.event_type, logged.payload) == ("proposal_sent", {"pages": 40})
        assert (await RfpStore(tx).ensure_state_exists("T1", ID)).correlation_id == "turn-1"


@pytest.mark.parametrize(
    ("tool", "one", "many"), [("journal", "entry", "entries"), ("event", "event", "events")]
)
async def test_journal_and_events_come_in_pages(
    desk: ToolScene, tool: str, one: str, many: str
) -> None:
    given = {"journal": {"text": "It is so."}, "event": {"event_type": "asked"}}[tool]
    for _ in range(3):
        await desk.done(f"{tool}.append", rfp_id=ID, **given)
    first = await desk.ask(f"{tool}.list", rfp_id=ID, limit=2)
    assert [len(first.data[many]), first.data["more"]] == [2, True]
    rest = await desk.done(f"{tool}.list", rfp_id=ID, before=first.data[many][-1][one])
    assert [each[one] < first.data[many][-1][one] for each in rest[many]] == [True]
    none = await desk.ask(f"{tool}.list", rfp_id=ID, before=rest[many][0][one])
    assert (none.data[many], none.structured) == ([], ())


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("journal.append", {}, "`text` is missing"),
        ("journal.append", {"text": "x" * 10_001}, "`text`"),
        ("journal.append", {"text": " \n"}, "needs a text"),
        ("journal.append", {"text": "x", "kind": "said"}, "`kind`"),
        ("event.append", {"event_type": " "}, "needs a type"),
        ("event.append", {"event_type": "x", "payload": "[1]"}, "`payload`"),
        ("event.append", {"event_type": "x", "payload": {"a": "x" * 70_000}}, "64,000"),
        ("journal.append", {"rfp_id": " ", "text": "x"}, "`rfp_id`"),
        ("opportunity.load", {"rfp_id": "x" * 65}, "`rfp_id`"),
        ("opportunity.patch", {"patch": SUBMITTED, "version": 0}, "`version`"),
        ("opportunity.patch", {"patch": SUBMITTED, "version": 10**30}, "`version`"),
        ("journal.list", {"before": 10**30}, "`before`"),
    ],
)
async def test_bad_argument_is_named_and_nothing_is_written(
    desk: ToolScene, tool: str, arguments: dict[str, Any], says: str
) -> None:
    before = await everything(desk)
    assert says in message_of(await desk.refused(tool, **({"rfp_id": ID} | arguments)))
    assert await everything(desk) == before


@pytest.mark.parametrize(("tool", "arguments"), [*READS, *WRITES])
async def test_unknown_deleted_and_foreign_rfps_are_refused(
    desk: ToolScene, database: Database, tool: str, arguments: dict[str, Any]
) -> None:
    unknown = await desk.refused(tool, rfp_id="rfp_abc12", **arguments)
    assert code_of(unknown) is ErrorCode.REFUSED
    assert "did you mean rfp_abc123" in message_of(unknown)
    assert "no RFP rfp_abc123" in message_of(
        await desk.refused(tool, team="T2", rfp_id=ID, **arguments)
    )
    async with database.begin() as tx:
        await RfpStore(tx).delete("T1", ID)
    assert "rfp_abc123 was deleted" in message_of(await desk.refused(tool, rfp_id=ID, **arguments))


@pytest.mark.parametrize(("tool", "arguments"), [*READS, *WRITES, ("rfp.get", {})])
async def test_no_tool_reaches_the_rfp_of_another_team(
    desk: ToolScene, database: Database, tool: str, arguments: dict[str, Any]
) -> None:
    await create(database, "theirs", team="T2", rfp_id=ID, title="Bridge", client="City")
    await desk.done("journal.append", rfp_id=ID, text="Ours.")
    await desk.done("event.append", rfp_id=ID, event_type="ours")
    before = await everything(desk)
    told = json.dumps(await desk.done(tool, team="T2", rfp_id=ID, **arguments))
    assert not any(word in told for word in ("Website", "Acme", "Ours.", "ours"))
    assert await everything(desk) == before


@pytest.mark.parametrize(("tool", "arguments"), [("rfp.list", {}), ("rfp.search", {"words": ID})])
async def test_lists_show_the_rfps_of_one_team(
    desk: ToolScene, database: Database, tool: str, arguments: Any
) -> None:
    await create(database, "theirs", team="T2", rfp_id=ID, title="Bridge", client="City")
    assert [each["title"] for each in (await desk.done(tool, team="T2", **arguments))["rfps"]] == [
        "Bridge"
    ]


@pytest.mark.parametrize("tool", ["journal.append", "event.append"])
async def test_rate_limits_the_journal_and_the_events(database: Database, tool: str) -> None:
    desk = ToolScene(database, TOOLS, Rate(1, 60))
    given = dict(WRITES)[tool]
    await desk.done(tool, rfp_id=ID, **given)
    assert (
        code_of(await desk.refused(tool, thread_ts="3.1", rfp_id=ID, **given))
        is ErrorCode.TOO_MANY_CHANGES
    )


async def test_rate_of_a_state_holds_over_all_threads(database: Database) -> None:
    desk = ToolScene(database, TOOLS, Rate(2, 60))
    for number in range(2):
        await desk.done(
            "opportunity.patch",
            thread_ts=f"{number}.1",
            rfp_id=ID,
            patch=json.dumps({"a": number}),
        )
    result = await desk.refused(
        "opportunity.patch", thread_ts="3.1", rfp_id="RFP_abc123", patch='{"a": 3}'
    )
    assert code_of(result) is ErrorCode.TOO_MANY_CHANGES
    await desk.done(
        "journal.append", rfp_id=ID, text="What was to be changed, and was not.", kind="failed"
    )
