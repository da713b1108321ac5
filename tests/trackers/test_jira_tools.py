"""Tickets through all policies and the real client: found, read, and each change made once."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.remote_tools import Office, opened
from threadline.errors import Permanent, Transient
from threadline.tools.model import Code, Status, ToolResult
from threadline.trackers.jira import PROPERTY, Jira
from threadline.trackers.model import TicketQuery
from threadline_devstack.trackers import Kind
from threadline_devstack.trackers import jira as jira_api
from threadline_devstack.trackers.jira_records import Issue

NEW: dict[str, Any] = {"project": "SHOP", "type": "Bug", "summary": "Carts forget their codes", "labels": ["checkout"]}
COMMENT: dict[str, Any] = {"key": "SHOP-2", "text": "Seen again today."}
MOVE: dict[str, Any] = {"key": "SHOP-1", "status": "In Review"}
CHANGES = [("jira.create", NEW), ("jira.comment", COMMENT), ("jira.transition", MOVE)]
of_each_change = pytest.mark.parametrize(("name", "given"), CHANGES, ids=[name for name, _ in CHANGES])


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    async with opened() as office:
        yield office


def keys(result: ToolResult) -> list[str]:
    return [each["key"] for each in result.data["tickets"]]


def made(office: Office) -> list[Issue]:
    return [each for each in office.services.jira.site.issues.values() if each.summary == NEW["summary"]]


def times_done(office: Office, name: str) -> int:
    issues = office.services.jira.site.issues
    match name:
        case "jira.create":
            return len(made(office))
        case "jira.comment":
            return sum(COMMENT["text"] in each.body for each in issues["SHOP-2"].comments)
        case _:
            return office.services.jira.requests.count("POST /issue/SHOP-1/transitions")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ["SHOP-3", "SHOP-1", "OPS-1", "SHOP-2"]),
        ({"words": "BULK price AND"}, ["SHOP-1"]),
        ({"words": "code bulk"}, ["SHOP-1"]),
        ({"words": "Two customers wrote"}, ["SHOP-1"]),
        ({"project": "shop", "open_only": True}, ["SHOP-3", "SHOP-1", "SHOP-2"]),
        ({"assignee": "nobody", "project": "SHOP"}, ["SHOP-3", "SHOP-2"]),
        ({"assignee": "ada park"}, ["SHOP-1"]),
        ({"status": "Done", "type": "Task"}, ["SHOP-4"]),
        ({"updated_within_days": 2}, ["SHOP-3"]),
        ({"project": "SHOP", "limit": 1}, ["SHOP-3"]),
        ({"words": '"" OR project = OPS'}, []),
    ],
)
async def test_tickets_are_found_by_what_people_say_of_them(
    office: Office, given: dict[str, Any], found: list[str]
) -> None:
    result = await office.call("jira.search", **given)
    assert keys(result) == found
    assert [each["key"] for part in result.structured for each in part.records] == found
    assert {part.kind for part in result.structured} == ({"tickets"} if found else set())


async def test_a_ticket_is_read_with_its_comments_and_where_it_can_go(office: Office) -> None:
    result = await office.call("jira.get", key="shop-1")
    assert result.data["summary"] == "A discount code loses the bulk price"
    assert [each["text"] for each in result.data["newest_comments"]] == [
        "Two customers wrote about it.",
        "I have a test that shows it.",
    ]
    assert result.data["can_be_moved_to"] == ["In Review", "To Do"]
    assert result.structured[0].records[0]["status"] == "In Progress"


async def test_a_created_ticket_says_who_asked_and_shows_no_mark(office: Office) -> None:
    result = await office.call("jira.create", **NEW)
    (issue,) = made(office)
    assert result.data["key"] == issue.key == "SHOP-5"
    assert result.structured[0].kind == "tickets"
    assert issue.description == "Asked for by Rina (U1) in Slack."
    assert issue.labels == ["checkout"]
    assert list(issue.properties) == [PROPERTY]
    assert "T1" not in str(issue.properties), "the mark does not tell the thread"


async def test_where_several_have_written_each_of_them_is_named(office: Office) -> None:
    office.others = ("Ann (U2)", "Ben (U3)")
    await office.call("jira.comment", **COMMENT)
    body = office.services.jira.site.issues["SHOP-2"].comments[-1].body
    assert body == "Seen again today.\n\nAsked for in a Slack thread by Rina (U1), Ann (U2) and Ben (U3)."


@of_each_change
async def test_a_change_whose_answer_was_lost_is_found_and_not_made_twice(
    office: Office, name: str, given: dict[str, Any]
) -> None:
    office.services.order("jira", Kind.LOSE, method="POST", status=502)
    result = await office.persist(name, **given)
    assert result.status is Status.OK
    assert times_done(office, name) == 1


@of_each_change
async def test_a_change_whose_record_was_lost_is_found_and_not_made_twice(
    office: Office, name: str, given: dict[str, Any]
) -> None:
    office.log.lost = Transient("The record cannot be reached.")
    result = await office.persist(name, **given)
    assert result.status is Status.OK
    assert times_done(office, name) == 1


@of_each_change
async def test_a_change_that_was_surely_not_made_is_made_by_the_next_try(
    office: Office, name: str, given: dict[str, Any]
) -> None:
    office.services.order("jira", Kind.REFUSE, method="POST", status=429, retry_after=7)
    began = office.clock()
    assert (await office.persist(name, **given)).status is Status.OK
    assert times_done(office, name) == 1
    assert (office.clock() - began).total_seconds() == 7, "nobody waits for an effect that cannot be"


@pytest.mark.parametrize("status", [500, 503])
async def test_a_change_that_was_not_made_is_made_by_a_later_try(office: Office, status: int) -> None:
    office.services.order("jira", Kind.REFUSE, method="POST", status=status)
    assert (await office.persist("jira.comment", **COMMENT)).status is Status.OK
    assert times_done(office, "jira.comment") == 1


@pytest.mark.parametrize("lost", [True, False])
async def test_a_ticket_that_is_elsewhere_after_an_interrupted_move_is_not_moved_again(
    office: Office, lost: bool
) -> None:
    """It may have been moved, and put back by a person."""
    ticket = office.services.jira.site.issues[MOVE["key"]]
    before = ticket.status
    if lost:
        office.log.lost = Transient("The record cannot be reached.")
    else:
        office.services.order("jira", Kind.REFUSE, method="POST", status=500)
    with pytest.raises(Transient):
        await office.call("jira.transition", retries_left=2, **MOVE)
    ticket.status = before
    result = await office.persist("jira.transition", **MOVE)
    assert result.error
    assert result.error.code is Code.OUTCOME_UNKNOWN
    assert "SHOP-1 is in In Progress now" in result.text
    assert (ticket.status, times_done(office, "jira.transition")) == (before, int(lost))


async def test_a_move_that_failed_before_it_was_asked_for_is_said_not_to_be_made(office: Office) -> None:
    office.services.order("jira", method="GET", status=500)
    result = await office.call("jira.transition", **MOVE)
    assert result.error
    assert result.error.code is Code.SERVICE_UNAVAILABLE
    office.services.order("jira", method="GET", status=500)
    began = office.clock()
    assert (await office.persist("jira.transition", call_id="c2", **MOVE)).status is Status.OK
    assert (office.clock() - began).total_seconds() == 1, "nobody waits for an effect that cannot be"


async def test_a_ticket_that_is_nowhere_to_be_found_is_not_created_once_more(office: Office) -> None:
    """It may be there and the search behind: more hidden ones before it than are looked through."""
    site = office.services.jira.site
    site.lagging = True
    for number in range(5, 15):
        site.add("SHOP", type="Task", summary=f"Hidden {number}")
    office.services.order("jira", Kind.LOSE, method="POST", status=504)
    with pytest.raises(Transient):
        await office.call("jira.create", retries_left=2, **NEW)
    for number in range(5, 15):
        del site.issues[f"SHOP-{number}"]
    result = await office.persist("jira.create", **NEW)
    assert result.error
    assert result.error.code is Code.OUTCOME_UNKNOWN
    assert times_done(office, "jira.create") == 1


async def test_a_comment_that_is_not_there_yet_is_waited_for(office: Office) -> None:
    office.services.order("jira", Kind.REFUSE, method="POST", status=504)
    with pytest.raises(Transient):
        await office.call("jira.comment", retries_left=2, **COMMENT)
    office.clock.advance(5)
    with pytest.raises(Transient) as early:
        await office.call("jira.comment", retries_left=1, **COMMENT)
    assert early.value.retry_after == 40


async def test_a_ticket_that_the_search_does_not_know_yet_is_found_all_the_same(office: Office) -> None:
    office.services.jira.site.lagging = True
    for number in range(3):  # others create tickets in the same moment
        office.services.jira.site.add("SHOP", type="Task", summary=f"Another {number}")
    del office.services.jira.site.issues["SHOP-6"]
    office.services.order("jira", Kind.LOSE, method="POST", status=504)
    result = await office.persist("jira.create", **NEW)
    assert (result.data["key"], times_done(office, "jira.create")) == ("SHOP-8", 1)


async def test_two_calls_with_the_same_words_are_two_changes(office: Office) -> None:
    for call_id in ("c1", "c2"):
        await office.call("jira.comment", call_id=call_id, **COMMENT)
    assert times_done(office, "jira.comment") == 2


async def test_a_change_that_nobody_can_vouch_for_is_said_to_be_unknown(office: Office) -> None:
    office.services.order("jira", Kind.LOSE, method="POST", status=502)
    result = await office.call("jira.create", retries_left=0, **NEW)
    assert result.error
    assert result.error.code is Code.OUTCOME_UNKNOWN


async def test_a_limited_change_is_said_not_to_be_made(office: Office) -> None:
    office.services.order("jira", method="POST", status=429, retry_after=7)
    result = await office.call("jira.create", retries_left=0, **NEW)
    assert result.error
    assert result.error.code is Code.SERVICE_UNAVAILABLE
    assert "7 seconds" in result.text


async def test_a_short_limit_is_waited_for(office: Office) -> None:
    office.services.order("jira", status=429, retry_after=7)
    with pytest.raises(Transient) as limited:
        await office.call("jira.get", retries_left=2, key="SHOP-1")
    assert limited.value.retry_after == 7


async def test_a_long_limit_is_told_and_not_waited_for(office: Office) -> None:
    office.services.order("jira", status=429, retry_after=3600)
    result = await office.call("jira.get", retries_left=2, key="SHOP-1")
    assert "3600 seconds" in result.text


async def test_a_ticket_that_is_where_it_should_be_is_not_moved(office: Office) -> None:
    result = await office.call("jira.transition", key="SHOP-1", status="in progress")
    assert (result.data["status"], times_done(office, "jira.transition")) == ("In Progress", 0)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("jira.get", {"key": "SHOP-99"}, "SHOP-99 is not in Jira"),
        ("jira.comment", COMMENT | {"key": "SHOP-99"}, "SHOP-99 is not in Jira"),
        ("jira.transition", {"key": "SHOP-1", "status": "Done"}, "can be moved to: In Review, To Do."),
        ("jira.create", NEW | {"project": "NONE"}, "valid project is required"),
        ("jira.create", NEW | {"type": "Wish"}, "Specify a valid issue type"),
        ("jira.search", {"project": "NONE"}, "does not exist for the field"),
    ],
)
async def test_a_refusal_says_what_to_change(office: Office, name: str, given: dict[str, Any], said: str) -> None:
    result = await office.call(name, **given)
    assert result.error
    assert result.error.code is Code.REFUSED
    assert said in result.text


@pytest.mark.parametrize("key", ["SHOP", "SHOP-1/../../myself", "../x-1", "SHOP-1?expand=x", ""])
async def test_a_key_that_is_none_reaches_no_jira(office: Office, key: str) -> None:
    result = await office.call("jira.get", key=key)
    assert result.error
    assert result.error.code is Code.INVALID_ARGUMENTS
    assert office.services.jira.requests == []


@pytest.mark.parametrize(
    ("fault", "side", "said"),
    [
        ({"kind": Kind.PAGE}, Permanent, "a web page"),
        ({"kind": Kind.GARBLE}, Transient, "could not be read"),
        ({"status": 500}, Transient, "HTTP 500"),
        ({"status": 409}, Transient, "HTTP 409"),
        ({"status": 429}, Transient, "rate limit is reached"),
        ({"status": 401}, Permanent, "THREADLINE_JIRA_TOKEN"),
        ({"status": 403, "words": "You may not browse SHOP."}, Permanent, "You may not browse SHOP."),
        ({"status": 403, "words": "See https://acme.example/x"}, Permanent, "ask for the permission"),
        ({"status": 404}, Permanent, "is not in Jira"),
        ({"status": 405}, Permanent, "HTTP 405"),
    ],
)
async def test_each_fault_of_jira_picks_its_side(
    office: Office, fault: dict[str, Any], side: type[Exception], said: str
) -> None:
    office.services.order("jira", **fault)
    with pytest.raises(side, match=said):
        await office.jira.ticket("SHOP-1")
    assert (await office.jira.ticket("SHOP-1")).ticket.key == "SHOP-1", "the next call is as if nothing had been"


async def test_what_cannot_be_read_is_not_written_into_the_log(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in (Kind.GARBLE, Kind.PAGE):
        office.services.order("jira", kind)
        await office.call("jira.get", key="SHOP-1")
    assert "broken" not in caplog.text
    assert "doctype" not in caplog.text


async def test_a_jira_that_hangs_is_left_after_its_time() -> None:
    async with opened(patience=1) as office:
        office.services.order("jira", Kind.HANG)
        with pytest.raises(Transient, match="did not answer in time"):
            await office.jira.account()


async def test_a_jira_that_is_away_is_transient() -> None:
    nowhere = Jira("http://127.0.0.1:1/jira", "a@b.example", SecretStr("x"))
    with pytest.raises(Transient, match="could not be reached"):
        await nowhere.search(TicketQuery(), 1)
    await nowhere.close()


async def test_a_wrong_token_is_said_so(office: Office) -> None:
    stranger = Jira(f"{office.services.url}/jira", jira_api.EMAIL, SecretStr("wrong"))
    with pytest.raises(Permanent, match="THREADLINE_JIRA_EMAIL"):
        await stranger.account()
    await stranger.close()
