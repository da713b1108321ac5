"""Which tools an agent has: the conversational one reads and does what belongs to no RFP; the operator has all."""

import pytest

from threadline.operator.model.routing import Agent
from threadline.tools.access import allowed, offered
from threadline.tools.context import Ports
from threadline.tools.registry import Registry
from threadline.wiring.toolset_list import TOOLS

OWN = {
    "opportunity.patch",
    "journal.append",
    "event.append",
    "slack.post.summary",
    "slack.ask.clarifying.question",
    "propose.action",
}
"""What is held to the protocol, and so only in turns that have one."""
REPLACED = {"appointments.book", "appointments.freeSlots"}
"""Others do the same with less to be said: a model is not offered both."""


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry(TOOLS)


@pytest.fixture(scope="module")
def ports(registry: Registry) -> Ports:
    """Everything is configured."""
    return Ports({port: object() for each in registry.all() for port in each.needs})


def test_the_conversational_agent_has_no_tool_that_the_protocol_is_about(registry: Registry, ports: Ports) -> None:
    everything = {each.name for each in registry.all()} - REPLACED
    assert allowed(registry, ports, Agent.OPERATOR, read_only=False).names == everything
    assert allowed(registry, ports, Agent.COPILOT, read_only=False).names == everything - OWN
    assert everything >= OWN | {"opportunity.load", "schedule.job", "rfp.create.from.slack.file"}


def test_in_a_read_only_thread_the_operator_still_writes_down_what_it_says(registry: Registry, ports: Ports) -> None:
    reads = {each.name for each in registry.all() if not each.mutating} - REPLACED
    assert allowed(registry, ports, Agent.OPERATOR, read_only=True).names == reads | OWN
    assert allowed(registry, ports, Agent.COPILOT, read_only=True).names == reads


def test_what_takes_anothers_place_is_offered_alone_and_the_other_stays_where_it_is_not(
    registry: Registry, ports: Ports
) -> None:
    names = allowed(registry, ports, read_only=False).names
    assert {"calendar.book", "calendar.free"} <= names
    assert not names & REPLACED
    assert {each.name for each in offered(registry, ports)} >= REPLACED, "an approved action is made by its old name"
    without = Registry([each for each in registry.all() if each.toolset != "calendar"])
    assert allowed(without, ports, read_only=False).names >= REPLACED
    assert {each.instead for each in registry.all()} - {""} == REPLACED
