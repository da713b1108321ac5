"""Scripted exchanges: data in scripts/*.yaml that defines which requests are answered, and in
which steps.

One file is the script of one agent. The first exchange in it that fits a request plays; the last
one fits every request, and replies that the sentence is not in the script. The play depends only
on the request and its recorded steps.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from threadline_devstack.filling import fill
from threadline_devstack.models.request import ModelRequest, RecordedResult
from threadline_devstack.models.script import Script, ScriptDiverged, ScriptTurn

MOST_PAGES = 20
"""Pages of a result that a call follows; far more than a person writes."""
FACTS = frozenset(
    {
        *("prompt", "earlier", "system", "notes", "read_only", "rfp_id", "passage"),
        *("query", "query_tools", "sensitivity"),
        *("case", "news", "developers", "senders", "said", "headline"),
    }
)
"""The names that an exchange may match, all of them texts; empty if a request has no such fact."""
QUOTE = 300
QUOTES = 6_000
"""Characters of a message or a result in a sentence, and of all messages that `said` quotes: many
messages are each cut shorter, and none is left out.
"""

_WRITER = re.compile(r"^[^\n:]{1,100}\([UW]\w+\):\s*")
_MENTION = re.compile(r"<@[^>]*>\s*")
_RFP = re.compile(r"(?<![\w-])rfp_[a-z0-9]+(?:[_-][a-z0-9]+)*", re.IGNORECASE)
_SCOPE = re.compile(r"\brfp_id_scope: (rfp_[\w-]+)")
_BOUND = re.compile(r"\bThis thread is about [^\n]*?\brfp (rfp_[\w-]+)")
_READ_ONLY = re.compile(r"Read-only: (.+?)\. What would change")
_TURN = re.compile(r"^Case BUG-\d+, turn \d+ \(", re.MULTILINE)
_MESSAGE = re.compile(r"<message (?P<attributes>[^>\n]*)>\n(?P<text>.*?)\n?</message>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')

_FLAGS = re.IGNORECASE | re.DOTALL

Values = dict[str, Any]
"""Values for texts and arguments: the facts of the request, groups of its patterns, and saved
results.
"""


def _known(patterns: dict[str, str]) -> dict[str, str]:
    if unknown := patterns.keys() - FACTS:
        raise ValueError(f"there are no such facts: {', '.join(sorted(unknown))}")
    return patterns


Facts = Annotated[dict[str, str], AfterValidator(_known)]
"""Patterns that must all be found in the facts. Case does not matter, `.` matches a line's end;
groups become values.
"""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Call(_Data):
    """One call of a tool.

    Args:
        tool: its name, as in the model's list of tools.
        arguments: filled with values. A tool in strict mode gets null for omitted ones.
        expect: a pattern that the result must have; without a match the script fails, and with it
            the test of the turn.
        save: value → dotted path in the JSON of the result.
        find: value → pattern whose first group in the result becomes the value, a number if it
            consists of digits.
        follow: argument → pattern for its next value; the call is repeated as long as the result
            has one.
    """

    tool: str
    arguments: dict[str, Any] = {}
    expect: str = ""
    save: dict[str, str] = {}
    find: dict[str, str] = {}
    follow: dict[str, str] = {}


class ExchangeStep(_Data):
    """One action, if the values have all patterns of `if` and none of `unless`.

    `set` assigns values; `say` is text in front of the next calls; `call` is one call, or several
    in one reply. The others end the turn: `reply` with text, `answer` with JSON in the requested
    form, `finish` with the structured output of the Claude Code CLI.
    """

    if_: dict[str, str] = Field(default={}, alias="if")
    unless: dict[str, str] = {}
    set: dict[str, Any] | None = None
    say: str | None = None
    call: Call | list[Call] | None = None
    reply: str | None = None
    answer: dict[str, Any] | None = None
    finish: dict[str, Any] | None = None

    @property
    def calls(self) -> list[Call]:
        if isinstance(self.call, list):
            return self.call
        return [self.call] if self.call else []

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        given = self.model_fields_set - {"if_", "unless"}
        if len(given) != 1:
            raise ValueError(f"a step does one thing, and this one does {sorted(given)}")
        if unnamed := [name for name in self.set or () if not name.isidentifier()]:
            raise ValueError(f"a value's name is one word; quote texts with commas: {unnamed}")
        return self


class Exchange(_Data):
    """The answer to some requests.

    Args:
        name: for people.
        examples: sentences that it answers, which the fallback suggests.
        when: patterns that the facts must have; the tools of unconditional calls must be on offer
            as well.
        unless: patterns that the facts must not have.
        rows: values of which the first that fit are taken, such as one row for each planted bug.
            Patterns and texts refer to them by name.
        steps: in their order.
        on_error: steps after a failed call, instead of the rest, with `{error}`.
    """

    name: str
    examples: list[str] = []
    when: Facts = {}
    unless: Facts = {}
    rows: list[dict[str, str]] = [{}]
    steps: list[ExchangeStep]
    on_error: list[ExchangeStep] = [ExchangeStep(reply="I could not do this: {error}")]

    def values_for(self, facts: Mapping[str, str], tools: Mapping[str, Any]) -> Values | None:
        """Return the values to play with; None if the exchange does not fit."""
        needed = {
            call.tool
            for step in self.steps
            if not (step.if_ or step.unless)
            for call in step.calls
        }
        if not needed <= tools.keys():
            return None
        for row in self.rows:
            values: Values = {**facts, **row}
            found = [
                re.search(fill(pattern, row), facts[name], _FLAGS)
                for name, pattern in self.when.items()
            ]
            if all(found) and not _has_any(self.unless, values):
                groups = [each.groupdict(default="") for each in found if each]
                return values | {name: value for each in groups for name, value in each.items()}
        return None


@cache
def scripts() -> Mapping[str, Sequence[Exchange]]:
    """Return each agent's exchanges. Raises pydantic's `ValidationError` for a file that is no
    script.
    """
    folder = files("threadline_devstack.models") / "scripts"
    paths = sorted(
        (path for path in folder.iterdir() if path.name.endswith(".yaml")),
        key=lambda path: path.name,
    )
    return {path.name.removesuffix(".yaml"): _read(path.read_text("utf-8")) for path in paths}


def _read(text: str) -> list[Exchange]:
    # Beside `exchanges`, the file has blocks that several of them share, by YAML's anchors.
    return [Exchange.model_validate(each) for each in yaml.safe_load(text)["exchanges"]]


def agent_of(request: ModelRequest) -> str:
    """Return the agent whose script answers a request."""
    if request.schema_name:
        return "decisions"
    if request.api == "messages":
        return "bug_cases"
    if not request.tools:
        return "summaries"
    return "operator" if "slack_post_summary" in request.tools else "conversations"


def script_for(request: ModelRequest) -> Script:
    """Return the first exchange that fits the request, as a script."""
    exchanges = scripts()[agent_of(request)]
    facts = facts_of(request)
    exchange, values = next(
        (each, found)
        for each in exchanges
        if (found := each.values_for(facts, request.tools)) is not None
    )
    values["examples"] = "; ".join(
        f"“{sentence}”" for each in exchanges for sentence in each.examples
    )

    async def play(turn: ScriptTurn) -> None:
        await _Player(
            exchange, turn, {"bug_id": turn.bug_id, "workspace": turn.workspace, **values}
        ).play()

    return play


class _CallFailed(Exception):
    """A tool has returned an error; the text is a summary for people."""


class _Player:
    def __init__(self, exchange: Exchange, turn: ScriptTurn, values: Values) -> None:
        self._exchange = exchange
        self._turn = turn
        self._values = values
        self._texts = [values["prompt"]]

    async def play(self) -> None:
        try:
            await self._all(self._exchange.steps)
        except _CallFailed as failed:
            self._values["error"] = str(failed)
            try:
                await self._all(self._exchange.on_error)
            except _CallFailed as again:
                await self._turn.text_only(str(again))

    async def _all(self, steps: Sequence[ExchangeStep]) -> None:
        for step in steps:
            if _has_all(step.if_, self._values) and not _has_any(step.unless, self._values):
                await self._one(step)

    async def _one(self, step: ExchangeStep) -> None:
        turn = self._turn
        if step.set is not None:
            self._values |= fill(step.set, self._values)
        if step.say is not None:
            await turn.say(fill(step.say, self._values))
        if step.calls:
            await self._call(step.calls)
        if step.reply is not None:
            await turn.text_only(str(fill(step.reply, self._values)))
        if step.answer is not None:
            await turn.text_only(json.dumps(fill(step.answer, self._values)))
        if step.finish is not None:
            await turn.finish(**fill(step.finish, self._values))

    async def _call(self, calls: Sequence[Call]) -> None:
        for _ in range(MOST_PAGES):
            if self._turn.live and self._turn.tool_choice == "none":
                await self._turn.text_only("I had no more calls for this.")
            wanted = [(call.tool, self._arguments(call)) for call in calls]
            results = await self._turn.call_together(*wanted)
            for call, result in zip(calls, results, strict=True):
                self._keep(call, result)
            following = {
                name: found[1]
                for call, result in zip(calls, results, strict=True)
                for name, pattern in call.follow.items()
                if (found := re.search(pattern, result.text, _FLAGS))
            }
            if not following:
                return
            calls = [
                call.model_copy(update={"arguments": call.arguments | following}) for call in calls
            ]

    def _arguments(self, call: Call) -> dict[str, Any]:
        needed = self._turn.tools.get(call.tool, {}).get("required", ())
        return {**dict.fromkeys(needed), **fill(call.arguments, self._values)}

    def _keep(self, call: Call, result: RecordedResult) -> None:
        if result.is_error:
            raise _CallFailed(result_summary(result.text))
        if call.expect and not re.search(fill(call.expect, self._values), result.text, _FLAGS):
            raise ScriptDiverged(
                f"{self._exchange.name}: {call.tool} was to return {call.expect!r}."
            )
        self._texts.append(result.text)
        self._values |= {"result": result_summary(result.text), **case_facts(self._texts)}
        self._values |= {name: _at(_parsed(result.text), path) for name, path in call.save.items()}
        self._values |= {
            name: _found(fill(each, self._values), result.text) for name, each in call.find.items()
        }


def result_summary(text: str) -> str:
    """Return a result's texts for people, if it has any; else its beginning, in one line."""
    found = _parsed(text)
    if isinstance(found, Mapping):
        error = found.get("error")
        inner = error if isinstance(error, Mapping) else found
        named = [
            str(inner[name]).rstrip(".")
            for name in ("text", "message", "suggestion", "error")
            if inner.get(name)
        ]
        text = f"{'. '.join(named)}." if named else text
    flat = " ".join(text.split())
    return flat if len(flat) <= QUOTE else f"{flat[:QUOTE].rsplit(' ', 1)[0]} …"


def _parsed(text: str) -> Any:
    """Return the JSON at the beginning of a text: the CLI may append a reminder of its own. None
    if there is none.
    """
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _at(found: Any, path: str) -> Any:
    """Return the value at a dotted path, such as `data.roles.0.role`; an empty text if missing."""
    for name in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list) and name.isdigit():
            found = found[int(name)] if int(name) < len(found) else None
        else:
            found = None
    return "" if found is None else found


def _found(pattern: str, text: str) -> str | int:
    found = re.search(pattern, text, re.IGNORECASE | re.MULTILINE)
    value = found[1] if found else ""
    return int(value) if value.isdecimal() else value


def _has_all(patterns: Mapping[str, str], values: Values) -> bool:
    return all(_has(name, pattern, values) for name, pattern in patterns.items())


def _has_any(patterns: Mapping[str, str], values: Values) -> bool:
    return any(_has(name, pattern, values) for name, pattern in patterns.items())


def _has(name: str, pattern: str, values: Values) -> bool:
    return re.search(fill(pattern, values), str(fill(f"{{{name}}}", values)), _FLAGS) is not None


# The facts of a request: people's messages, and its subject


@dataclass(frozen=True)
class PromptMessage:
    """One fenced message of a bug case; `sender` is reporter, developer or bot, `text` is on one
    line.
    """

    place: tuple[int, str]
    sender: str
    text: str
    is_read: bool


def facts_of(request: ModelRequest) -> dict[str, str]:
    """Return all `FACTS` of a request. They are the same at each step of one turn, except for the
    ones that `case_facts` adds.
    """
    facts = dict.fromkeys(FACTS, "")
    facts |= {"system": request.system, "notes": "\n".join(request.notes)}
    if request.api == "messages":
        return facts | _bug_case(request.prompts)
    prompts = [
        _MENTION.sub("", _WRITER.sub("", prompt)).strip() for prompt in request.prompts
    ] or [""]
    facts |= {
        "prompt": prompts[-1],
        "earlier": "\n".join(prompts[:-1]),
        "passage": _passage(request.notes),
    }
    facts["read_only"] = next(iter(_READ_ONLY.findall(facts["notes"])[-1:]), "")
    named = [each for each in _RFP.findall(prompts[-1]) if each not in request.tools]
    scope = _SCOPE.findall(request.system) or _BOUND.findall(facts["notes"])[-1:]
    facts["rfp_id"] = next(iter([*named, *scope]), "").lower()
    return facts | _form(request)


def case_facts(texts: Iterable[str]) -> dict[str, str]:
    """Return `said` and `headline` of the messages that are fenced in a turn's prompt and in its
    tools' results.
    """
    known: dict[tuple[int, str], PromptMessage] = {}
    for text in texts:
        known |= {message.place: message for message in _messages(text)}
    people = [known[place] for place in sorted(known) if known[place].sender != "bot"]
    room = min(QUOTE, QUOTES // max(1, len(people)))
    quotes = "; ".join(f"the {message.sender} wrote “{message.text[:room]}”" for message in people)
    reports = [message.text for message in people if message.sender == "reporter"]
    headline = next(iter([*reports, *(message.text for message in people)]), "")[:80]
    return {
        "said": f"What was said: {quotes}." if quotes else "",
        "headline": headline or "Report without text",
    }


def _bug_case(prompts: Iterable[str]) -> dict[str, str]:
    """Return the facts of a bug case. The turn's prompt is the last one that begins like a turn:
    an agent may be asked again for its answer.
    """
    turns = [prompt for prompt in prompts if _TURN.search(prompt)] or list(prompts)[-1:] or [""]
    case = [
        message for prompt in turns for message in _messages(prompt) if message.sender != "bot"
    ]
    news = [message for message in _messages(turns[-1]) if message.sender != "bot"]
    return {
        "prompt": turns[-1],
        "case": _lines(case),
        "news": _lines(message for message in news if not message.is_read),
        "developers": _lines(message for message in news if message.sender == "developer"),
        "senders": " ".join(dict.fromkeys(message.sender for message in news)),
        **case_facts(turns[-1:]),
    }


def _messages(text: str) -> list[PromptMessage]:
    """Return the fenced messages of a text."""
    found = [
        (dict(_ATTRIBUTE.findall(each["attributes"])), each["text"])
        for each in _MESSAGE.finditer(text)
    ]
    return [
        PromptMessage(
            (
                int(given["number"]) if given.get("number", "").isdecimal() else 0,
                given.get("part", ""),
            ),
            given.get("from", "reporter"),
            " ".join(words.split()),
            given.get("read") == "yes",
        )
        for given, words in found
    ]


def _lines(messages: Iterable[PromptMessage]) -> str:
    return "\n".join(message.text for message in messages)


def _passage(notes: Iterable[str]) -> str:
    """Return the best passage among the documents in the turn's notes."""
    for note in notes:
        _, found, passages = note.partition("\n")
        if note.startswith("[Decision]") and found:
            return " ".join(str(json.loads(passages)[0]["text"]).split())
    return ""


def _form(request: ModelRequest) -> dict[str, str]:
    """Return the subject of a decision, which comes as JSON."""
    try:
        asked: Any = json.loads(request.prompt) if request.schema_name else {}
    except ValueError:
        asked = {}
    if not isinstance(asked, Mapping):
        return {}
    return {
        "query": str(asked.get("query", "")),
        "query_tools": " ".join(asked.get("tools", ())),
        "sensitivity": "asks" if asked.get("sensitive_words_in_the_query") else "none",
    }
