"""A turn from its script's view: each step returns its recorded result, and the first step without
one is the answer.

A script runs from its start for every request. It keeps no state between two requests, so a caller
may crash, fork or repeat a request. A script must therefore decide by its input, never by a clock
or a memory of its own.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from threadline_devstack.models.request import ModelRequest, RecordedResult, RecordedStep

STRUCTURED_OUTPUT = "StructuredOutput"
"""The tool that the CLI adds for a result with a schema; a valid call of it ends the turn."""


@dataclass(frozen=True)
class ScriptReply:
    """Text, then tool calls as pairs of name and input; a reply without calls ends the turn."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True)
class ScriptFailure:
    """An HTTP error. `retry_after` in seconds becomes the header; `code` and `param` are OpenAI's
    names for the error.
    """

    status: int
    message: str = "The model sandbox was told to fail."
    retry_after: float | None = None
    code: str = ""
    param: str = ""


@dataclass(frozen=True)
class ScriptInterruption:
    """A reply that begins well; then the connection is closed, or (`event`) the stream carries an
    error event.
    """

    event: bool = False


ScriptAnswer = ScriptReply | ScriptFailure | ScriptInterruption


class ScriptDiverged(Exception):
    """The script does not repeat the steps that this conversation has recorded."""


class StepReached(BaseException):
    """Ends a script at its first new step. Not an Exception, so that a script's own `except`
    cannot swallow it.
    """

    def __init__(self, answer: ScriptAnswer) -> None:
        super().__init__(answer)
        self.answer = answer


class Holds:
    """Holds by name: armed, released (for good, until armed again), and the number of replies that
    wait there.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._released: set[str] = set()
        self._armed: set[str] = set()
        self._waiting: Counter[str] = Counter()

    def arm(self, name: str) -> None:
        """Make replies stop at `name` from now on, also after an earlier release."""
        self._armed.add(name)
        self._released.discard(name)

    async def release(self, name: str) -> None:
        """Let every reply pass `name`, both waiting ones and later ones."""
        async with self._changed:
            self._armed.discard(name)
            self._released.add(name)
            self._changed.notify_all()

    async def wait_if_armed(self, name: str) -> None:
        if name in self._armed:
            await self.wait(name)

    async def wait(self, name: str) -> None:
        async with self._changed:
            self._waiting[name] += 1
            self._changed.notify_all()
            try:
                await self._changed.wait_for(lambda: name in self._released)
            finally:
                self._waiting[name] -= 1
                self._changed.notify_all()

    async def reached(self, name: str) -> None:
        """Return as soon as a reply waits at `name`."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting[name] > 0)

    def waiting(self, name: str) -> bool:
        """Return whether a reply waits at `name`."""
        return self._waiting[name] > 0


class ScriptTurn:
    """The turn, as the argument of a script.

    Every step is awaited. Steps that only have an effect (`hold`, `slow`, `error`, `disconnect`,
    `sse_error`) do nothing while recorded steps still follow. `asked` counts the requests for the
    current step by all callers, from 1: a script that fails once has `if turn.asked == 1: await
    turn.error(529)`.
    """

    def __init__(self, conversation: ModelRequest, holds: Holds, asked: int = 1) -> None:
        self.prompt = conversation.prompt
        self.prompts = conversation.prompts
        self.history = conversation.history
        self.system = conversation.system
        self.notes = conversation.notes
        self.tools = conversation.tools
        self.tool_choice = conversation.tool_choice
        self.bug_id = conversation.bug_id
        self.workspace = conversation.workspace
        self.asked = asked
        self._holds = holds
        self._recorded = list(conversation.steps)
        self._said: list[str] = []

    @property
    def live(self) -> bool:
        """Whether all recorded steps are played: the next step is the answer."""
        return not self._recorded

    async def say(self, text: str) -> None:
        """Put text in front of the next step's tool calls."""
        self._said.append(text)

    async def call(self, tool: str, /, **arguments: Any) -> RecordedResult:
        """Call one tool."""
        return (await self.call_together((tool, arguments)))[0]

    async def call_together(
        self, *calls: tuple[str, Mapping[str, Any]]
    ) -> tuple[RecordedResult, ...]:
        """Call several tools in one reply, given as pairs of name and input. Return the results in
        the same order.

        Raises:
            ScriptDiverged: the conversation has other calls at this point.
        """
        wanted = [name for name, _ in calls]
        step = self._next(ScriptReply(self._text(), calls))
        called = [result.tool for result in step.results]
        if called != wanted:
            raise ScriptDiverged(
                f"The script calls {wanted} where the conversation has recorded {called}."
            )
        return step.results

    async def finish(self, **structured: Any) -> RecordedResult:
        """End the turn with a structured result; the CLI asks again if it does not fit the
        schema.
        """
        return await self.call(STRUCTURED_OUTPUT, **structured)

    async def text_only(self, text: str) -> None:
        """Answer with text and no tool call."""
        await self.say(text)
        await self.call_together()

    async def error(
        self, status: int, message: str = "", retry_after: float | None = None
    ) -> None:
        """Answer with an HTTP error, such as 429 or 529."""
        if self.live:
            raise StepReached(ScriptFailure(status, message or ScriptFailure.message, retry_after))

    async def disconnect(self) -> None:
        """Close the connection in the middle of the reply."""
        if self.live:
            raise StepReached(ScriptInterruption())

    async def sse_error(self) -> None:
        """Begin the stream, then send an error event. A caller that does not stream gets a 500
        instead.
        """
        if self.live:
            raise StepReached(ScriptInterruption(event=True))

    async def hold(self, name: str) -> None:
        """Wait until `name` is released; a released name stays released."""
        if self.live:
            await self._holds.wait(name)

    async def slow(self, seconds: float) -> None:
        if self.live:
            await asyncio.sleep(seconds)

    def _next(self, reply: ScriptReply) -> RecordedStep:
        self._said.clear()
        if self.live:
            raise StepReached(reply)
        return self._recorded.pop(0)

    def _text(self) -> str:
        return "\n".join(self._said)


Script = Callable[[ScriptTurn], Awaitable[None]]


async def play(script: Script, turn: ScriptTurn) -> ScriptAnswer:
    """Run the script up to its first step that is not recorded; a script that has ended replies
    with a sentence.
    """
    try:
        await script(turn)
    except StepReached as reached:
        return reached.answer
    return ScriptReply("There is nothing more to do.")
