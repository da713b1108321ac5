"""Tools by name: each a typed function with what the house has to know about it.

    @tool("estimates.listRoles", "The roles of a project, with their day rates.", needs=(ESTIMATES,), cache=Cache(60))
    async def list_roles(context: ToolContext, *, project_id: Annotated[str, Field(description="Its id.")]) -> object:
        return await context.ports[ESTIMATES].roles(project_id)

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
from typing import Any, TypedDict, TypeVar, Unpack, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from threadline.tools.arguments import InvalidSchema, strict_schema
from threadline.tools.context import Port, ToolContext
from threadline.tools.model import ToolResult

M = TypeVar("M", bound=BaseModel)
Function = Callable[..., Awaitable[object]]
LONGEST_NAME = 100
"""Of a tool's own name: what the execution log holds."""
_MAX_LOCAL_TIMEOUT = 20.0
CORRELATION_ID = "correlation_id"
"""A tool that has a parameter of this name is given the turn's; the model is not shown it, and cannot set it."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z][A-Za-z0-9_-]*)*")
_PLAIN = re.compile(r"[A-Za-z0-9.]{1,64}")


@dataclass(frozen=True)
class Cache:
    """How long (seconds) an answer may be given again to the same user in the same thread.

    `shared`: the answer is the same for the whole team, whoever asks.
    """

    seconds: float
    shared: bool = False


@dataclass(frozen=True)
class Success:
    """What a side effect is told of: the tool's arguments, read, and its result."""

    tool: str
    arguments: Any
    result: ToolResult
    context: ToolContext


SideEffect = Callable[[Success], Awaitable[str | None]]
"""Runs after a tool's success; what it returns is noted for the model.

It runs once, and again only when its worker died before the result was on record: whatever it does bears that.
"""

LookUp = Callable[[ToolContext, Any], Awaitable[ToolResult | None]]
"""The effect of an earlier try as a result, or None when it certainly is not there and the tool may run again."""


class BadTool(ValueError):
    """A tool cannot be registered as it is; found at the start, never in a thread."""


@dataclass(frozen=True)
class Tool:
    """`record` names what a remote mutation changes (`project:12`), for its limit; without it, or when it names
    nothing, that is the thread. A local tool counts for itself: `context.count_change`.

    `remote`: it reaches what is outside Postgres. A call is recorded before it is made, and where a worker was lost the
    effect is looked up. Any other tool works in `context.tx`: what it does and the record of its call are one
    transaction, so a call that is made again finds its record, and one that fails has changed nothing.

    `binds`: it may make a record the one that the thread is about, though it changes nothing in it.

    `critical`: somebody counts on it, so when it is wanted and fails for good, a person takes the thread over. That it
    refuses what is asked for, such as a time that is taken, is an answer.

    `asks`: it waits for an approval by itself, and shows what its arguments only name; so it is called, and never
    proposed.

    `instead`: the tool that this one takes the place of: where both could be offered, that one is not.

    `keep_result`: whether the text of a success may be kept on record. Without it, a call that is tried again reads
    again; a change always keeps its result.

    `timeout` in seconds. `needs` are the ports without which the tool is not offered.

    `settles`: seconds until what was sent has taken effect, or never will. That the effect is not there counts no
    sooner: a service may be slow.
    """

    name: str
    description: str
    function: Function
    parameters: type[BaseModel]
    takes_model: bool
    mutating: bool = False
    remote: bool = False
    binds: bool = False
    critical: bool = False
    asks: bool = False
    instead: str = ""
    cache: Cache | None = None
    needs: tuple[Port[Any], ...] = ()
    record: Callable[[Any], str] | None = None
    look_up: LookUp | None = None
    side_effects: tuple[SideEffect, ...] = ()
    timeout: float = 20.0
    settles: float = 0.0
    keep_result: bool = True

    def __post_init__(self) -> None:
        wrong = {
            "is not a tool name: use letters and digits, with parts joined by dots": not _NAME.fullmatch(self.name)
            or len(self.name) > LONGEST_NAME,
            "has no description: say what the tool is for, since the model chooses by it": not self.description.strip(),
            "changes something, so its result cannot be cached": self.mutating and self.cache,
            "changes something, so its result must be kept": self.mutating and not self.keep_result,
            "is read-only, so it cannot have a record to limit or an effect to look up": not self.mutating
            and (self.record or self.look_up),
            "is local: it counts changes itself, and what it does is on record with its call": not self.remote
            and (self.record or self.look_up or self.settles),
            "is local, and a side effect could not be rolled back with it": not self.remote and self.side_effects,
            "is local, so it may take at most 20 seconds: a frozen worker must lose its transaction before a retry "
            "gives up": not self.remote and self.timeout > _MAX_LOCAL_TIMEOUT,
            "has a settling time, but no look_up": self.settles and not self.look_up,
            "needs times of more than 0 seconds": self.timeout <= 0 or (self.cache and self.cache.seconds <= 0),
        }
        for fault, applies in wrong.items():
            if applies:
                raise BadTool(f"{self.name!r} {fault}")
        _ = self.definition

    @property
    def toolset(self) -> str:
        return self.name.split(".", 1)[0]

    @cached_property
    def wire_name(self) -> str:
        return wire_name(self.name)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """pydantic's, with what may be left out."""
        return self.parameters.model_json_schema()

    @cached_property
    def definition(self) -> dict[str, Any]:
        """OpenAI's function schema in the flat form of the Responses API, strict mode."""
        try:
            parameters = strict_schema(self._shown)
        except InvalidSchema as unsuitable:
            raise BadTool(f"{self.name}: {unsuitable}") from unsuitable
        return {
            "type": "function",
            "name": self.wire_name,
            "description": self.description,
            "parameters": parameters,
            "strict": True,
        }

    @property
    def _shown(self) -> dict[str, Any]:
        """What the model may set."""
        given = self.schema.get("properties", {})
        return {**self.schema, "properties": {name: each for name, each in given.items() if name != CORRELATION_ID}}

    async def call(self, context: ToolContext, arguments: BaseModel) -> object:
        if self.takes_model:
            return await self.function(context, arguments)
        return await self.function(context, **{name: getattr(arguments, name) for name in self.parameters.model_fields})


class ToolOptions(TypedDict, total=False):
    """What may be said of a tool; see `Tool`."""

    mutating: bool
    remote: bool
    binds: bool
    critical: bool
    asks: bool
    instead: str
    cache: Cache | None
    needs: tuple[Port[Any], ...]
    record: Callable[[Any], str] | None
    look_up: LookUp | None
    side_effects: tuple[SideEffect, ...]
    timeout: float
    settles: float
    keep_result: bool


def tool(name: str, description: str, **options: Unpack[ToolOptions]) -> Callable[[Function], Tool]:
    """Make a tool of an async function: `(context, given: SomeModel)`, or `(context, *, each: Type, field: Type)`.

    Raises:
        BadTool: the function, its parameters or what is said about it cannot be offered to a model.
    """

    def make(function: Function) -> Tool:
        parameters, takes_model = _parameters(name, function)
        return Tool(name, description, function, parameters, takes_model, **options)

    return make


def wire_name(name: str) -> str:
    """The name as providers allow it (`^[a-zA-Z0-9_-]{1,64}$`), for ever the same, since transcripts hold it.

    Letters, digits and dots need only their dots replaced. Every other name ends in a digest behind a `-`, which no
    name of the first kind has.
    """
    if _PLAIN.fullmatch(name):
        return name.replace(".", "_")
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{re.sub('[^A-Za-z0-9_]', '_', name)[:51]}-{digest}"


class Registry:
    """All tools of a process. The order of registering does not matter: what a model is shown is sorted by name."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._spoken: dict[str, Tool] = {}
        for each in tools:
            self.register(each)

    def register(self, new: Tool) -> None:
        """Add a tool.

        Raises:
            BadTool: the name is taken, as a tool's own or as what a provider would call it.
        """
        for name in {new.name, new.wire_name}:
            if name in self._spoken:
                raise BadTool(f"{new.name} and {self._spoken[name].name} have the same name for the model: rename one")
        self._tools[new.name] = self._spoken[new.name] = self._spoken[new.wire_name] = new

    def get(self, name: str) -> Tool | None:
        """The tool of this name, be it its own or the provider's."""
        return self._spoken.get(name)

    def all(self) -> Sequence[Tool]:
        return [self._tools[name] for name in sorted(self._tools)]

    @property
    def cached_toolsets(self) -> frozenset[str]:
        """Those with a tool whose answers may be given again."""
        return frozenset(each.toolset for each in self._tools.values() if each.cache)

    def definitions(self, only: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """What a model is offered: OpenAI's function schemas, in an order that never changes.

        Args:
            only: the tools' own names; all when left out.
        """
        wanted = self._tools.keys() if only is None else set(only)
        return [deepcopy(each.definition) for each in self.all() if each.name in wanted]


def _parameters(name: str, function: Function) -> tuple[type[BaseModel], bool]:
    """The model of a function's parameters, and whether the function takes it whole."""
    if not inspect.iscoroutinefunction(function):
        raise BadTool(f"{name}: a tool is an async function")
    hints = get_type_hints(function, include_extras=True)
    context, *others = inspect.signature(function).parameters.values()
    if hints.get(context.name) is not ToolContext:
        raise BadTool(f"{name}: the first parameter is the ToolContext")
    if untyped := [each.name for each in others if each.name not in hints]:
        raise BadTool(f"{name}: {', '.join(untyped)} has no type")
    if len(others) == 1 and others[0].kind is not inspect.Parameter.KEYWORD_ONLY:
        model = hints[others[0].name]
        if isinstance(model, type) and issubclass(model, BaseModel):
            return model, True
    if any(each.kind is not inspect.Parameter.KEYWORD_ONLY for each in others):
        raise BadTool(f"{name}: after the context, take one pydantic model, or keyword-only parameters (after a *)")
    return _model_of(name, others, hints), False


def _model_of(name: str, given: Sequence[inspect.Parameter], hints: dict[str, Any]) -> type[BaseModel]:
    wanted: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is inspect.Parameter.empty else each.default)
        for each in given
    }
    unfit = BadTool(f"{name}: pydantic cannot use these parameters: {', '.join(wanted)}")
    try:
        model = create_model(name, __config__=ConfigDict(extra="forbid"), **wanted)
    except (NameError, TypeError) as refusal:
        raise unfit from refusal
    if model.model_fields.keys() != wanted.keys():  # an underscore makes a private one, which no call could set
        raise unfit
    return model
