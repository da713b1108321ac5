"""Which tools a turn may use: computed once, shown to the model on every call, and held to whatever it asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from threadline.operator.model import protocol
from threadline.operator.model.protocol import Kind
from threadline.operator.model.routing import Agent
from threadline.tools.context import Ports
from threadline.tools.model import Code, ToolResult, failure
from threadline.tools.registry import Registry, Tool


@dataclass(frozen=True)
class Allowed:
    """The tools' own names; `because` ("the project is locked") completes "It changes something, and here …"."""

    names: frozenset[str]
    because: str = "nothing may be changed"

    def refusal(self, tool: Tool) -> ToolResult | None:
        """Why the tool may not be called, whatever the model was shown; None if it may."""
        if tool.name in self.names:
            return None
        if tool.mutating:
            return failure(Code.NOT_ALLOWED, f"This would change something, and here {self.because}.")
        return failure(Code.NOT_ALLOWED, "This is not set up here.")

    def definitions(self, registry: Registry) -> list[dict[str, Any]]:
        """What the model is offered: the same bytes on every call of the turn."""
        return registry.definitions(self.names)


def allowed(
    registry: Registry,
    ports: Ports,
    agent: Agent = Agent.COPILOT,
    *,
    read_only: bool,
    because: str = "nothing may be changed",
) -> Allowed:
    """The allowed set of one turn: what is configured and, in a read-only context, changes nothing.

    What the protocol is about (changes of an RFP, speaking by a tool, proposals) is the operator's alone; that a thread
    is read-only for another reason does not keep it from writing down what was said.
    """
    names: set[str] = set()
    for each in offered(registry, ports):
        kind = protocol.kind_of(each.name, read_only=not each.mutating)
        own = kind not in (Kind.READ, Kind.LOAD, Kind.GLOBAL)
        if (agent is Agent.OPERATOR) if own else not (read_only and each.mutating):
            names.add(each.name)
    replaced = {each.instead for each in registry.all() if each.name in names}
    return Allowed(frozenset(names - replaced), because)


def offered(registry: Registry, ports: Ports) -> Sequence[Tool]:
    """The tools whose ports are all there."""
    return [each for each in registry.all() if all(port in ports for port in each.needs)]
