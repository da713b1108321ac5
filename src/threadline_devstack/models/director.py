"""The director: chooses the script for a request, remembers what was asked, holds replies, and fails when told to."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from threadline_devstack.models.exchanges import script_for
from threadline_devstack.models.request import ModelRequest
from threadline_devstack.models.script import (
    Holds,
    Script,
    ScriptAnswer,
    ScriptFailure,
    ScriptInterruption,
    ScriptReply,
    ScriptTurn,
    play,
)

logger = logging.getLogger(__name__)

LOG_SIZE = 500
"""Requests that the log keeps; older ones are forgotten, since each holds a whole conversation."""
COUNTED_STEPS = 10_000
"""Steps whose requests are counted; the one asked for least recently is forgotten, and counted from 1 again."""

Predicate = Callable[[ModelRequest], bool]


@dataclass
class LoggedRequest:
    """One request for a step and its answer, which is None as long as it is held or being written."""

    conversation: ModelRequest
    asked: int
    answer: ScriptAnswer | None = None

    def as_json(self, *, messages: bool) -> dict[str, Any]:
        """What the control API tells of it, with the conversation's messages on demand."""
        told = {
            "api": self.conversation.api,
            "model": self.conversation.model,
            "bug_id": self.conversation.bug_id,
            "step": len(self.conversation.steps),
            "asked": self.asked,
            "tools": sorted(self.conversation.tools),
            "answer": None
            if self.answer is None
            else {type(self.answer).__name__.removeprefix("Script").lower(): vars(self.answer)},
        }
        if messages:
            told |= {"system": self.conversation.system, "messages": list(self.conversation.messages)}
            told |= {"head": self.conversation.head, "tool_choice": self.conversation.tool_choice}
        return told


@dataclass
class _Fault:
    answer: ScriptFailure | ScriptInterruption | None
    left: int
    bug_id: str
    api: str
    seconds: float = 0.0
    form: str = ""

    def meets(self, conversation: ModelRequest) -> bool:
        of_case = self.bug_id in {"", conversation.bug_id} and self.api in {"", conversation.api}
        return self.left > 0 and of_case and self.form == conversation.form


@dataclass(repr=False)
class Director:
    """Answers requests.

    Where no registered script wants to, the exchanges of scripts/*.yaml play; `pace` is a pause in seconds before every
    reply, so that people can watch; `api_key`, when given, is the only one that is let in. Every reply to a case stops
    at the hold `investigating:<bug id>` as long as that is armed, and every reply over OpenAI's APIs at `conversing`,
    so that a demo can write while a turn runs for certain. `refused` are the answers to requests that broke a rule of
    OpenAI's APIs; they are not in the log. Requests that want an answer in a form have a log, scripts and faults of
    their own, which name it.
    """

    pace: float = 0.0
    api_key: str = ""
    log: deque[LoggedRequest] = field(default_factory=lambda: deque(maxlen=LOG_SIZE), init=False)
    forms: deque[LoggedRequest] = field(default_factory=lambda: deque(maxlen=LOG_SIZE), init=False)
    refused: deque[ScriptFailure] = field(default_factory=lambda: deque(maxlen=LOG_SIZE), init=False)
    holds: Holds = field(default_factory=Holds, init=False)
    _scripts: list[tuple[Predicate, Script]] = field(default_factory=list, init=False)
    _asked: dict[str, int] = field(default_factory=dict, init=False)
    _faults: list[_Fault] = field(default_factory=list, init=False)

    def script(
        self,
        script: Script,
        *,
        bug_id: str = "",
        report: str = "",
        form: str = "",
        when: Predicate = lambda conversation: True,
    ) -> None:
        """Let `script` play where all that is given holds; the last script that was registered wins.

        Args:
            bug_id: the case, such as `BUG-12`.
            report: text that is in one of the conversation's prompts.
            form: the form in which the answer is wanted.
            when: anything else about the request.
        """

        def wanted(conversation: ModelRequest) -> bool:
            return (
                bug_id in {"", conversation.bug_id}
                and form == conversation.form
                and any(report in prompt for prompt in conversation.prompts)
                and when(conversation)
            )

        self._scripts.append((wanted, script))

    def fail_next(
        self,
        count: int = 1,
        *,
        status: int = 529,
        retry_after: float | None = None,
        bug_id: str = "",
        api: str = "",
        code: str = "",
        form: str = "",
    ) -> None:
        """Answer the next `count` requests with an HTTP error, whatever their script says.

        Args:
            count: how many.
            status: of the answers.
            retry_after: seconds, as the header says them.
            bug_id: only requests of this case.
            api: only requests over this wire: `messages`, `responses` or `chat`.
            code: OpenAI's name for the error, such as `context_length_exceeded`.
            form: only requests that want their answer in this form, which others spare.
        """
        failure = ScriptFailure(status, retry_after=retry_after, code=code)
        self._faults.append(_Fault(failure, count, bug_id, api, form=form))

    def break_next(self, count: int = 1, *, bug_id: str = "", api: str = "") -> None:
        """Begin the next `count` replies, and close their connections in the middle."""
        self._faults.append(_Fault(ScriptInterruption(), count, bug_id, api))

    def slow_next(self, count: int = 1, *, seconds: float, bug_id: str = "", api: str = "") -> None:
        """Let the next `count` replies come `seconds` later."""
        self._faults.append(_Fault(None, count, bug_id, api, seconds))

    def cached(self, conversation: ModelRequest) -> int:
        """The tokens at the beginning of this request that an earlier one had, as a provider's cache would count."""
        return max(
            (each.conversation.tokens for each in self.log if conversation.continues(each.conversation)), default=0
        )

    async def release(self, name: str) -> None:
        """Let every reply pass the hold `name`, now and later."""
        await self.holds.release(name)

    async def reached(self, name: str) -> None:
        """Return as soon as a reply waits at the hold `name`."""
        await self.holds.reached(name)

    async def answer(self, conversation: ModelRequest) -> ScriptAnswer:
        """The next step of this conversation; a script that fails becomes a 400 with its words."""
        if conversation.api == "messages" and not conversation.tools:
            # The CLI's own small questions (a title, a topic) go without tools and belong to no script.
            return ScriptReply("Bug investigation")
        exchange = LoggedRequest(conversation, self._count(conversation.fingerprint))
        (self.forms if conversation.form else self.log).append(exchange)
        fault = next((fault for fault in self._faults if fault.meets(conversation)), None)
        if fault:
            fault.left -= 1
            if not fault.left:
                self._faults.remove(fault)
            await asyncio.sleep(fault.seconds)
        exchange.answer = (fault and fault.answer) or await self._play(conversation, exchange.asked)
        return exchange.answer

    def _count(self, fingerprint: str) -> int:
        """How often this step was asked for, this time included."""
        times = self._asked.pop(fingerprint, 0) + 1
        self._asked[fingerprint] = times
        if len(self._asked) > COUNTED_STEPS:
            del self._asked[next(iter(self._asked))]
        return times

    async def _play(self, conversation: ModelRequest, asked: int) -> ScriptAnswer:
        hold = f"investigating:{conversation.bug_id}" if conversation.api == "messages" else "conversing"
        if conversation.form:
            hold = f"filling-in:{conversation.form}"
        try:
            await asyncio.sleep(self.pace)
            await self.holds.wait_if_armed(hold)
            registered = (script for wanted, script in reversed(self._scripts) if wanted(conversation))
            script = next(registered, None) or script_for(conversation)
            return await play(script, ScriptTurn(conversation, self.holds, asked))
        except Exception as exc:
            logger.exception("model_script_failed")
            return ScriptFailure(400, f"The model's script failed: {exc}")
