"""Tools by name: each a typed function with what the product has to know about it.

    @tool("estimates.listRoles", "The roles of a project, with their day rates.")
    async def list_roles(context: ToolContext, *, project_id: Annotated[str, Field(description="Its id.")]) -> object:
        return await EstimateStore(context.tx).roles(context.team, project_id)

What a tool returns is a `ToolResult`, or data that becomes one. It raises `Permanent` or `Transient` with a sentence
that the model may read; whatever else it raises is an internal error, whose text nobody is shown.
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
"""Of a tool's own name: what the execution log holds."""
_MAX_LOCAL_TIMEOUT = 20.0
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z][A-Za-z0-9_-]*)*")
_PLAIN = re.compile(r"[A-Za-z0-9.]{1,64}")


@dataclass(frozen=True)
class Cache:
    """How long (seconds) an answer may be given again to the same user in the same thread. `shared`: to the whole
    team, whoever asks."""

    seconds: float
    shared: bool = False


SideEffect = Callable[[ToolContext, Any, ToolResult], Awaitable[str | None]]
"""Runs once a tool's success is on record, with the tool's parsed arguments; what it returns is noted for the model. It
runs again when the call is tried again and its end is not on record: whatever it does must bear that."""

Assess = Callable[[ToolContext, Any], Awaitable[Assessment]]
"""Reads what a call would change, in `context.tx` also for a remote tool. It changes nothing. Raises `Permanent`: the
call would fail."""

FindEffect = Callable[[ToolContext, Any], Awaitable[ToolResult | None]]
"""The effect of an earlier try as a result, or None when it certainly is not there and the tool may run again."""


@dataclass(frozen=True)
class ToolOptions:
    """What is said of a tool; as a decorator, `@tool(…)`, it makes one of an async function.

    `rate_limit_key` names what a remote mutation changes (`project:12`), for its limit; without it, or when it names
    nothing, that is the thread. A local tool counts for itself: `context.count_change`.
    `remote`: it reaches what is outside Postgres. A call is recorded before it is made, and where a worker was lost the
    effect is looked up. Any other tool works in `context.tx`: what it does and the record of its call are one
    transaction, so a call that is made again finds its record, and one that fails has changed nothing.
    `binds_record`: it may make a record the one that the thread is about, though it changes nothing in it.
    `records`: the kinds of record that it reads or changes, which roles may restrict: without the role it is refused.
    `partial_records`: kinds that only some of its calls or rows are about. It is not refused for them: it hides them
    or refuses by itself, with `context.access`.
    `risk` is that of a call: a constant, or a function of its arguments. Without one it is high.
    `assess`: finds risk and changes in the record instead, where the arguments do not tell them.
    `critical`: somebody counts on it, so when it is wanted and fails for good, a person takes the thread over. That it
    refuses what is asked for, such as a time that is taken, is an answer.
    `keep_result`: whether the text of a success may be kept on record. Without it, a call that is tried again reads
    again; a change always keeps its result.
    `needs_requester`: it uses `context.requester`, for which Slack may be asked before the call is made.
    `members_only`: it is refused when somebody who asks is no full member of the workspace.
    `timeout` in seconds.
    `needs` are the services without which the tool is not offered.
    `settle_seconds`: until what was sent has taken effect, or never will. That the effect is not there counts no
    sooner: a service may be slow.
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
        """Make a tool of `(context, given: SomeModel)`, or of `(context, *, each: Type, field: Type)`. Raises
        `InvalidTool`: the function, its parameters or what is said about it cannot be offered to a model."""
        parameters, takes_model = _parameters(self.name, function)
        return Tool(**vars(self), function=function, parameters=parameters, takes_model=takes_model)


tool = ToolOptions


@dataclass(frozen=True, kw_only=True)
class Tool(ToolOptions):
    """A function that a model may call. `takes_model`: it takes its parameters as one model."""

    function: Function
    parameters: type[BaseModel]
    takes_model: bool

    def __post_init__(self) -> None:
        wrong = {
            "is not a tool name: use letters and digits, with parts joined by dots": not _NAME.fullmatch(self.name)
            or len(self.name) > MAX_NAME_LENGTH,
            "has no description: say what the tool is for, since the model chooses by it": not self.description.strip(),
            "changes something, so its result cannot be cached": self.mutating and self.cache,
            "hides records by who asks, so its result cannot be cached": self.partial_records and self.cache,
            "changes something, so its result must be kept": self.mutating and not self.keep_result,
            "is read-only, so it cannot have a record to limit or an effect to look up": not self.mutating
            and (self.rate_limit_key or self.look_up),
            "is local: it counts changes itself, and what it does is on record with its call": not self.remote
            and (self.rate_limit_key or self.look_up or self.settle_seconds),
            "is local, so it may take at most 20 seconds: a frozen worker must lose its transaction before a retry "
            "gives up": not self.remote and self.timeout > _MAX_LOCAL_TIMEOUT,
            "has a settling time, but no look_up": self.settle_seconds and not self.look_up,
            "needs times of more than 0 seconds": self.timeout <= 0 or (self.cache and self.cache.seconds <= 0),
        }
        for fault, applies in wrong.items():
            if applies:
                raise InvalidTool(f"{self.name!r} {fault}")
        _ = self.definition

    @property
    def identifies(self) -> bool:
        """Whether it has to be known who asks before a call is made."""
        return self.needs_requester or self.members_only

    @property
    def all_records(self) -> frozenset[RecordKind]:
        """The kinds of record that a result may tell of."""
        return frozenset((*self.records, *self.partial_records))

    @property
    def mutating(self) -> bool:
        return not self.kind.read_only

    @property
    def acts(self) -> bool:
        """Whether the policy decides about its calls: to speak or to propose changes nothing."""
        return self.mutating and self.kind not in (ToolKind.SPEAK, ToolKind.PROPOSE)

    @property
    def toolset(self) -> str:
        return self.name.split(".", 1)[0]

    @property
    def does(self) -> str:
        """The first sentence of its description."""
        return self.description.split(". ")[0].rstrip(".")

    async def assessed(self, context: ToolContext, arguments: BaseModel) -> Assessment:
        """Return the risk of a call, with what it would change where the tool reads that."""
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
        return await self.function(context, **{name: getattr(arguments, name) for name in self.parameters.model_fields})


def wire_name(name: str) -> str:
    """The name as providers allow it (`^[a-zA-Z0-9_-]{1,64}$`), for ever the same, since transcripts hold it. A name of
    more than letters, digits and dots, or of more than 64, ends in a digest behind a `-`, which no other name has."""
    if _PLAIN.fullmatch(name):
        return name.replace(".", "_")
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{re.sub('[^A-Za-z0-9_]', '_', name)[:51]}-{digest}"


class ToolRegistry:
    """All tools of a process. Their order does not matter: what a model is shown is sorted by name. Raises
    `InvalidTool`: a name is taken, as a tool's own or as what a provider would call it."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        """By their own names, and by the provider's."""
        for new in tools:
            if taken := self._tools.get(new.name) or self._tools.get(new.wire_name):
                raise InvalidTool(f"{new.name} and {taken.name} have the same name for the model: rename one")
            self._tools[new.name] = self._tools[new.wire_name] = new

    def get(self, name: str) -> Tool | None:
        """Args: `name`: the tool's own or the provider's."""
        return self._tools.get(name)

    def all(self) -> Sequence[Tool]:
        return sorted({each.name: each for each in self._tools.values()}.values(), key=lambda each: each.name)

    @property
    def cached_toolsets(self) -> frozenset[str]:
        """Those with a tool whose answers may be given again."""
        return frozenset(each.toolset for each in self._tools.values() if each.cache)

    def definitions(self, only: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """What a model is offered: OpenAI's function schemas, in an order that never changes. `only`: the tools' own
        names; all when left out."""
        wanted = None if only is None else set(only)
        return [deepcopy(each.definition) for each in self.all() if wanted is None or each.name in wanted]


@dataclass(frozen=True)
class AllowedTools:
    """The tools' own names; `reason` ("the project is locked") completes "It changes something, and here …"."""

    names: frozenset[str]
    reason: str = "nothing may be changed"

    def refusal(self, tool: Tool) -> ToolResult | None:
        """Why the tool may not be called, whatever the model was shown; None if it may."""
        if tool.name in self.names:
            return None
        if tool.mutating:
            return error_result(ErrorCode.NOT_ALLOWED, f"This would change something, and here {self.reason}.")
        return error_result(ErrorCode.NOT_ALLOWED, "This is not set up here.")


def allowed_tools(
    registry: ToolRegistry,
    services: Services,
    *,
    operator: bool = False,
    read_only: bool,
    reason: str = "nothing may be changed",
) -> AllowedTools:
    """The allowed set of one turn: what is configured and, in a read-only context, changes nothing. What the protocol
    is about (changes of an RFP, speaking by a tool, proposals) is the operator's alone; that a thread is read-only for
    another reason does not keep it from writing down what was said."""
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
        if all(kind in services for kind in each.needs) and (UserDirectory in services or not each.identifies)
    ]


def _parameters(name: str, function: Function) -> tuple[type[BaseModel], bool]:
    """The model of a function's parameters, and whether the function takes it whole."""
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
        raise InvalidTool(f"{name}: after the context, take one pydantic model, or keyword-only parameters (after a *)")
    return _model_of(name, others, hints), False


def _model_of(name: str, given: Sequence[inspect.Parameter], hints: dict[str, Any]) -> type[BaseModel]:
    wanted: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is inspect.Parameter.empty else each.default)
        for each in given
    }
    unfit = InvalidTool(f"{name}: pydantic cannot use these parameters: {', '.join(wanted)}")
    try:
        model = create_model(name, **wanted)
    except (NameError, TypeError) as refusal:
        raise unfit from refusal
    if model.model_fields.keys() != wanted.keys():  # an underscore makes a private one, which no call could set
        raise unfit
    return model
