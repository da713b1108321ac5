"""Customers that only one group may see or change: everybody else still reaches the own lead."""

from typing import Any

import pytest

from tests.sales.customers import Directory
from tests.support.role_fakes import SELLER, directory, sellers
from tests.support.tool_results import code_of, message_of
from tests.support.tool_scene import ToolScene
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.sales import tools as crm
from threadline.slack.model import User
from threadline.slack.user_groups import UserGroups
from threadline.slack.users import UserDirectory
from threadline.tools.context import Services
from threadline.tools.model import ErrorCode
from threadline.tools.roles import Group, RecordKind, RoleDirectory, Roles

PEOPLE = {
    "U1": User("T1", name="Ana Silva", email="ana@acme.example"),
    SELLER: User("T1", name="Sam", email="sam@shop.example"),
    "UGUEST": User("T1", guest=True, name="Gus", email="gus@acme.example"),
}
HIDDEN = sellers(RecordKind.CUSTOMERS)
CLOSED = sellers()
"""Everybody may see customers, and only one group may change them."""
WITHOUT_ROLE = ["U1", "UGUEST"]
INTERNAL = {
    "stage": "qualified",
    "notes": "Haggles.",
    "industry": "Steel",
    "company_notes": "About to cancel.",
    "website": "https://acme.example",
}


def desk_with(database: Database, roles: RoleDirectory) -> ToolScene:
    services = Services().with_service(UserDirectory, Directory(PEOPLE))
    return ToolScene(database, crm.TOOLS, services=services.with_service(RoleDirectory, roles))


@pytest.mark.parametrize("roles", [HIDDEN, CLOSED])
@pytest.mark.parametrize("user_id", WITHOUT_ROLE)
async def test_person_without_the_role_opens_and_reaches_the_own_lead(
    database: Database, roles: RoleDirectory, user_id: str
) -> None:
    desk = desk_with(database, roles)
    made = await desk.ask("crm.update", user_id=user_id, title="Buyer", phone="+351 1")
    assert made.made
    assert made.data["created"]
    assert (await desk.ask("crm.update", user_id=user_id, lead_id="lead-1", title="Cook")).made
    assert (await desk.ask("crm.log", user_id=user_id, kind="note", summary="Called.")).made
    shown = await desk.done("crm.get", user_id=user_id)
    assert (shown["lead_id"], shown["title"], shown["phone"]) == ("LEAD-1", "Cook", "+351 1")
    assert [each["summary"] for each in shown["interactions"]] == ["Called."]


@pytest.mark.parametrize("user_id", WITHOUT_ROLE)
async def test_person_without_the_role_reaches_no_other_lead(
    database: Database, user_id: str
) -> None:
    desk = desk_with(database, HIDDEN)
    await desk.done("crm.update", user_id=SELLER, title="Seller", phone="+351 9")
    found = await desk.ask("crm.find", user_id=user_id, words="sam")
    assert found.data["leads"] == []
    for tool, given in (
        ("crm.get", {}),
        ("crm.update", {"name": "x"}),
        ("crm.log", {"kind": "note", "summary": "x"}),
    ):
        refused = await desk.refused(tool, user_id=user_id, lead_id="LEAD-1", **given)
        assert "+351 9" not in repr(refused)
    assert (await desk.done("crm.get", user_id=SELLER))["name"] == "Sam"


async def test_member_without_the_role_sees_the_name_of_the_group(database: Database) -> None:
    desk = desk_with(database, HIDDEN)
    await desk.done("crm.update", user_id=SELLER, title="Seller")
    who_may = "Only people of the group sales may see customers."
    refused = await desk.refused("crm.get", user_id="U1", lead_id="LEAD-1")
    assert code_of(refused) is ErrorCode.NOT_ALLOWED
    assert message_of(refused).startswith(who_may)
    found = await desk.ask("crm.find", user_id="U1")
    assert who_may in found.data["hidden"]
    assert who_may in found.display_text
    assert "hidden" not in (await desk.done("crm.find", user_id=SELLER))


async def test_member_with_read_rights_changes_nothing(database: Database) -> None:
    desk = desk_with(database, CLOSED)
    await desk.done("crm.update", user_id=SELLER, company="Acme", **INTERNAL)
    assert (await desk.done("crm.get", user_id="U1", lead_id="LEAD-1"))["notes"] == "Haggles."
    assert len((await desk.done("crm.find", user_id="U1"))["leads"]) == 1
    for tool, given in (
        ("crm.update", {"name": "x"}),
        ("crm.log", {"kind": "note", "summary": "x"}),
    ):
        refused = await desk.refused(tool, user_id="U1", lead_id="LEAD-1", **given)
        assert message_of(refused).startswith(
            "Only people of the group sales may change customers."
        )


@pytest.mark.parametrize("roles", [HIDDEN, CLOSED])
@pytest.mark.parametrize("field", ["stage", "notes"])
@pytest.mark.parametrize("user_id", WITHOUT_ROLE)
async def test_only_the_role_changes_state_and_notes_of_the_own_lead(
    database: Database, roles: RoleDirectory, field: str, user_id: str
) -> None:
    desk = desk_with(database, roles)
    await desk.done("crm.update", user_id=user_id, title="Buyer")
    given: dict[str, Any] = {"user_id": user_id, "title": "Cook", field: INTERNAL[field]}
    assert "Only people of the group sales may" in message_of(
        await desk.refused("crm.update", **given)
    )
    assert (await desk.done("crm.get", user_id=user_id))["title"] == "Buyer"


@pytest.mark.parametrize("user_id", WITHOUT_ROLE)
async def test_own_lead_is_shown_without_the_fields_and_notes_of_the_group(
    database: Database, user_id: str
) -> None:
    desk = desk_with(database, HIDDEN)
    await desk.done("crm.update", user_id=user_id, company="Acme", title="Buyer")
    await desk.done("crm.update", user_id=SELLER, lead_id="LEAD-1", **INTERNAL)
    await desk.done(
        "crm.log", user_id=SELLER, lead_id="LEAD-1", kind="note", summary="Wants a discount."
    )
    answers = [
        await desk.ask("crm.get", user_id=user_id),
        await desk.ask("crm.find", user_id=user_id),
        await desk.ask("crm.update", user_id=user_id, title="Cook"),
    ]
    assert all(each.made for each in answers)
    told = [*INTERNAL.values(), "Wants a discount."]
    assert not [each for each in told if each in repr(answers)]
    assert answers[0].data["company"] == "Acme"


async def test_guest_of_the_group_still_reaches_only_the_own_lead(database: Database) -> None:
    both = Roles({"sales": Group(users=frozenset({SELLER, "UGUEST"}))})
    desk = desk_with(database, directory(both))
    await desk.done("crm.update", user_id=SELLER, title="Seller")
    refused = await desk.refused("crm.get", user_id="UGUEST", lead_id="LEAD-1")
    assert "only their own record" in message_of(refused)


async def test_search_for_two_people_needs_the_role_of_both(
    database: Database,
) -> None:
    desk = desk_with(database, HIDDEN)
    await desk.done("crm.update", user_id=SELLER, title="Seller")
    together: dict[str, Any] = {"user_id": SELLER, "co_requesters": {"U1": "Ana (U1)"}}
    found = await desk.done("crm.find", **together)
    assert found["leads"] == []


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("crm.get", {}),
        ("crm.update", {"phone": "+351 666"}),
        ("crm.log", {"kind": "note", "summary": "Called."}),
    ],
)
@pytest.mark.parametrize("other", ["UGUEST", "U1"])
async def test_lead_of_one_of_two_people_is_not_reached_by_its_id(
    database: Database, tool: str, given: dict[str, Any], other: str
) -> None:
    desk = desk_with(database, HIDDEN)
    own = {"UGUEST": "U1", "U1": "UGUEST"}[other]
    await desk.done("crm.update", user_id=own, title="Buyer")
    together: dict[str, Any] = {"user_id": own, "co_requesters": {other: f"Somebody ({other})"}}
    await desk.refused(tool, lead_id="LEAD-1", **together, **given)
    assert "phone" not in await desk.done("crm.get", user_id=own)


async def test_unreadable_group_leaves_the_own_lead_reachable(
    database: Database,
) -> None:
    async def gone(_: str) -> frozenset[str]:
        raise Permanent("Slack has no such user group.")

    only = {RecordKind.CUSTOMERS: frozenset({"sales"})}
    roles = Roles({"sales": Group(user_groups=frozenset({"S1"}))}, see=only)
    desk = desk_with(database, RoleDirectory(roles, UserGroups(gone)))
    await desk.done("crm.update", user_id="UGUEST", title="Buyer")
    assert (await desk.done("crm.get", user_id="UGUEST"))["title"] == "Buyer"
    assert "sales" in message_of(await desk.refused("crm.get", user_id="U1", lead_id="LEAD-1"))
