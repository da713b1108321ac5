"""Customers from a thread: found, read, and changed once for each call with a trace of every field."""

import asyncio
import json
from typing import Any

import pytest
from sqlalchemy import select, text

from tests.sales.customers import Directory, desk_of
from tests.support.tool_desk import Desk
from threadline.conversations.blocks import answer_of
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.errors import OnRecord, Transient
from threadline.sales.crm import PostgresCrm
from threadline.sales.model import LONGEST_CONTEXT
from threadline.sales.tables import crm_audit
from threadline.slack.people import Person
from threadline.tools.model import Code, ToolResult
from threadline.wiring.decisions import lead_context


@pytest.fixture
def desk(database: Database) -> Desk:
    return desk_of(database)


def told(result: ToolResult) -> str:
    assert result.error
    return result.error.message


async def audit(database: Database) -> list[tuple[str, str, str, str, str]]:
    """Of each row: whose field, from what, to what, and by whom; in their order."""
    row = crm_audit.c
    query = select(row.lead_id, row.company_id, row.field, row.was, row.became, row.user_id).order_by(row.id)
    async with database.begin() as work:
        rows = await work.connection.execute(query)
        return [(each[0] or each[1], *each[2:]) for each in rows]


async def test_whoever_asks_is_put_on_record_and_each_field_leaves_a_trace(desk: Desk, database: Database) -> None:
    first = await desk.ask("crm.update", company="Acme Corp", stage="qualified", industry="Ships")
    assert first.display_text == (
        "LEAD-1 (Ana Silva) is on record now. Changed for LEAD-1 (Ana Silva): company, name, email, stage, industry."
    )
    assert first.data["lead"] == {
        "lead_id": "LEAD-1",
        "user_id": "U1",
        "email": "ana@acme.example",
        "name": "Ana Silva",
        "stage": "qualified",
        "company": "Acme Corp",
        "industry": "Ships",
    }
    await desk.done("crm.update", user_id="U2", lead_id="lead-1", company="ACME corp", phone="+351 1", industry="Boats")
    assert await audit(database) == [
        ("LEAD-1", "company", "", "Acme Corp", "U1"),
        ("LEAD-1", "name", "", "Ana Silva", "U1"),
        ("LEAD-1", "email", "", "ana@acme.example", "U1"),
        ("LEAD-1", "stage", "new", "qualified", "U1"),
        ("CO-1", "industry", "", "Ships", "U1"),
        ("LEAD-1", "phone", "", "+351 1", "U2"),
        ("CO-1", "industry", "Ships", "Boats", "U2"),
    ]
    [message] = answer_of(first.display_text, [(each.kind, each.records) for each in first.structured])
    assert "Acme Corp" in json.dumps(message.blocks)


async def test_what_says_the_same_leaves_no_trace(desk: Desk, database: Database) -> None:
    await desk.done("crm.update", name=" Ana   Maria ", email="ANA@acme.example")
    before = await audit(database)
    again = await desk.ask("crm.update", name="Ana Maria", email="ana@ACME.example ")
    assert (again.data["changed"], again.data["created"]) == ([], False)
    assert again.display_text == "LEAD-1 (Ana Maria) has all of this on record already."
    assert await audit(database) == before


@pytest.mark.parametrize(
    "statement", ["UPDATE crm_audit SET became = 'x'", "TRUNCATE crm_audit"], ids=["update", "truncate"]
)
async def test_nobody_rewrites_the_trace(desk: Desk, database: Database, statement: str) -> None:
    await desk.done("crm.update", title="Captain")
    with pytest.raises(OnRecord):
        async with database.begin() as work:
            await work.connection.execute(text(statement))


async def test_a_call_whose_answer_was_lost_is_made_once(desk: Desk, database: Database) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("crm.update", {"title": "Captain"}),
        ("crm.log", {"kind": "call", "summary": "They want a boat."}),
    ]
    for tool, given in calls:
        desk.log.lost = RuntimeError("the worker died")
        with pytest.raises(RuntimeError):
            await desk.ask(tool, call_id=f"once_{tool}", **given)
        desk.log.lost = None
        before = await audit(database)
        assert (await desk.ask(tool, call_id=f"once_{tool}", **given)).success
        assert await audit(database) == before
    shown = await desk.done("crm.get")
    assert [each["summary"] for each in shown["interactions"]] == ["They want a boat."]


async def test_two_who_change_the_same_lead_at_once_leave_one_lead_and_both_traces(
    desk: Desk, database: Database
) -> None:
    titles = [f"title {number}" for number in range(8)]
    done = await asyncio.gather(*(desk.ask("crm.update", title=each) for each in titles))
    assert all(each.success for each in done)
    assert sum(each.data["created"] for each in done) == 1
    assert len((await desk.done("crm.find"))["leads"]) == 1
    chain = [(was, became) for _, field, was, became, _ in await audit(database) if field == "title"]
    assert sorted(became for _, became in chain) == titles
    assert [was for was, _ in chain] == ["", *(became for _, became in chain[:-1])]


async def test_eight_leads_of_one_new_company_make_it_once(database: Database) -> None:
    users = [f"UX{number}" for number in range(8)]
    desk = desk_of(database, people=Directory({each: Person("T1", name=each) for each in users}))
    done = await asyncio.gather(
        *(desk.ask("crm.update", user_id=each, company="Acme", website=f"https://{each}.example") for each in users)
    )
    assert [each.error for each in done if each.error] == []
    assert {each.data["lead"]["company"] for each in done} == {"Acme"}
    assert len({each for each, *_ in await audit(database) if each.startswith("CO-")}) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no change was given"),
        ({"email": "ana at acme"}, "not a mail address: give one"),
        ({"email": "a@b.example, c@d.example"}, "not a mail address"),
        ({"email": "a@b.example\r\nBcc: c@d.example"}, "not a mail address"),
        ({"industry": "Ships"}, "LEAD-1 has no company yet: name one in company"),
        ({"lead_id": "LEAD-99", "name": "x"}, "there is no lead LEAD-99"),
        ({"email": "ben@shop.example"}, "another lead has this mail address: find that one"),
    ],
)
async def test_what_cannot_be_kept_is_refused_and_changes_nothing(
    desk: Desk, database: Database, given: dict[str, Any], said: str
) -> None:
    await desk.done("crm.update", title="Captain")
    await desk.done("crm.update", user_id="U2", title="Cook")
    before = await audit(database)
    result = await desk.refused("crm.update", **given)
    assert said in told(result)
    assert await audit(database) == before


@pytest.mark.parametrize(
    "given",
    [{"nickname": "A"}, {"name": "x" * 201}, {"notes": "x" * 4_001}, {"stage": "enthusiastic"}, {"lead_id": "x" * 41}],
)
async def test_an_unknown_field_and_a_text_too_long_are_told_by_their_name(desk: Desk, given: dict[str, Any]) -> None:
    result = await desk.refused("crm.update", **given)
    assert result.error
    assert result.error.code is Code.INVALID_ARGUMENTS
    assert next(iter(given)) in told(result)


async def test_customers_are_found_by_name_address_company_and_slack_id(desk: Desk) -> None:
    await desk.done("crm.update", company="Acme Corp")
    await desk.done("crm.update", user_id="U2", company="100% Ships")
    for words, found in (
        ("ana", ["LEAD-1"]),
        ("BEN@", ["LEAD-2"]),
        ("acme", ["LEAD-1"]),
        ("%", ["LEAD-2"]),
        ("<@U2>", ["LEAD-2"]),
        ("lead-1", ["LEAD-1"]),
        ("", ["LEAD-1", "LEAD-2"]),
        ("nobody", []),
    ):
        assert [each["lead_id"] for each in (await desk.done("crm.find", words=words))["leads"]] == found, words
    nobody = await desk.ask("crm.find", words="nobody")
    assert nobody.display_text == "No such customer is on record."


async def test_leads_of_another_team_are_not_there(desk: Desk) -> None:
    await desk.done("crm.update", company="Acme Corp")
    there = {"team": "T2", "user_id": "U9"}
    assert (await desk.done("crm.find", words="ana", **there))["leads"] == []
    for tool, given in (
        ("crm.get", {}),
        ("crm.update", {"name": "x"}),
        ("crm.log", {"kind": "note", "summary": "x"}),
    ):
        assert "there is no lead LEAD-1" in told(await desk.refused(tool, lead_id="LEAD-1", **given, **there))
    await desk.done("crm.update", company="acme corp", **there)
    assert (await desk.done("crm.get"))["company"] == "Acme Corp"


@pytest.mark.parametrize("user_id", ["UGUEST", "UOTHER", "UNKNOWN"])
async def test_who_is_from_outside_has_the_own_record_and_no_other(desk: Desk, user_id: str) -> None:
    await desk.done("crm.update", company="Acme Corp")
    assert (await desk.done("crm.find", words="", user_id=user_id))["leads"] == []
    for tool, given in (
        ("crm.get", {}),
        ("crm.update", {"name": "x"}),
        ("crm.log", {"kind": "note", "summary": "x"}),
    ):
        said = told(await desk.refused(tool, lead_id="LEAD-1", user_id=user_id, **given))
        assert "can see and change only their own record" in said
    made = await desk.done("crm.update", title="Buyer", user_id=user_id)
    own = made["lead"]["lead_id"]
    assert [each["lead_id"] for each in (await desk.done("crm.find", words="ana", user_id=user_id))["leads"]] == [own]
    assert (await desk.done("crm.get", lead_id=own.lower(), user_id=user_id))["title"] == "Buyer"


@pytest.mark.parametrize("user_id", ["UGUEST", "UOTHER", "UNKNOWN"])
async def test_who_says_to_be_of_a_company_from_outside_sees_and_changes_nothing_of_it(
    desk: Desk, database: Database, user_id: str
) -> None:
    about = {"website": "https://globex.example", "industry": "Steel", "company_notes": "They are about to cancel."}
    await desk.done("crm.update", company="Globex", **about)
    made = await desk.ask("crm.update", company="globex", title="Buyer", user_id=user_id)
    assert made.data["lead"]["company"] == "Globex"
    found = await desk.ask("crm.find", user_id=user_id)
    shown = await desk.ask("crm.get", user_id=user_id)
    people = Directory()
    context = await lead_context(PostgresCrm(database, people), people)("T1", user_id)
    assert "Company: Globex" in context
    for told_to_them in (repr(made), repr(found), repr(shown), context):
        assert not [each for each in about.values() if each in told_to_them]
    before = await audit(database)
    for field in about:
        refused = await desk.refused("crm.update", user_id=user_id, title="Cook", **{field: "x"})
        assert f"only members of the workspace can change the record of a company: leave out {field}" in told(refused)
    with_ana: dict[str, Any] = {"user_id": "U1", "others": ("Gus (UGUEST)",), "other_ids": (user_id,)}
    assert "leave out industry" in told(await desk.refused("crm.update", lead_id="LEAD-1", industry="x", **with_ana))
    own = await desk.ask("crm.get", lead_id="LEAD-1", **with_ana)
    assert "about to cancel" not in repr(own)
    assert await audit(database) == before
    assert (await desk.done("crm.get", lead_id="LEAD-1"))["company_notes"] == about["company_notes"]


async def test_with_somebody_from_outside_among_those_who_ask_nobody_sees_more(desk: Desk) -> None:
    await desk.done("crm.update", company="Acme Corp")
    both = {"user_id": "U2", "others": ("Gus (UGUEST)",), "other_ids": ("UGUEST",)}
    assert (await desk.done("crm.find", words="", **both))["leads"] == []
    assert "only their own record" in told(await desk.refused("crm.get", lead_id="LEAD-1", **both))
    insiders = {"user_id": "U2", "others": ("Ana (U1)",), "other_ids": ("U1",)}
    assert len((await desk.done("crm.find", words="", **insiders))["leads"]) == 1


async def test_somebody_who_is_on_record_by_the_address_is_not_made_twice(desk: Desk, database: Database) -> None:
    await desk.done("crm.update", user_id="U2", email="ana@acme.example")
    async with database.begin() as work:
        await work.connection.execute(text("UPDATE crm_leads SET user_id = ''"))
    done = await desk.done("crm.update", title="Captain")
    assert (done["created"], done["lead"]["lead_id"], done["lead"]["user_id"]) == (False, "LEAD-1", "U1")


async def test_an_address_that_is_anothers_is_left_to_that_one(desk: Desk) -> None:
    await desk.done("crm.update", user_id="U2", email="ana@acme.example")
    done = await desk.done("crm.update", title="Captain")
    assert done["created"]
    assert "email" not in done["lead"]


async def test_where_several_have_written_the_lead_is_named(desk: Desk) -> None:
    for tool, given in (("crm.get", {}), ("crm.update", {"name": "x"}), ("crm.log", {"kind": "note", "summary": "x"})):
        result = await desk.refused(tool, others=("Ben (U2)",), **given)
        assert "Several people have written: U1 and" not in told(result)
        assert "give the lead_id" in told(result)


async def test_who_is_not_on_record_hears_it(desk: Desk) -> None:
    assert "has no record yet" in told(await desk.refused("crm.get"))


async def test_while_slack_is_away_nothing_is_changed_and_that_is_known(database: Database) -> None:
    people = Directory()
    desk = desk_of(database, people=people)
    people.away = True
    result = await desk.refused("crm.update", title="Captain")
    assert result.error
    assert result.error.code is Code.SERVICE_UNAVAILABLE
    with pytest.raises(Transient):
        await desk.ask("crm.update", call_id="again", retries_left=1, title="Captain")
    people.away = False
    assert (await desk.ask("crm.update", call_id="again", title="Captain")).success


async def test_a_lead_is_changed_only_so_often(database: Database) -> None:
    desk = desk_of(database, Rate(1, 60.0))
    await desk.done("crm.update", title="Captain")
    result = await desk.refused("crm.update", title="Cook")
    assert result.error
    assert result.error.code is Code.TOO_MANY_CHANGES
    assert (await desk.done("crm.get"))["title"] == "Captain"


async def test_a_decision_is_told_of_the_lead_and_of_what_slack_says_where_there_is_none(
    desk: Desk, database: Database
) -> None:
    people = Directory()
    about = lead_context(PostgresCrm(database, people), people)
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


async def test_what_a_decision_is_told_is_bounded(desk: Desk, database: Database) -> None:
    await desk.done("crm.update", name="n" * 200, company="c" * 200, industry="i" * 200)
    for kind in ("call", "email", "meeting"):
        await desk.done("crm.log", kind=kind, summary=kind[0] * 2_000)
    context = await PostgresCrm(database, Directory()).context_of("T1", "U1")
    assert len(context) <= LONGEST_CONTEXT
    assert all(f" {kind}: {kind[0] * 100}" in context for kind in ("call", "email", "meeting"))
