"""Each tool declares the kinds of record that it touches: the table lists them, and its code shows
them.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from threadline.appointments.store import AppointmentStore
from threadline.approvals.store import ApprovalStore
from threadline.cases.store.lists import CaseLists
from threadline.db.engine import Store
from threadline.db.rate_limits import RateLimits
from threadline.estimates.store import EstimateStore
from threadline.jobs.store import JobStore
from threadline.knowledge.store import KnowledgeStore
from threadline.operator.store import MemoryStore
from threadline.rfps.store import RfpStore, TeamMemberStore
from threadline.sales.store import EmailDraftStore, LeadStore
from threadline.threads.store import ThreadBindingStore
from threadline.tools.registry import Tool
from threadline.tools.roles import RecordKind
from threadline.wiring.toolsets import TOOLS

TABLE = tomllib.loads((Path(__file__).parent / "record_kinds.toml").read_text("utf-8"))
STORES: dict[type[Store], set[RecordKind]] = {
    AppointmentStore: {RecordKind.APPOINTMENTS},
    ApprovalStore: set(),
    CaseLists: {RecordKind.CASES},
    EmailDraftStore: {RecordKind.EMAILS},
    EstimateStore: {RecordKind.QUOTES},
    JobStore: {RecordKind.JOBS, RecordKind.RFPS},
    KnowledgeStore: {RecordKind.DOCUMENTS},
    LeadStore: {RecordKind.CUSTOMERS},
    MemoryStore: {RecordKind.RFPS},
    RateLimits: set(),
    RfpStore: {RecordKind.RFPS},
    TeamMemberStore: {RecordKind.TEAM},
    ThreadBindingStore: set(),
}
"""The kinds of record in each store. A store that a tool uses needs its line here."""
NOT_SHOWN = {"opportunity.patch": {RecordKind.TEAM}}
"""Kinds that a tool reads without showing them: whether the asker is the member of the team who
owns the RFP.
"""


def stores_of(tool: Tool) -> set[type[Store]]:
    """Return the stores that a tool's functions name, themselves or through functions of this
    product that they call.
    """
    functions: list[Any] = [tool.function, tool.assess, tool.look_up, *tool.side_effects]
    found = set[type[Store]]()
    seen = set[int]()
    while functions:
        each = functions.pop()
        if (
            not isinstance(each, FunctionType)
            or id(each) in seen
            or not each.__module__.startswith("threadline.")
        ):
            continue
        seen.add(id(each))
        for name in names_in(each.__code__):
            value = each.__globals__.get(name)
            if isinstance(value, type) and issubclass(value, Store):
                found.add(value)
            functions.append(value)
    return found


def names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from names_in(each)


def test_table_has_each_tool_with_the_kinds_that_it_declares() -> None:
    """A new tool needs its line here, so that its author decides which roles may see its
    results.
    """
    declared = {
        each.name: {"records": sorted(each.records), "partial": sorted(each.partial_records)}
        for each in TOOLS
    }
    told = {
        name: {
            "records": sorted(line.get("records", [])),
            "partial": sorted(line.get("partial", [])),
        }
        for name, line in TABLE.items()
    }
    assert told == declared


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_tool_declares_the_records_of_the_stores_that_it_uses(tool: Tool) -> None:
    touched = set[RecordKind]().union(*(STORES[each] for each in stores_of(tool)))
    touched -= NOT_SHOWN.get(tool.name, set())
    assert touched <= tool.all_records, (
        f"{tool.name} also touches {', '.join(sorted(touched - tool.all_records))}"
    )


def test_stores_of_tools_are_found() -> None:
    """Stores are found in helpers of other modules, in the assessment of a call, and in its
    look-up.
    """
    by_name = {each.name: stores_of(each) for each in TOOLS}
    assert by_name["schedule.job"] == {JobStore, RfpStore}
    assert by_name["email.send"] >= {LeadStore, TeamMemberStore, EmailDraftStore}
    assert by_name["estimates.listRoles"] == {EstimateStore, ThreadBindingStore}
    assert all(
        found
        for name, found in by_name.items()
        if name.split(".")[0] in ("crm", "estimates", "opportunity")
    )


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_tool_without_records_touches_no_store(tool: Tool) -> None:
    assert tool.all_records or not stores_of(tool)
