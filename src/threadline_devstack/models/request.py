"""A request in parsed form: the last prompt of a person, and the steps that answered it so far."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_WORKSPACE = re.compile(r"Primary working directory: (\S+)")
_INJECTED = (
    "[structured-output-enforce]",
    "[Request interrupted by user",
    "Output token limit hit",
    "Continue from where you left off",
)
"""Beginnings of user messages that the CLI itself writes in the middle of a turn."""
_BUG = re.compile(r"\bBUG-\d+\b")


@dataclass(frozen=True)
class RecordedResult:
    """The output of a tool, as text."""

    tool: str
    text: str
    is_error: bool = False


@dataclass(frozen=True)
class RecordedStep:
    """One reply of the model that is already in the conversation, with the results of its tool
    calls.
    """

    text: str
    results: tuple[RecordedResult, ...] = ()


@dataclass(frozen=True)
class ModelRequest:
    """One request, parsed.

    `prompts` are all prompts of people, oldest first; `steps` the replies to the last of them;
    `tools` the input schema of each tool on offer; `messages` the wire's own messages, for tests;
    `fingerprint` is equal for two requests for the same step, also from different processes;
    `workspace` is the caller's own folder, as its reminders name it (empty when they do not).
    `api` is the wire it came over: `messages`, `responses` or `chat`.

    Only over OpenAI's two wires: `notes` are the caller's own insertions in the dialogue,
    `schema_name` is the name of the requested form of the answer, `head` the constant beginning
    that a provider would cache, `cached` the number of tokens that an earlier request would have
    paid for.
    """

    model: str
    system: str
    tools: Mapping[str, Mapping[str, Any]]
    messages: Sequence[Mapping[str, Any]]
    stream: bool
    prompts: tuple[str, ...]
    steps: tuple[RecordedStep, ...]
    history: str
    fingerprint: str
    workspace: str
    api: str = "messages"
    tool_choice: str = "auto"
    notes: tuple[str, ...] = ()
    schema_name: str = ""
    head: str = ""
    cached: int = 0

    def continues(self, earlier: "ModelRequest") -> bool:
        """Return whether `earlier` is a beginning of this request, byte for byte: its head, and
        then all of its messages.
        """
        if not self.head or (self.api, self.head) != (earlier.api, earlier.head):
            return False
        shared = self.messages[: len(earlier.messages)]
        # Equal dicts may still be written in another order, so compare equal ones in the form in
        # which they are sent.
        return list(shared) == list(earlier.messages) and json.dumps(shared) == json.dumps(
            earlier.messages
        )

    @property
    def prompt(self) -> str:
        return self.prompts[-1] if self.prompts else ""

    @property
    def bug_id(self) -> str:
        """The first `BUG-<n>` of the last prompt that names one; empty if none does."""
        return next(
            (found.group() for prompt in reversed(self.prompts) if (found := _BUG.search(prompt))),
            "",
        )

    @property
    def tokens(self) -> int:
        """A plausible size of the input: about four characters a token."""
        return 1 + (len(self.system) + len(self.history) + len(json.dumps(self.tools))) // 4


def read(body: Mapping[str, Any]) -> ModelRequest:
    """Read the body of `POST /v1/messages` (Anthropic's Messages API).

    Raises:
        ValueError, KeyError or TypeError: the body is no such request.
    """
    messages: list[Mapping[str, Any]] = list(body["messages"])
    prompts = [(at, prompt) for at, message in enumerate(messages) if (prompt := _prompt(message))]
    since = prompts[-1][0] + 1 if prompts else len(messages)
    parts = [part for message in messages for part in _parts(message)]
    return ModelRequest(
        model=str(body.get("model", "")),
        system=_text(body.get("system", "")),
        tools={tool["name"]: tool.get("input_schema", {}) for tool in body.get("tools") or ()},
        messages=messages,
        stream=bool(body.get("stream")),
        prompts=tuple(prompt for _, prompt in prompts),
        steps=_steps(messages[since:]),
        history="\n".join(text for _, text in parts),
        fingerprint=hashlib.sha256(json.dumps(parts).encode()).hexdigest(),
        workspace=_workspace(messages),
    )


def _workspace(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the newest workspace: a resumed conversation may have begun in another folder."""
    texts = (
        block["text"]
        for message in messages
        for block in _blocks(message["content"])
        if block["type"] == "text"
    )
    reminders = (reminder for text in texts for reminder in _REMINDER.findall(text))
    named = [found for reminder in reminders for found in _WORKSPACE.findall(reminder)]
    return str(named[-1]) if named else ""


def _prompt(message: Mapping[str, Any]) -> str:
    """Return a person's text in this message: without tool results, reminders, and texts that the
    CLI wrote.
    """
    if message["role"] != "user":
        return ""
    texts = (
        _without_reminders(block["text"])
        for block in _blocks(message["content"])
        if block["type"] == "text"
    )
    return "\n".join(text for text in texts if text and not text.startswith(_INJECTED))


def _steps(messages: Sequence[Mapping[str, Any]]) -> tuple[RecordedStep, ...]:
    results: dict[str, RecordedResult] = {}
    replies: list[list[Mapping[str, Any]]] = []
    names: dict[str, str] = {}
    before = ""
    for message in messages:
        blocks = _blocks(message["content"])
        if message["role"] == "assistant":
            # The CLI may cut one reply into several messages.
            replies = (
                [*replies[:-1], [*replies[-1], *blocks]]
                if before == "assistant"
                else [*replies, blocks]
            )
            names |= {
                block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"
            }
        for block in blocks:
            if block["type"] == "tool_result":
                name = names.get(block["tool_use_id"], "")
                results[block["tool_use_id"]] = RecordedResult(
                    name,
                    _without_reminders(_text(block.get("content"))),
                    bool(block.get("is_error")),
                )
        before = message["role"]
    return tuple(_step(reply, results) for reply in replies)


def _step(
    reply: Sequence[Mapping[str, Any]], results: Mapping[str, RecordedResult]
) -> RecordedStep:
    # Results come in the order in which tools finished; a script needs them in the order of its
    # calls.
    return RecordedStep(
        text="\n".join(block["text"] for block in reply if block["type"] == "text"),
        results=tuple(
            results.get(
                block["id"],
                RecordedResult(block["name"], "The tool was interrupted.", is_error=True),
            )
            for block in reply
            if block["type"] == "tool_use"
        ),
    )


def _parts(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the message as pairs of role and text, without parts that differ between two requests
    for the same step.
    """
    parts = []
    for block in _blocks(message["content"]):
        match block["type"]:
            case "text":
                text = _without_reminders(block["text"])
            case "tool_use":
                text = f"{block['name']} {json.dumps(block['input'], sort_keys=True)}"
            case "tool_result":
                text = _without_reminders(_text(block.get("content")))
            case _:
                continue
        if text:
            parts.append((str(message["role"]), text))
    return parts


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _text(content: Any) -> str:
    return "\n".join(str(block["text"]) for block in _blocks(content) if block["type"] == "text")


def _without_reminders(text: str) -> str:
    return _REMINDER.sub("", text).strip("\n")
