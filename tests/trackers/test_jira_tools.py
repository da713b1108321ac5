"""Tickets of Jira: found, read, and each change made once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.support.faulty_sandboxes import EndpointFaultKind
from tests.support.remote_tools import Office, opened
from tests.support.temporal import until
from tests.support.tool_results import code_of
from threadline.errors import Permanent, Transient
from threadline.tools.model import ErrorCode, ToolResult, ToolStatus
from threadline.trackers.jira import PROPERTY, JiraClient, NewTicket, TicketQuery
from threadline_devstack.processes import HOST
from threadline_devstack.server import bound, serving
from threadline_devstack.trackers import jira as jira_api
from threadline_devstack.trackers.jira import JiraIssue

NEW: dict[str, Any] = {
    "project": "SHOP",
    "type": "Bug",
    "summary": "Carts forget their codes",
    "labels": ["checkout"],
}
COMMENT: dict[str, Any] = {"key": "SHOP-2", "text": "Seen again today."}
MOVE: dict[str, Any] = {"key": "SHOP-1", "status": "In Review"}
CHANGES = [("jira.create", NEW), ("jira.comment", COMMENT), ("jira.transition", MOVE)]
of_each_change = pytest.mark.parametrize(
    ("name", "given"), CHANGES, ids=[name for name, _ in CHANGES]
)


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    async with opened() as office:
        yield office


def keys(result: ToolResult) -> list[str]:
    return [each["key"] for each in result.data["tickets"]]


def made(office: Office) -> list[JiraIssue]:
    return [
        each for each in office.sandbox.jira.site.issues.values() if each.summary == NEW["summary"]
    ]


def times_done(office: Office, name: str) -> int:
    issues = office.sandbox.jira.site.issues
    match name:
        case "jira.create":
            return len(made(office))
        case "jira.comment":
            return sum(COMMENT["text"] in each.body for each in issues["SHOP-2"].comments)
        case _:
            return office.sandbox.jira.requests.count("POST /issue/SHOP-1/transitions")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ["SHOP-3", "SHOP-1", "OPS-1", "SHOP-2"]),
        ({"words": "BULK price AND"}, ["SHOP-1"]),
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
async def test_tickets_are_found(office: Office, given: dict[str, Any], found: list[str]) -> None:
    result = await office.call("jira.search", **given)
    assert keys(result) == found
    assert [each["key"] for part in result.structured for each in part.records] == found
    assert {part.kind for part in result.structured} == ({"tickets"} if found else set())


async def test_ticket_has_its_comments_and_transitions(office: Office) -> None:
    result = await office.call("jira.get", key="shop-1")
    assert result.data["summary"] == "A discount code loses the bulk price"
    assert [each["text"] for each in result.data["newest_comments"]] == [
        "Two customers wrote about it.",
        "I have a test that shows it.",
    ]
    assert result.data["can_be_moved_to"] == ["In Review", "To Do"]
    assert result.structured[0].records[0]["status"] == "In Progress"


async def test_created_ticket_names_the_requester_and_hides_its_mark(office: Office) -> None:
    result = await office.call("jira.create", **NEW)
    (issue,) = made(office)
    assert result.data["key"] == issue.key == "SHOP-5"
    assert result.structured[0].kind == "tickets"
    assert "Rina (U1)" in issue.description
    assert issue.labels == ["checkout"]
    assert list(issue.properties) == [PROPERTY]
    assert "T1" not in str(issue.properties), "the mark does not reveal the thread"


async def test_field_that_the_project_requires_is_named(office: Office) -> None:
    office.sandbox.jira.site.required = {
        "components": "Component/s",
        "customfield_10011": "Epic Name",
    }
    result = await office.call("jira.create", **NEW)
    assert code_of(result) is ErrorCode.REFUSED
    assert "Component/s is required." in result.user_text
    assert "Epic Name is required." in result.user_text
    assert not made(office)


async def test_comment_names_all_requesters(office: Office) -> None:
    office.others = {"U2": "Ann (U2)", "U3": "Ben (U3)"}
    await office.call("jira.comment", **COMMENT)
    body = office.sandbox.jira.site.issues["SHOP-2"].comments[-1].body
    assert body.startswith("Seen again today.\n\n")
    assert "Rina (U1), Ann (U2) and Ben (U3)" in body


@of_each_change
@pytest.mark.parametrize("lost", ["answer", "record"])
async def test_change_with_lost_answer_or_record_is_made_once(
    office: Office, name: str, given: dict[str, Any], lost: str
) -> None:
    if lost == "answer":
        office.sandbox.order("jira", EndpointFaultKind.LOSE, method="POST", status=502)
    else:
        office.ledger.lost = Transient("The record cannot be reached.")
    assert (await office.persist(name, **given)).status is ToolStatus.OK
    assert times_done(office, name) == 1


@of_each_change
async def test_rate_limited_change_is_made_by_the_next_try(
    office: Office, name: str, given: dict[str, Any]
) -> None:
    office.sandbox.order(
        "jira", EndpointFaultKind.REFUSE, method="POST", status=429, retry_after=7
    )
    began = office.clock()
    assert (await office.persist(name, **given)).status is ToolStatus.OK
    assert times_done(office, name) == 1
    assert (office.clock() - began).total_seconds() == 7, "an impossible effect needs no wait"


async def test_failed_change_is_made_by_a_later_try(office: Office) -> None:
    office.sandbox.order("jira", EndpointFaultKind.REFUSE, method="POST", status=503)
    assert (await office.persist("jira.comment", **COMMENT)).status is ToolStatus.OK
    assert times_done(office, "jira.comment") == 1


@pytest.mark.parametrize("lost", [True, False])
async def test_interrupted_move_of_a_ticket_is_not_repeated(office: Office, lost: bool) -> None:
    """The ticket may have been moved, and moved back by a person."""
    ticket = office.sandbox.jira.site.issues[MOVE["key"]]
    before = ticket.status
    if lost:
        office.ledger.lost = Transient("The record cannot be reached.")
    else:
        office.sandbox.order("jira", EndpointFaultKind.REFUSE, method="POST", status=500)
    with pytest.raises(Transient):
        await office.call("jira.transition", retries_left=2, **MOVE)
    ticket.status = before
    result = await office.persist("jira.transition", **MOVE)
    assert code_of(result) is ErrorCode.OUTCOME_UNKNOWN
    assert "SHOP-1 is in In Progress now" in result.user_text
    assert (ticket.status, times_done(office, "jira.transition")) == (before, int(lost))


async def test_move_that_failed_before_its_request_is_retried_at_once(office: Office) -> None:
    office.sandbox.order("jira", method="GET", status=500)
    result = await office.call("jira.transition", **MOVE)
    assert code_of(result) is ErrorCode.SERVICE_UNAVAILABLE
    office.sandbox.order("jira", method="GET", status=500)
    began = office.clock()
    assert (await office.persist("jira.transition", call_id="c2", **MOVE)).status is ToolStatus.OK
    assert (office.clock() - began).total_seconds() == 1, "an impossible effect needs no wait"


async def test_ticket_that_cannot_be_found_is_not_created_again(office: Office) -> None:
    """The ticket may exist although the search does not show it: too many hidden ones precede
    it.
    """
    site = office.sandbox.jira.site
    site.search_delayed = True
    for number in range(5, 15):
        site.add("SHOP", type="Task", summary=f"Hidden {number}")
    office.sandbox.order("jira", EndpointFaultKind.LOSE, method="POST", status=504)
    with pytest.raises(Transient):
        await office.call("jira.create", retries_left=2, **NEW)
    for number in range(5, 15):
        del site.issues[f"SHOP-{number}"]
    result = await office.persist("jira.create", **NEW)
    assert code_of(result) is ErrorCode.OUTCOME_UNKNOWN
    assert times_done(office, "jira.create") == 1


async def test_missing_comment_is_waited_for(office: Office) -> None:
    office.sandbox.order("jira", EndpointFaultKind.REFUSE, method="POST", status=504)
    with pytest.raises(Transient):
        await office.call("jira.comment", retries_left=2, **COMMENT)
    office.clock.advance(5)
    with pytest.raises(Transient) as early:
        await office.call("jira.comment", retries_left=1, **COMMENT)
    assert early.value.retry_after == 40


async def test_created_ticket_is_found_despite_a_lagging_search(office: Office) -> None:
    office.sandbox.jira.site.search_delayed = True
    for number in range(3):  # others create tickets in the same moment
        office.sandbox.jira.site.add("SHOP", type="Task", summary=f"Another {number}")
    del office.sandbox.jira.site.issues["SHOP-6"]
    office.sandbox.order("jira", EndpointFaultKind.LOSE, method="POST", status=504)
    result = await office.persist("jira.create", **NEW)
    assert (result.data["key"], times_done(office, "jira.create")) == ("SHOP-8", 1)


async def test_two_calls_with_the_same_text_are_two_changes(office: Office) -> None:
    for call_id in ("c1", "c2"):
        await office.call("jira.comment", call_id=call_id, **COMMENT)
    assert times_done(office, "jira.comment") == 2


async def test_ticket_in_the_wanted_status_is_not_moved(office: Office) -> None:
    result = await office.call("jira.transition", key="SHOP-1", status="in progress")
    assert (result.data["status"], times_done(office, "jira.transition")) == ("In Progress", 0)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("jira.get", {"key": "SHOP-99"}, "SHOP-99 is not in Jira"),
        ("jira.comment", COMMENT | {"key": "SHOP-99"}, "SHOP-99 is not in Jira"),
        (
            "jira.transition",
            {"key": "SHOP-1", "status": "Done"},
            "can be moved to: In Review, To Do.",
        ),
        ("jira.create", NEW | {"project": "NONE"}, "project: valid project is required"),
        ("jira.create", NEW | {"type": "Wish"}, "issuetype: Specify a valid issue type"),
        ("jira.search", {"project": "NONE"}, "does not exist for the field"),
    ],
)
async def test_refusal_names_the_wrong_field_or_value(
    office: Office, name: str, given: dict[str, Any], said: str
) -> None:
    result = await office.call(name, **given)
    assert code_of(result) is ErrorCode.REFUSED
    assert said in result.user_text


@pytest.mark.parametrize("key", ["SHOP", "SHOP-1/../../myself", "../x-1", "SHOP-1?expand=x", ""])
async def test_malformed_key_is_not_sent_to_jira(office: Office, key: str) -> None:
    result = await office.call("jira.get", key=key)
    assert code_of(result) is ErrorCode.INVALID_ARGUMENTS
    assert office.sandbox.jira.requests == []


@pytest.mark.parametrize(
    ("fault", "side", "said"),
    [
        ({"kind": EndpointFaultKind.PAGE}, Permanent, "a web page"),
        ({"kind": EndpointFaultKind.GARBLE}, Transient, "could not be read"),
        ({"status": 500}, Transient, "HTTP 500"),
        ({"status": 409}, Transient, "HTTP 409"),
        ({"status": 429}, Transient, "rate limit is reached"),
        ({"status": 401}, Permanent, "THREADLINE_JIRA_TOKEN"),
        (
            {"status": 403, "words": "You may not browse SHOP."},
            Permanent,
            "You may not browse SHOP.",
        ),
        (
            {"status": 400, "words": "Component/s is required."},
            Permanent,
            "refused it: Component/s is required.$",
        ),
        (
            {"status": 400, "words": "Team is required. See https://a.example/x."},
            Permanent,
            "Team is required. …$",
        ),
        (
            {"status": 403, "words": "See https://acme.example/x"},
            Permanent,
            "ask for the permission",
        ),
        ({"status": 404}, Permanent, "is not in Jira"),
        ({"status": 405}, Permanent, "HTTP 405"),
    ],
)
async def test_fault_of_jira_is_transient_or_permanent(
    office: Office, fault: dict[str, Any], side: type[Exception], said: str
) -> None:
    office.sandbox.order("jira", **fault)
    with pytest.raises(side, match=said):
        await office.jira.ticket("SHOP-1")
    assert (await office.jira.ticket("SHOP-1")).ticket.key == "SHOP-1", (
        "the next call is not affected"
    )


async def test_unreadable_answer_is_not_logged(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in (EndpointFaultKind.GARBLE, EndpointFaultKind.PAGE):
        office.sandbox.order("jira", kind)
        await office.call("jira.get", key="SHOP-1")
    assert "broken" not in caplog.text
    assert "doctype" not in caplog.text


async def test_hanging_jira_is_left_after_the_timeout() -> None:
    async with opened(patience=1) as office:
        office.sandbox.order("jira", EndpointFaultKind.HANG)
        with pytest.raises(Transient, match="did not answer in time"):
            await office.jira.account()


async def no_request_hangs(office: Office) -> None:
    async def condition() -> bool:
        return office.sandbox.hanging == 0

    await until(condition, "the end of the request", seconds=5)


@pytest.mark.parametrize(
    ("name", "given"),
    [("jira.search", {}), ("jira.get", {"key": "SHOP-1"}), ("jira.transition", MOVE)],
)
async def test_call_that_is_given_up_leaves_no_open_request(
    name: str, given: dict[str, Any]
) -> None:
    async with opened(patience=60) as office:
        office.limit_calls(0.5)
        office.sandbox.order("jira", EndpointFaultKind.HANG)
        result = await office.call(name, **given)
        assert "no answer within 0.5 seconds" in result.user_text
        await no_request_hangs(office)
        assert len(office.sandbox.jira.requests) == 1


async def test_look_up_that_is_given_up_reads_no_further_numbers() -> None:
    async with opened(patience=60) as office:
        office.sandbox.jira.site.search_delayed = True
        for number in range(10):
            office.sandbox.jira.site.add("SHOP", type="Task", summary=f"Another {number}")
        office.sandbox.order("jira", EndpointFaultKind.HANG, path="/issue/SHOP-6")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await office.jira.find_created("SHOP", "a mark")
        await no_request_hangs(office)
        assert office.sandbox.jira.requests[-1] == "GET /issue/SHOP-6"


async def test_answer_without_end_is_not_read(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.trackers.jira._MAX_ANSWER", 100)
    with pytest.raises(Transient, match="could not be read"):
        await office.jira.ticket("SHOP-1")


async def test_change_that_a_redirect_turned_into_a_read_is_refused() -> None:
    """Reading the comments succeeds, and adds no comment."""

    async def elsewhere(request: Request) -> Response:
        if request.method == "POST":
            return RedirectResponse(request.url, 301)
        return JSONResponse({"comments": [], "total": 0})

    app = Starlette(
        routes=[Route("/rest/api/2/issue/SHOP-1/comment", elsewhere, methods=["GET", "POST"])]
    )
    with bound(0) as listener:
        async with serving(app, listener), aiohttp.ClientSession() as session:
            client = JiraClient(
                session,
                f"http://{HOST}:{listener.getsockname()[1]}",
                "a@b.example",
                SecretStr("x"),
            )
            with pytest.raises(Permanent, match="THREADLINE_JIRA_URL"):
                await client.comment("SHOP-1", "Hello", "a mark")


async def test_unreachable_jira_is_transient() -> None:
    async with aiohttp.ClientSession() as session:
        nowhere = JiraClient(session, "http://127.0.0.1:1/jira", "a@b.example", SecretStr("x"))
        with pytest.raises(Transient, match="could not be reached"):
            await nowhere.search(TicketQuery(limit=1))


async def test_wrong_token_is_reported(office: Office) -> None:
    async with aiohttp.ClientSession() as session:
        stranger = JiraClient(
            session, f"{office.sandbox.url}/jira", jira_api.EMAIL, SecretStr("wrong")
        )
        with pytest.raises(Permanent, match="THREADLINE_JIRA_EMAIL"):
            await stranger.account()


async def test_ticket_on_the_second_page_of_the_search_is_found(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.trackers.jira._PAGE_SIZE", 2)
    await office.jira.create(NewTicket(project="SHOP", type="Bug", summary="The first"), "first")
    for number in range(3):
        another = NewTicket(project="SHOP", type="Bug", summary=f"Another {number}")
        await office.jira.create(another, f"another {number}")
    found = await office.jira.find_created("SHOP", "first")
    assert found is not None
    assert found.summary == "The first"
    assert office.sandbox.jira.requests.count("GET /search/jql") == 2
