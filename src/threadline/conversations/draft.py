"""A draft: the first model call of a turn, made while the turn is decided.

    decide  ----------->  if the decision adds nothing to the prompt: keep the draft
    draft   ------------------>

The asker then waits for one model call instead of two. A draft is prepared in a transaction that
is rolled back; only the failure of its call is stored at once. It becomes the reply of the turn's
first step only if the call, prepared again after the decision, has exactly the same prompt. An
edit, a deletion or a decision that changes the prompt therefore drops the draft, and `think` asks
the model. Messages that arrive meanwhile wait for the next step, as they do during a `think`. No
tool runs before the decision is known.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import structlog

from threadline.conversations.call_input import ModelCallInput, People, known_people, prepare_in
from threadline.conversations.contract import ThinkRequest
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.failed_calls import failures_kept
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.think import cleaned, fixed_reply, prompt_of, record_reply
from threadline.errors import InternalError, Permanent, Transient
from threadline.models.errors import MODEL_FAULT
from threadline.models.model import ChatModel, Completion, Prompt, ToolChoice

_ending = set[asyncio.Task[None]]()
"""Drafts whose call or whose cost is not stored yet: the event loop itself keeps no reference to a
task. A worker that stops meanwhile loses the cost.
"""
_log = structlog.get_logger(__name__)


class Outdated(Exception):
    """The call has another prompt than its draft, or a reply already."""


@dataclass(frozen=True)
class _DraftedCall:
    """The call of a draft.

    - `deps`: with the time of the draft, which is part of the prompt;
    - `people`: the users for whose names Slack was asked;
    - `answer`: the model's answer, and the milliseconds that it took.
    """

    deps: ConversationDeps
    request: ThinkRequest
    people: People
    prompt: Prompt
    answer: asyncio.Task[tuple[Completion, int]]


class Draft:
    """The draft of a turn. The call may turn out not to need the model; then there is none.

    - `asked`: the model was asked;
    - `kept`: the reply is recorded as that of the turn's first step.
    """

    def __init__(self, deps: ConversationDeps, turn: ConversationTurn) -> None:
        self.asked = False
        self.kept = False
        self._turn = turn
        self._beginning = asyncio.create_task(self._begin(deps))
        self._recording: asyncio.Task[None] | None = None

    async def _begin(self, deps: ConversationDeps) -> _DraftedCall | None:
        now = deps.clock()
        deps = replace(deps, clock=lambda: now)
        request = ThinkRequest(self._turn.thread, self._turn.turn, 1, ToolChoice.AUTO)
        question, people = await _rehearse(deps, request)
        if deps.model is None or question is None or fixed_reply(request, question):
            return None
        request = replace(request, step=question.step)
        prompt = prompt_of(deps, request, question)
        self.asked = True
        answer = asyncio.create_task(_ask(deps, deps.model, request, prompt))
        return _DraftedCall(deps, request, people, prompt, answer)

    async def keep(self) -> None:
        """Wait for the draft, and record it, if it is still the reply to the same prompt. Whatever
        keeps it from that, the turn goes on, and asks the model.
        """
        self._recording = asyncio.create_task(self._record())
        try:
            # Shielded: the cost of a call that has begun is stored even if the turn stops.
            await asyncio.shield(self._recording)
        except Exception as error:  # noqa: BLE001 - a draft is an attempt, and `think` repeats it
            self._log_failure(error)

    async def _record(self) -> None:
        """Record the reply of the turn's first step.

        Raises:
            Outdated: The prompt has changed, the step has a reply, or the turn has to stop.
        """
        call = await self._beginning
        if call is None:
            return
        answer, took = await call.answer
        request = call.request
        async with call.deps.database.begin() as tx:
            question = await prepare_in(call.deps, tx, request, call.people)
            if not isinstance(question, ModelCallInput) or question.kept:
                raise Outdated
            if question.step != request.step or question.snapshot.stop_due:
                raise Outdated
            if prompt_of(call.deps, request, question) != call.prompt:
                raise Outdated
            reply = cleaned(answer, question)
            if await record_reply(call.deps, tx, request, reply, answer, took) is None:
                raise Outdated
        self.kept = True

    def end(self) -> None:
        """Let a call that has begun end in the background, and store its cost unless the reply was
        kept. A call that has not begun is not made.
        """
        if not self._beginning.done():
            self._beginning.cancel()
        ending = asyncio.create_task(self._store_cost())
        _ending.add(ending)
        ending.add_done_callback(_ending.discard)

    async def _store_cost(self) -> None:
        if self._recording is not None:
            await asyncio.wait([self._recording])
        await asyncio.wait([self._beginning])
        if self.kept or not self.asked:
            return
        try:
            call = await self._beginning
            if call is None:
                return
            answer, took = await call.answer
            of = (call.request.thread, call.request.turn, call.request.step)
            async with call.deps.database.begin() as tx:
                await ConversationStore(tx).add_usage(*of, "draft", answer.usage, took)
        except Exception as error:  # noqa: BLE001 - nobody waits for this task
            if self._recording is None:  # else `keep` has logged it
                self._log_failure(error)

    def _log_failure(self, error: Exception) -> None:
        log = _log.bind(slack_thread=self._turn.thread.key, turn=self._turn.turn)
        known = isinstance(error, Outdated | Permanent | Transient)
        if known and not isinstance(error, InternalError):
            log.info("draft_dropped", reason=str(error) or type(error).__name__)
        else:
            log.error("draft_failed", exc_info=error)


@asynccontextmanager
async def drafting(deps: ConversationDeps, turn: ConversationTurn) -> AsyncIterator[Draft]:
    """Draft the answer to a turn that the block decides about."""
    draft = Draft(deps, turn)
    try:
        yield draft
    finally:
        draft.end()


async def _rehearse(
    deps: ConversationDeps, request: ThinkRequest
) -> tuple[ModelCallInput | None, People]:
    """Prepare the call, and roll back. None if it must not be made, or needs a summary first."""
    people: People = {}
    while True:
        async with deps.database.begin_undone() as tx:
            prepared = await prepare_in(deps, tx, request, people)
        if isinstance(prepared, ModelCallInput):
            return (prepared if _may_ask(prepared) else None), people
        if prepared.older:
            return None, people
        people = await known_people(deps, people, prepared.people)


def _may_ask(question: ModelCallInput) -> bool:
    """Whether the step has no reply yet, no stop was requested, and all files are fetched."""
    snapshot = question.snapshot
    return question.kept is None and not (snapshot.stop_due or snapshot.files_due)


async def _ask(
    deps: ConversationDeps, model: ChatModel, request: ThinkRequest, prompt: Prompt
) -> tuple[Completion, int]:
    """Ask once. A failure is recorded as that of a draft, and reported to nobody: `think` repeats
    the call.
    """
    begun = time.monotonic()
    of = (request.thread, request.turn, request.step)
    async with failures_kept(deps.database, *of, "draft"):
        answer = await model.ask(prompt)
    took = round((time.monotonic() - begun) * 1000)
    await deps.outbox.recovery.works(MODEL_FAULT)
    return answer, took
