"""Think, act, stop: a turn of the conversation as a loop over two steps, which always ends with words for the person.

It awaits nothing but the two steps and keeps nothing but what they return, so that it runs in a workflow, where both
are activities, and anywhere else. What is said, and the full output of tools, lies in the transcript, which the steps
read and write; a message that arrives between two steps is in the next one's.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from threadline.conversations.model import answers
from threadline.conversations.model.conversation import Execution, Outcome, OutcomeKind, touched
from threadline.models.model import ModelReply, StepFailed, ToolCall, ToolChoice
from threadline.slack.text import is_blank

MAX_TURNS = 5
"""Model calls that may ask for tools; beyond it the model is asked once more, and only for words."""

Think = Callable[[ToolChoice], Awaitable[ModelReply]]
"""Ask the model once, about the transcript as it is now, and append its reply.

Raises `StepFailed` when there is no reply to be had. Other errors, a cancellation say, end the loop as they are.
"""

Act = Callable[[list[ToolCall]], Awaitable[list[Execution]]]
"""Run the calls of one reply and append their results; what goes wrong with a call is an `Execution` like any other."""


async def react(
    think: Think,
    act: Act,
    *,
    max_turns: int = MAX_TURNS,
    stopping: Callable[[], bool] = lambda: False,
    may_be_silent: Callable[[], bool] = lambda: False,
    closing: Callable[[Execution], OutcomeKind | None] = lambda _: None,
) -> Outcome:
    """Answer what the transcript ends with.

    A text without calls is the answer. Calls are run, save those whose id an earlier reply or call of this turn had.
    A reply that holds neither, or only such calls, or `max_turns` replies with calls, are followed by one call of the
    model without tools; should that say nothing, what was executed is told by rule. Silence where it is not allowed is
    no reply: the first time the model is asked again as before, since what was addressed to it may have come meanwhile.

    Args:
        max_turns: the model is called at most once more often than this.
        stopping: asked before every step; once true, no step is begun any more.
        may_be_silent: asked when the model has nothing to say, or cannot be had: whether the message may be left to
            others. It may not once a call has changed something, or may have.
        closing: asked of each call that was run: the end that it is, when it has the turn's last words.

    Returns:
        Its text is not blank, unless its kind is `SILENT`.
    """
    turn = _Turn(think, act, stopping, may_be_silent, closing)
    try:
        return await turn.work(max_turns) or await turn.conclude()
    except StepFailed as failure:
        return turn.failed(str(failure))


@dataclass
class _Turn:
    think: Think
    act: Act
    stopping: Callable[[], bool]
    may_be_silent: Callable[[], bool]
    closing: Callable[[Execution], OutcomeKind | None]
    model_calls: int = 0
    executions: list[Execution] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Ids of calls that were run, or given to be run."""
    asked_again: bool = False

    async def work(self, max_turns: int) -> Outcome | None:
        """Think and act until there is an answer; None when there is to be one more call, without tools."""
        for _ in range(max_turns):
            if self.stopping():
                return self._stopped()
            reply = await self._ask(ToolChoice.AUTO)
            if self._wrongly_silent(reply) and not self.asked_again:
                self.asked_again = True
                continue
            if not reply.calls:
                return self._answer(reply)
            calls = self._new(reply.calls)
            if not calls:
                return None
            if self.stopping():
                return self._stopped()
            done = await self.act(calls)
            self.executions += done
            if end := self._closed(done):
                return end
        return None

    async def conclude(self) -> Outcome:
        """Ask for words alone, and find some where the model has none."""
        if self.stopping():
            return self._stopped()
        answer = self._answer(await self._ask(ToolChoice.NONE))
        if answer:
            return answer
        if self.executions:
            return self.ended(OutcomeKind.SUMMARISED, answers.summary(self.executions))
        if self.may_be_silent():
            return self.ended(OutcomeKind.SILENT, "")
        return self.ended(OutcomeKind.SPEECHLESS, answers.NOTHING_TO_SAY)

    def failed(self, words: str) -> Outcome:
        """The end for want of a step. Of trouble with what nobody asked the bot, nobody hears."""
        if self._may_be_silent():
            return self.ended(OutcomeKind.SILENT, "")
        return self.ended(OutcomeKind.FAILED, answers.failed(words, self.executions))

    def ended(self, kind: OutcomeKind, text: str, step: int = 0) -> Outcome:
        return Outcome(kind, text, step, self.model_calls, tuple(self.executions))

    async def _ask(self, choice: ToolChoice) -> ModelReply:
        self.model_calls += 1
        return await self.think(choice)

    def _answer(self, reply: ModelReply) -> Outcome | None:
        """The end that a reply is, whatever calls are in it; None when it says nothing."""
        if reply.silent and self._may_be_silent():
            return self.ended(OutcomeKind.SILENT, "")
        if reply.silent or is_blank(reply.text):
            return None
        return self.ended(OutcomeKind.ANSWERED, reply.text, self.model_calls)

    def _closed(self, done: Sequence[Execution]) -> Outcome | None:
        """The end that one of these calls is; those behind it were refused."""
        for each in done:
            if kind := self.closing(each):
                end = self.ended(kind, each.note, self.model_calls)
                return end if kind is OutcomeKind.PROPOSED else replace(end, spoken_by=each.call_id)
        return None

    def _stopped(self) -> Outcome:
        return self.ended(OutcomeKind.STOPPED, answers.stopped(self.executions))

    def _wrongly_silent(self, reply: ModelReply) -> bool:
        return reply.silent and not reply.calls and not self._may_be_silent()

    def _may_be_silent(self) -> bool:
        return self.may_be_silent() and not touched(self.executions)

    def _new(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """The calls that were not run before, by their ids, and none twice."""
        new: list[ToolCall] = []
        for call in calls:
            if call.id not in self.seen:
                self.seen.add(call.id)
                new.append(call)
        return new
