"""Tools by name: each is a typed function with its declaration.

    @tool("estimates.listRoles", "The roles of a project, with their day rates.")
    async def list_roles(
        context: ToolContext, *, project_id: Annotated[str, Field(description="Its id.")]
    ) -> object:
        return await EstimateStore(context.tx).roles(context.team, project_id)

A tool returns a `ToolResult`, or data that becomes one. It raises `Permanent` or `Transient` with
a sentence that the model may read; any other exception is an internal error, whose text goes
only to the log.
"""

import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_type_hints

from pydantic import BaseModel, create_model

from threadline.models.model import ToolKind
from threadline.slack.users import UserDirectory
from threadline.tools.arguments import InvalidTool, strict_schema
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import ErrorCode, Risk, ToolResult, error_result
from threadline.tools.policy import Assessment
from threadline.tools.roles import RecordKind

Function = Callable[..., Awaitable[object]]
MAX_NAME_LENGTH = 100
"""Characters of a tool's own name, the width of its column in the execution log."""
_MAX_LOCAL_TIMEOUT = 20.0
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z][A-Za-z0-9_-]*)*")
_PLAIN = re.compile(r"[A-Za-z0-9.]{1,64}")


@dataclass(frozen=True)
class Cache:
    """The cache of a tool's answers.

    Args:
        seconds: the time in which an answer is repeated to the same user in the same thread.
        shared: the answer is repeated to the whole team instead.
    """

    seconds: float
    shared: bool = False


SideEffect = Callable[[ToolContext, Any, ToolResult], Awaitable[str | None]]
"""Runs after a tool's success is on record, with the tool's parsed arguments; its return value
becomes a note for the model. It runs again on a retry of a call whose end is not on record, so it
must be idempotent.
"""

Assess = Callable[[ToolContext, Any], Awaitable[Assessment]]
"""Reads what a call would change, in `context.tx` even for a remote tool, and changes nothing.
Raises `Permanent` if the call would fail.
"""

FindEffect = Callable[[ToolContext, Any], Awaitable[ToolResult | None]]
"""Returns the effect of an earlier attempt as a result, or None if it certainly does not exist and
the tool may run again.
"""


@dataclass(frozen=True)
class ToolOptions:
    """The declaration of a tool; as a decorator, `@tool(…)`, it turns an async function into one.

    A local tool works in `context.tx`: its effects and the record of its call are one transaction,
    so a repeated call finds its record, and a failed one has changed nothing. A remote call is
    recorded before it is made, and after the loss of a worker its effect is looked up.

    Args:
        records: the kinds of record that it reads or changes, which roles may restrict: without
            the role the call is refused.
        partial_records: kinds that only some of its calls or rows concern. The call is not refused
            for them: the tool hides or refuses them itself, with `context.access`.
        risk: the risk of a call, as a constant or a function of its arguments; high by default.
        assess: finds risk and changes in the record instead, if the arguments do not determine
            them.
        remote: it reaches systems outside of Postgres.
        binds_record: it may bind the thread to a record, though it changes nothing in it.
        critical: people depend on it, so if a requested call fails for good, a person takes over
            the thread. A refusal, such as of a time that is taken, is an answer and no failure.
        needs: the services without which the tool is not offered.
        rate_limit_key: names the record that a remote mutation changes (`project:12`), for its
            limit; without it, or if it returns an empty name, the thread is limited. A local tool
            counts its changes itself, with `context.count_change`.
        timeout: seconds.
        settle_seconds: the time after which a sent change has taken effect, or never will. Only
            then does a missing effect count, since a service may be slow.
        keep_result: the text of a success is stored. Without it, a retried call reads again; a
            change always stores its result.
        needs_requester: it uses `context.requester`, for which Slack may be asked before the call.
        members_only: it is refused if a requester is no full member of the workspace.
    """

    name: str
    description: str
    kind: ToolKind = ToolKind.READ
    records: tuple[RecordKind, ...] = ()
    partial_records: tuple[RecordKind, ...] = ()
    risk: Risk | Callable[[Any], Risk] = Risk.HIGH
    assess: Assess | None = None
    remote: bool = False
    binds_record: bool = False
    critical: bool = False
    cache: Cache | None = None
    needs: tuple[type[Any], ...] = ()
    rate_limit_key: Callable[[Any], str] | None = None
    look_up: FindEffect | None = None
    side_effects: tuple[SideEffect, ...] = ()
    timeout: float = 20.0
    settle_seconds: float = 0.0
    keep_result: bool = True
    needs_requester: bool = False
    members_only: bool = False

    def __call__(self, function: Function) -> "Tool":
        """Make a tool of `(context, given: SomeModel)`, or of `(context, *, each: Type, field:
        Type)`.

        Raises:
            InvalidTool: the function, its parameters or its declaration cannot be offered to a
                model.
        """
        parameters, takes_model = _parameters(self.name, function)
        return Tool(
            **vars(self), function=function, parameters=parameters, takes_model=takes_model
        )


tool = ToolOptions


@dataclass(frozen=True, kw_only=True)
class Tool(ToolOptions):
    """A function that a model may call. `takes_model`: it takes its parameters as one model."""

    function: Function
    parameters: type[BaseModel]
    takes_model: bool

    def __post_init__(self) -> None:
        wrong = {
            "is not a tool name: use letters and digits, with parts joined by dots": (
                not _NAME.fullmatch(self.name) or len(self.name) > MAX_NAME_LENGTH
            ),
            "has no description: say what the tool is for, since the model chooses by it": (
                not self.description.strip()
            ),
            "changes something, so its result cannot be cached": self.mutating and self.cache,
            "hides records from some requesters, so its result cannot be cached": (
                self.partial_records and self.cache
            ),
            "changes something, so its result must be kept": (
                self.mutating and not self.keep_result
            ),
            "is read-only, so it cannot have a record to limit or an effect to look up": (
                not self.mutating and (self.rate_limit_key or self.look_up)
            ),
            "is local: it counts changes itself, and its call is stored with its changes": (
                not self.remote and (self.rate_limit_key or self.look_up or self.settle_seconds)
            ),
            (
                "is local, so it may take at most 20 seconds: a frozen worker must lose its "
                "transaction before a retry gives up"
            ): not self.remote and self.timeout > _MAX_LOCAL_TIMEOUT,
            "has a settling time, but no look_up": self.settle_seconds and not self.look_up,
            "needs times of more than 0 seconds": (
                self.timeout <= 0 or (self.cache and self.cache.seconds <= 0)
            ),
        }
        for fault, applies in wrong.items():
            if applies:
                raise InvalidTool(f"{self.name!r} {fault}")
        _ = self.definition

    @property
    def identifies(self) -> bool:
        """Whether the requesters must be known before a call."""
        return self.needs_requester or self.members_only

    @property
    def all_records(self) -> frozenset[RecordKind]:
        """The kinds of record that a result may contain."""
        return frozenset((*self.records, *self.partial_records))

    @property
    def mutating(self) -> bool:
        return not self.kind.read_only

    @property
    def acts(self) -> bool:
        """Whether the policy decides about its calls: speaking and proposing change nothing."""
        return self.mutating and self.kind not in (ToolKind.SPEAK, ToolKind.PROPOSE)

    @property
    def toolset(self) -> str:
        return self.name.split(".", 1)[0]

    @property
    def does(self) -> str:
        """The first sentence of its description."""
        return self.description.split(". ")[0].rstrip(".")

    async def assessed(self, context: ToolContext, arguments: BaseModel) -> Assessment:
        """Return the risk of a call, and its changes if the tool reads them."""
        if self.assess:
            return await self.assess(context, arguments)
        return Assessment(self.risk if isinstance(self.risk, Risk) else self.risk(arguments))

    @cached_property
    def wire_name(self) -> str:
        return wire_name(self.name)

    @cached_property
    def definition(self) -> dict[str, Any]:
        """OpenAI's function schema in the flat form of the Responses API, strict mode."""
        return {
            "type": "function",
            "name": self.wire_name,
            "description": self.description,
            "parameters": strict_schema(self.parameters.model_json_schema(), self.name),
            "strict": True,
        }

    async def call(self, context: ToolContext, arguments: BaseModel) -> object:
        if self.takes_model:
            return await self.function(context, arguments)
        return await self.function(
            context, **{name: getattr(arguments, name) for name in self.parameters.model_fields}
        )


def wire_name(name: str) -> str:
    """Return the name in the form that providers allow (`^[a-zA-Z0-9_-]{1,64}$`); it must never
    change, since transcripts hold it. A name with other characters than letters, digits and dots,
    or longer than 64, ends in `-` and a digest, as no other name does.
    """
    if _PLAIN.fullmatch(name):
        return name.replace(".", "_")
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{re.sub('[^A-Za-z0-9_]', '_', name)[:51]}-{digest}"


class ToolRegistry:
    """All tools of a process, regardless of their order: the model gets them sorted by name.

    Raises:
        InvalidTool: two tools have the same name, their own or the provider's.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        """Tools by their own names and by the provider's."""
        for new in tools:
            if taken := self._tools.get(new.name) or self._tools.get(new.wire_name):
                raise InvalidTool(
                    f"{new.name} and {taken.name} have the same name for the model: rename one"
                )
            self._tools[new.name] = self._tools[new.wire_name] = new

    def get(self, name: str) -> Tool | None:
        """Return a tool by its own name or the provider's."""
        return self._tools.get(name)

    def all(self) -> Sequence[Tool]:
        return sorted(
            {each.name: each for each in self._tools.values()}.values(), key=lambda each: each.name
        )

    @property
    def cached_toolsets(self) -> frozenset[str]:
        """The toolsets with a tool whose answers are cached."""
        return frozenset(each.toolset for each in self._tools.values() if each.cache)

    def definitions(self, only: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return OpenAI's function schemas for the model, in an order that never changes. `only`:
        the tools' own names; None for all.
        """
        wanted = None if only is None else set(only)
        return [
            deepcopy(each.definition)
            for each in self.all()
            if wanted is None or each.name in wanted
        ]


@dataclass(frozen=True)
class AllowedTools:
    """The tools that may be called, by their own names. `reason` ("the project is locked")
    completes "It changes something, and here …".
    """

    names: frozenset[str]
    reason: str = "nothing may be changed"

    def refusal(self, tool: Tool) -> ToolResult | None:
        """Return the reason why the tool may not be called, even if the model was offered it; None
        if it may.
        """
        if tool.name in self.names:
            return None
        if tool.mutating:
            return error_result(
                ErrorCode.NOT_ALLOWED, f"This would change something, and here {self.reason}."
            )
        return error_result(ErrorCode.NOT_ALLOWED, "This is not set up here.")


def allowed_tools(
    registry: ToolRegistry,
    services: Services,
    *,
    operator: bool = False,
    read_only: bool,
    reason: str = "nothing may be changed",
) -> AllowedTools:
    """Return the allowed tools of one turn: the configured ones and, in a read-only context, only
    those that change nothing.

    Only the operator may use the tools of the protocol (changes of an RFP, speaking by a tool,
    proposals). It may use them in a read-only thread too, so that it can write down what happened.
    """
    names: set[str] = set()
    for each in available_tools(registry, services):
        protocol_tool = each.kind.changes_rfp or each.kind in (ToolKind.SPEAK, ToolKind.PROPOSE)
        if operator if protocol_tool else not (read_only and each.mutating):
            names.add(each.name)
    return AllowedTools(frozenset(names), reason)


def available_tools(registry: ToolRegistry, services: Services) -> Sequence[Tool]:
    return [
        each
        for each in registry.all()
        if all(kind in services for kind in each.needs)
        and (UserDirectory in services or not each.identifies)
    ]


def _parameters(name: str, function: Function) -> tuple[type[BaseModel], bool]:
    """Return the model of a function's parameters, and whether the function takes it as one
    argument.
    """
    if not inspect.iscoroutinefunction(function):
        raise InvalidTool(f"{name}: a tool is an async function")
    hints = get_type_hints(function, include_extras=True)
    context, *others = inspect.signature(function).parameters.values()
    if hints.get(context.name) is not ToolContext:
        raise InvalidTool(f"{name}: the first parameter is the ToolContext")
    if untyped := [each.name for each in others if each.name not in hints]:
        raise InvalidTool(f"{name}: {', '.join(untyped)} has no type")
    if len(others) == 1 and others[0].kind is not inspect.Parameter.KEYWORD_ONLY:
        model = hints[others[0].name]
        if isinstance(model, type) and issubclass(model, BaseModel):
            return model, True
    if any(each.kind is not inspect.Parameter.KEYWORD_ONLY for each in others):
        raise InvalidTool(
            f"{name}: after the context, take one pydantic model, or keyword-only parameters "
            "(after a *)"
        )
    return _model_of(name, others, hints), False


def _model_of(
    name: str, given: Sequence[inspect.Parameter], hints: dict[str, Any]
) -> type[BaseModel]:
    wanted: dict[str, Any] = {
        each.name: (
            hints[each.name],
            ... if each.default is inspect.Parameter.empty else each.default,
        )
        for each in given
    }
    unfit = InvalidTool(f"{name}: pydantic cannot use these parameters: {', '.join(wanted)}")
    try:
        model = create_model(name, **wanted)
    except (NameError, TypeError) as refusal:
        raise unfit from refusal
    # an underscore makes a private field, which no call could set
    if model.model_fields.keys() != wanted.keys():
        raise unfit
    return model
