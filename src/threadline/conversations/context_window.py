"""What of a thread the model is sent: the summary of what is old, the latest messages whole, and this turn.

Between the calls of a turn only the end grows. Where the earlier messages begin is decided once, with the turn's
briefing, and so is how much of a huge message is shown, so the provider's cache knows how every call begins.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from threadline.conversations import prompt
from threadline.conversations import turn_note as briefing
from threadline.conversations.call_pairing import paired
from threadline.models.model import MESSAGES, TOKENS, Message, Prompt, Role, ToolCall, ToolChoice, text_with_author
from threadline.slack.model import FileRef, Thread
from threadline.tools.registry import AllowedTools, ToolRegistry, wire_name

Placed = tuple[int, Message]
"""A message of the transcript behind its place there; places rise."""

SUMMARY_TOKENS = 1_000
NOTE_TOKENS = 500
"""Room for a turn's briefing."""
TIGHT = 4_000
"""Bytes of one message where even the halved context was too long for the model."""

_OVERHEAD = 4
"""Tokens that a message takes beside its text."""
_LONGEST_MESSAGE = 16_000
"""Bytes of one message of a person that the model is shown."""
_FOR_SUMMARY, _EACH_FOR_SUMMARY = 48_000, 2_000
"""Bytes that a summary is made from, and of one message among them."""


@dataclass(frozen=True)
class Budget:
    """How much of a dialogue is sent when a turn begins: messages, and tokens as `tokens` counts them."""

    messages: int = MESSAGES
    tokens: int = TOKENS

    def halved(self) -> "Budget":
        return Budget(max(2, self.messages // 2), self.tokens // 2)


@dataclass(frozen=True)
class Past:
    """What lies before a turn: `summary` tells what was said before `messages`."""

    summary: str
    messages: tuple[Placed, ...]


@dataclass(frozen=True)
class Cut:
    """Where the past is cut: `older` is for the summary, `kept` is sent as it is."""

    older: tuple[Placed, ...]
    kept: tuple[Placed, ...]

    @property
    def until(self) -> int:
        """The place of the last message that a summary of `older` tells."""
        return self.older[-1][0] if self.older else 0

    @property
    def since(self) -> int:
        """The place from which on messages are sent as they are; 0: from the first."""
        return self.until + 1 if self.older else 0


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def tokens(message: Message) -> int:
    """About how many tokens a message takes: one for four bytes, since nothing here knows the model's own alphabet."""
    words = sum(size(call.name) + size(call.arguments) for call in message.calls)
    return (size(text_with_author(message)) + words) // 4 + _OVERHEAD


def parted(entries: Sequence[Placed], turn: int) -> tuple[list[Placed], list[Placed]]:
    """The transcript in two: what lies before a turn, without the briefings of earlier turns, and the turn itself."""
    begun = next((index for index, (_, each) in enumerate(entries) if _turn_of(each) == turn), len(entries))
    return [entry for entry in entries[:begun] if not _turn_of(entry[1])], list(entries[begun:])


def cut(past: Past, fresh: Sequence[Message], budget: Budget) -> Cut:
    """Decide what of the past is sent as it is: as many of the latest messages as there is room for.

    Args:
        past: without the briefings of earlier turns.
        fresh: what the turn begins with, or has come to; it is sent in any case.
        budget: for all of it, a briefing and a summary included.

    Returns:
        Nothing is cut from a past that fits. A cut never comes between a call and its result.
    """
    room = budget.messages - len(fresh) - 1 - bool(past.summary)
    left = budget.tokens - sum(map(tokens, fresh)) - NOTE_TOKENS - (SUMMARY_TOKENS if past.summary else 0)
    if len(past.messages) <= room and sum(tokens(each) for _, each in past.messages) <= left:
        return Cut((), past.messages)
    if not past.summary:
        room, left = room - 1, left - SUMMARY_TOKENS
    begin = len(past.messages)
    for index in range(len(past.messages) - 1, -1, -1):
        message = past.messages[index][1]
        room, left = room - 1, left - tokens(message)
        if room < 0 or left < 0:
            break
        if message.role in (Role.USER, Role.ASSISTANT):
            begin = index
    return Cut(past.messages[:begin], past.messages[begin:])


def summary_prompt(past: Past, older: Sequence[Placed]) -> Prompt:
    """The question for a summary that tells the one so far and what is older now, see `piece`."""
    lines = [f"Summary so far: {past.summary or 'none'}", "", "What was said after it, oldest first:"]
    lines += [_line(message, _EACH_FOR_SUMMARY) for _, message in older]
    return Prompt(prompt.SUMMARISE, (Message(Role.USER, "\n".join(lines)),), tool_choice=ToolChoice.NONE)


def piece(older: Sequence[Placed]) -> Sequence[Placed]:
    """The beginning of what is older: as much as one summary can tell without cutting more than what is huge."""
    room = _FOR_SUMMARY
    for index, (_, message) in enumerate(older):
        room -= min(_EACH_FOR_SUMMARY, size(_line(message, _EACH_FOR_SUMMARY)))
        if room < 0 and index:
            return older[:index]
    return older


def as_summary(text: str) -> str:
    """A model's summary, or as much of it as a summary may take."""
    return shortened(text.strip(), SUMMARY_TOKENS * 4 - 200)


def prompt_of(
    thread: Thread,
    past: Past,
    current: Sequence[Message],
    offered: tuple[ToolRegistry, AllowedTools],
    choice: ToolChoice,
    *,
    tight: bool = False,
    instructions: str = prompt.INSTRUCTIONS,
) -> Prompt:
    """The question that a step asks.

    Args:
        past: from the place on that the turn's briefing names; see `parted`.
        current: the turn so far, its briefing first.
        offered: all tools, and those that this turn may use.
        tight: huge messages of the turn are cut: the model refused the whole.
        instructions: what the model is told before anything else; the same at every step of a turn.
    """
    registry, allowed = offered
    if tight:
        current = [replace(each, content=shortened(each.content, TIGHT)) for each in current]
    dialogue = [message for _, message in past.messages] + list(current)
    first = [Message(Role.SYSTEM, f"[Earlier] {past.summary}")] if past.summary else []
    return Prompt(
        instructions,
        tuple(_by_wire_names(each, registry) for each in [*first, *paired(dialogue)]),
        tuple(allowed.definitions(registry)),
        choice,
        cache_key=hashlib.sha256(thread.key.encode()).hexdigest()[:32],
    )


def from_people(said: Sequence[tuple[str, str, Sequence[FileRef]]], budget: Budget) -> list[Message]:
    """Messages of people as the model is shown them, of which all together take at most half of the budget.

    Args:
        said: (author or "", text, files) of each.
    """
    whole = [(author, _with_files(text, files)) for author, text, files in said]
    limit = min(_LONGEST_MESSAGE, _level([size(text) for _, text in whole], budget.tokens * 4 // 2))
    return [Message(Role.USER, shortened(text, limit), author=author) for author, text in whole]


def result(call_id: str, rendered: str) -> Message:
    """What a tool returned, as the model is shown it."""
    return Message(Role.TOOL, rendered, call_id=call_id)


def shortened(text: str, limit: int) -> str:
    """The text, or of one of more than `limit` bytes its beginning and its end, and a note of what is missing."""
    whole = size(text)
    if whole <= limit:
        return text
    keep = len(text) * limit // whole
    while True:
        head, tail = text[: keep - keep // 4], text[len(text) - keep // 4 :]
        made = f"{head}\n[… {len(text) - keep:,} of {len(text):,} characters are left out here …]\n{tail}"
        if keep == 0 or size(made) <= limit + 100:
            return made
        keep = keep * 9 // 10


def _turn_of(message: Message) -> int:
    """The turn that a message is the briefing of; 0 for any other."""
    found = briefing.read(message)
    return found.turn if found else 0


def _level(sizes: Sequence[int], room: int) -> int:
    """The size to which the largest are cut so that all fit: small ones leave what they do not need to the others."""
    ordered = sorted(sizes)
    for index, each in enumerate(ordered):
        share = room // (len(ordered) - index)
        if each > share:
            return share
        room -= each
    return ordered[-1] if ordered else 0


def _with_files(text: str, files: Sequence[FileRef]) -> str:
    notes = [f"[Attached, and not readable here: {file.name or file.id}]" for file in files]
    return "\n".join(filter(None, (text, *notes)))


def _line(message: Message, limit: int) -> str:
    called = "".join(f" [calls {call.name} {call.arguments}]" for call in message.calls)
    who = {Role.ASSISTANT: "Assistant: ", Role.TOOL: "Result: ", Role.USER: "" if message.author else "Person: "}
    return shortened(f"{who.get(message.role, '')}{text_with_author(message)}{called}", limit)


def _by_wire_names(message: Message, registry: ToolRegistry) -> Message:
    """Calls under the names that the provider allows; notes without what only we read in them."""
    if message.role is not Role.ASSISTANT:
        return replace(message, opaque="") if message.opaque else message
    return replace(message, calls=tuple(_on_the_wire(call, registry) for call in message.calls))


def _on_the_wire(call: ToolCall, registry: ToolRegistry) -> ToolCall:
    tool = registry.get(call.name)
    return replace(call, name=tool.wire_name if tool else wire_name(call.name))
