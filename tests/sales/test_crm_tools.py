"""Customers: found, read, and changed once for each call with a record of every field."""

import asyncio
import json
from typing import Any

import pytest
from sqlalchemy import select, text

from tests.sales.customers import Directory, desk_of
from tests.support.tool_results import code_of, message_of
from tests.support.tool_scene import ToolScene
from threadline.conversations.blocks import answer_of
from threadline.db.engine import Database
from threadline.db.rate_limits import Rate
from threadline.errors import AppendOnly, Transient
from threadline.sales.model import MAX_CONTEXT
from threadline.sales.store import LeadStore
from threadline.sales.tables import crm_audit
from threadline.sales.tools import describe_customer
from threadline.slack.model import User
from threadline.tools.model import ErrorCode
from threadline.wiring.conversations import lead_context

ON_A_LEAD: list[tuple[str, dict[str, str]]] = [
    ("crm.get", {}),
    ("crm.update", {"name": "x"}),
    ("crm.log", {"kind": "note", "summary": "x"}),
]


@pytest.fixture
def desk(database: Database) -> ToolScene:
    return desk_of(database)


async def audit(database: Database) -> list[tuple[str, str, str, str, str]]:
    """Return of each row, in order, the owner of the field, its old and new value, and the
    author.
    """
    row = crm_audit.c
    query = select(
        row.lead_id, row.company_id, row.field, row.old_value, row.new_value, row.user_id
    ).order_by(row.id)
    async with database.begin() as tx:
        rows = await tx.execute(query)
        return [(each[0] or each[1], *each[2:]) for each in rows]


async def test_update_makes_a_lead_and_audits_each_field(
    desk: ToolScene, database: Database
) -> None:
    first = await desk.ask("crm.update", company="Acme Corp", stage="qualified", industry="Ships")
    assert "LEAD-1 (Ana Silva): company, name, email, stage, industry" in first.display_text
    assert first.data["lead"] == {
        "lead_id": "LEAD-1",
        "user_id": "U1",
        "email": "ana@acme.example",
        "name": "Ana Silva",
        "stage": "qualified",
        "company": "Acme Corp",
        "industry": "Ships",
    }
    await desk.done(
        "crm.update",
        user_id="U2",
        lead_id="lead-1",
        company="ACME corp",
        phone="+351 1",
        industry="Boats",
    )
    assert await audit(database) == [
        ("LEAD-1", "company", "", "Acme Corp", "U1"),
        ("LEAD-1", "name", "", "Ana Silva", "U1"),
        ("LEAD-1", "email", "", "ana@acme.example", "U1"),
        ("LEAD-1", "stage", "new", "qualified", "U1"),
        ("CO-1", "industry", "", "Ships", "U1"),
        ("LEAD-1", "phone", "", "+351 1", "U2"),
        ("CO-1", "industry", "Ships", "Boats", "U2"),
    ]
    [message] = answer_of(
        first.display_text, [(each.kind, each.records) for each in first.structured]
    )
    assert "Acme Corp" in json.dumps(message.blocks)


async def test_update_without_a_change_is_not_audited(desk: ToolScene, database: Database) -> None:
    await desk.done("crm.update", name=" Ana   Maria ", email="ANA@acme.example")
    before = await audit(database)
    again = await desk.ask("crm.update", name="Ana Maria", email="ana@ACME.example ")
    assert (again.data["changed"], again.data["created"]) == ([], False)
    assert await audit(database) == before


@pytest.mark.parametrize(
    "statement",
    ["UPDATE crm_audit SET new_value = 'x'", "TRUNCATE crm_audit"],
    ids=["update", "truncate"],
)
async def test_audit_cannot_be_changed(
    desk: ToolScene, database: Database, statement: str
) -> None:
    await desk.done("crm.update", title="Captain")
    with pytest.raises(AppendOnly):
        async with database.begin() as tx:
            await tx.execute(text(statement))


async def test_change_is_made_once_or_not_at_all(desk: ToolScene, database: Database) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("crm.update", {"title": "Captain"}),
        ("crm.log", {"kind": "call", "summary": "They want a boat."}),
    ]
    for tool, given in calls:
        before = await audit(database)
        desk.ledger.lost = RuntimeError("the worker died")
        with pytest.raises(RuntimeError):
            await desk.ask(tool, call_id=f"once_{tool}", **given)
        assert await audit(database) == before
        made = await desk.ask(tool, call_id=f"once_{tool}", **given)
        assert made.success
        after = await audit(database)
        assert await desk.ask(tool, call_id=f"once_{tool}", **given) == made
        assert await audit(database) == after
    shown = await desk.done("crm.get")
    assert [each["summary"] for each in shown["interactions"]] == ["They want a boat."]


async def test_concurrent_updates_make_one_lead_and_are_all_audited(
    desk: ToolScene, database: Database
) -> None:
    titles = [f"title {number}" for number in range(8)]
    done = await asyncio.gather(*(desk.ask("crm.update", title=each) for each in titles))
    assert all(each.success for each in done)
    assert sum(each.data["created"] for each in done) == 1
    assert len((await desk.done("crm.find"))["leads"]) == 1
    chain = [
        (was, became) for _, field, was, became, _ in await audit(database) if field == "title"
    ]
    assert sorted(became for _, became in chain) == titles
    assert [was for was, _ in chain] == ["", *(became for _, became in chain[:-1])]


async def test_concurrent_leads_make_one_company(database: Database) -> None:
    users = [f"UX{number}" for number in range(8)]
    desk = desk_of(database, people=Directory({each: User("T1", name=each) for each in users}))
    done = await asyncio.gather(
        *(
            desk.ask("crm.update", user_id=each, company="Acme", website=f"https://{each}.example")
            for each in users
        )
    )
    assert [each.error for each in done if each.error] == []
    assert {each.data["lead"]["company"] for each in done} == {"Acme"}
    assert len({each for each, *_ in await audit(database) if each.startswith("CO-")}) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no change was given"),
        ({"email": "a@b.example\r\nBcc: c@d.example"}, "not a mail address"),
        ({"industry": "Ships"}, "LEAD-1 has no company yet"),
        ({"lead_id": "LEAD-99", "name": "x"}, "there is no lead LEAD-99"),
        ({"email": "ben@shop.example"}, "another lead has this mail address"),
    ],
)
async def test_refused_update_changes_nothing(
    desk: ToolScene, database: Database, given: dict[str, Any], said: str
) -> None:
    await desk.done("crm.update", title="Captain")
    await desk.done("crm.update", user_id="U2", title="Cook")
    before = await audit(database)
    assert said in message_of(await desk.refused("crm.update", **given))
    assert await audit(database) == before


@pytest.mark.parametrize(
    "given",
    [
        {"nickname": "A"},
        {"name": "x" * 201},
        {"notes": "x" * 4_001},
        {"stage": "enthusiastic"},
        {"lead_id": "x" * 41},
    ],
)
async def test_bad_argument_is_named(desk: ToolScene, given: dict[str, Any]) -> None:
    result = await desk.refused("crm.update", **given)
    assert code_of(result) is ErrorCode.INVALID_ARGUMENTS
    assert next(iter(given)) in message_of(result)


async def test_leads_are_found_by_name_email_company_and_id(desk: ToolScene) -> None:
    await desk.done("crm.update", company="Acme Corp")
    await desk.done("crm.update", user_id="U2", company="100% Ships")
    for words, found in (
        ("ana", ["LEAD-1"]),
        ("BEN@", ["LEAD-2"]),
        ("acme", ["LEAD-1"]),
        ("%", ["LEAD-2"]),
        ("<@U2>", ["LEAD-2"]),
        ("<@U2|Ben Okoro>", ["LEAD-2"]),
        ("lead-1", ["LEAD-1"]),
        ("", ["LEAD-1", "LEAD-2"]),
        ("nobody", []),
    ):
        assert [
            each["lead_id"] for each in (await desk.done("crm.find", words=words))["leads"]
        ] == found, words


async def test_leads_of_another_team_are_not_found(desk: ToolScene) -> None:
    await desk.done("crm.update", company="Acme Corp")
    there = {"team": "T2", "user_id": "U9"}
    assert (await desk.done("crm.find", words="ana", **there))["leads"] == []
    for tool, given in ON_A_LEAD:
        assert "there is no lead LEAD-1" in message_of(
            await desk.refused(tool, lead_id="LEAD-1", **given, **there)
        )
    await desk.done("crm.update", company="acme corp", **there)
    assert (await desk.done("crm.get"))["company"] == "Acme Corp"


@pytest.mark.parametrize("user_id", ["UGUEST", "UOTHER", "UNKNOWN"])
async def test_external_user_has_only_the_own_lead(desk: ToolScene, user_id: str) -> None:
    await desk.done("crm.update", company="Acme Corp")
    assert (await desk.done("crm.find", words="", user_id=user_id))["leads"] == []
    for tool, given in ON_A_LEAD:
        said = message_of(await desk.refused(tool, lead_id="LEAD-1", user_id=user_id, **given))
        assert "only their own record" in said
    made = await desk.done("crm.update", title="Buyer", user_id=user_id)
    own = made["lead"]["lead_id"]
    assert [
        each["lead_id"]
        for each in (await desk.done("crm.find", words="ana", user_id=user_id))["leads"]
    ] == [own]
    assert (await desk.done("crm.get", lead_id=own.lower(), user_id=user_id))["title"] == "Buyer"


async def test_external_user_sees_and_changes_nothing_of_a_company(
    desk: ToolScene, database: Database
) -> None:
    user_id = "UGUEST"
    about = {
        "website": "https://globex.example",
        "industry": "Steel",
        "company_notes": "They are about to cancel.",
    }
    await desk.done("crm.update", company="Globex", **about)
    made = await desk.ask("crm.update", company="globex", title="Buyer", user_id=user_id)
    assert made.data["lead"]["company"] == "Globex"
    found = await desk.ask("crm.find", user_id=user_id)
    shown = await desk.ask("crm.get", user_id=user_id)
    async with database.begin() as tx:
        context = await lead_context(tx, "T1", user_id, await Directory().get(user_id))
    assert "Company: Globex" in context
    for told_to_them in (repr(made), repr(found), repr(shown), context):
        assert not [each for each in about.values() if each in told_to_them]
    before = await audit(database)
    for field in about:
        refused = await desk.refused("crm.update", user_id=user_id, title="Cook", **{field: "x"})
        assert f"leave out {field}" in message_of(refused)
    with_ana: dict[str, Any] = {"user_id": "U1", "co_requesters": {user_id: "Gus (UGUEST)"}}
    for tool, given in (("crm.update", {"industry": "x"}), ("crm.get", {})):
        together = await desk.refused(tool, lead_id="LEAD-1", **given, **with_ana)
        assert "only their own record" in message_of(together)
    assert await audit(database) == before
    assert (await desk.done("crm.get", lead_id="LEAD-1"))["company_notes"] == about[
        "company_notes"
    ]


async def test_external_co_requester_limits_the_visible_leads(desk: ToolScene) -> None:
    await desk.done("crm.update", company="Acme Corp")
    both = {"user_id": "U2", "co_requesters": {"UGUEST": "Gus (UGUEST)"}}
    assert (await desk.done("crm.find", words="", **both))["leads"] == []
    assert "only their own record" in message_of(
        await desk.refused("crm.get", lead_id="LEAD-1", **both)
    )
    insiders = {"user_id": "U2", "co_requesters": {"U1": "Ana (U1)"}}
    assert len((await desk.done("crm.find", words="", **insiders))["leads"]) == 1


async def test_lead_is_found_by_the_email_address(desk: ToolScene, database: Database) -> None:
    await desk.done("crm.update", user_id="U2", email="ana@acme.example")
    async with database.begin() as tx:
        await tx.execute(text("UPDATE crm_leads SET user_id = ''"))
    done = await desk.done("crm.update", title="Captain")
    assert (done["created"], done["lead"]["lead_id"], done["lead"]["user_id"]) == (
        False,
        "LEAD-1",
        "U1",
    )


async def test_unstorable_address_is_no_address(desk: ToolScene, database: Database) -> None:
    await desk.done("crm.update", user_id="U2", name="Ben")
    async with database.begin() as tx:
        await tx.execute(text("UPDATE crm_leads SET user_id = '', email = ''"))
        assert await LeadStore(tx).find_by_contact("T1", "U1", "\x00") is None


async def test_email_address_stays_with_its_lead(desk: ToolScene) -> None:
    await desk.done("crm.update", user_id="U2", email="ana@acme.example")
    done = await desk.done("crm.update", title="Captain")
    assert done["created"]
    assert "email" not in done["lead"]


async def test_several_requesters_must_name_the_lead(desk: ToolScene) -> None:
    for tool, given in ON_A_LEAD:
        said = message_of(await desk.refused(tool, co_requesters={"U2": "Ben (U2)"}, **given))
        assert "written: U1 and" not in said
        assert "lead_id" in said


async def test_missing_lead_is_reported(desk: ToolScene) -> None:
    assert "has no record yet" in message_of(await desk.refused("crm.get"))


async def test_update_without_slack_changes_nothing_and_is_retried(database: Database) -> None:
    people = Directory()
    desk = desk_of(database, people=people)
    people.away = True
    assert (
        code_of(await desk.refused("crm.update", title="Captain")) is ErrorCode.SERVICE_UNAVAILABLE
    )
    with pytest.raises(Transient):
        await desk.ask("crm.update", call_id="again", retries_left=1, title="Captain")
    people.away = False
    assert (await desk.ask("crm.update", call_id="again", title="Captain")).success


async def test_rate_limits_changes_of_a_lead(database: Database) -> None:
    desk = desk_of(database, Rate(1, 60.0))
    await desk.done("crm.update", title="Captain")
    assert code_of(await desk.refused("crm.update", title="Cook")) is ErrorCode.TOO_MANY_CHANGES
    assert (await desk.done("crm.get"))["title"] == "Captain"


async def test_decision_context_has_the_lead_or_the_slack_profile(
    desk: ToolScene, database: Database
) -> None:
    async def about(team: str, user_id: str) -> str:
        async with database.begin() as tx:
            return await lead_context(tx, team, user_id, await Directory().get(user_id))

    assert await about("T1", "U1") == "Ana Silva (U1)\nAna@Acme.example"
    assert await about("T1", "NOBODY") == ""
    await desk.done("crm.update", company="Acme Corp", stage="proposal", industry="Ships")
    for number in range(5):
        await desk.done("crm.log", kind="call", summary=f"Call {number}.\nThey are in no hurry.")
    assert await about("T1", "U1") == (
        "Ana Silva (U1) ana@acme.example\nCompany: Acme Corp, Ships\nStage: proposal\n"
        "2026-03-01 call: Call 4. They are in no hurry.\n"
        "2026-03-01 call: Call 3. They are in no hurry.\n"
        "2026-03-01 call: Call 2. They are in no hurry."
    )
    assert await about("T2", "U1") == "Ana Silva (U1)\nAna@Acme.example"


async def test_decision_context_has_a_maximum_length(desk: ToolScene, database: Database) -> None:
    await desk.done("crm.update", name="n" * 200, company="c" * 200, industry="i" * 200)
    for kind in ("call", "email", "meeting"):
        await desk.done("crm.log", kind=kind, summary=kind[0] * 2_000)
    async with database.begin() as tx:
        context = await describe_customer(tx, "T1", "U1", await Directory().get("U1"))
    assert len(context) <= MAX_CONTEXT
    assert all(f" {kind}: {kind[0] * 100}" in context for kind in ("call", "email", "meeting"))
