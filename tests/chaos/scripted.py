"""The scripted agent of cases and the scripted model of conversations, and the rates at which
faults hit them.
"""

import asyncio
import errno
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Self, cast

from temporalio.exceptions import ApplicationError

from tests.chaos.plan import seeded_random
from tests.support.decision_forms import decision_form
from threadline.cases.contract import TurnRequest
from threadline.cases.model import Action, TurnEnded
from threadline.db.agent_role import agent_database
from threadline.db.engine import Database
from threadline.errors import Transient
from threadline.forge import remotes
from threadline.forge.git import Git
from threadline.forge.mirrors import Mirrors
from threadline.investigator.activities import LiveAgentActivities
from threadline.investigator.store import AgentStore, AttachedFile, TurnClaim, TurnOutcome
from threadline.investigator.workspace import Workspaces, sweep_periodically
from threadline.models.model import (
    NO_REPLY,
    ChatModel,
    Completion,
    Message,
    ModelReply,
    Prompt,
    Role,
    ToolCall,
    ToolChoice,
    Usage,
)
from threadline.settings import AgentSettings, ModelSettings, RepositorySettings
from threadline.wiring import agent_worker

ROLE = "tester"
"""The role of the ordered work items."""
ASIDE = "Between us"
"""The beginning of a message that is for people and not for the bot."""
CREATE_ITEMS = "estimates_createWbsItems"
POST_SUMMARY = "slack_post_summary"
POSTED = "posted into the thread now"
"""A substring of the result of the tool call that ends an operator's turn."""
FULL_DISK = "full-disk"
"""The mount point of the full file system while the disk is full."""
_AT_GIT = 0.7
"""Share of the turns on a full disk that get as far as git."""
_READS_ON = 0.2
"""Share of the agent's turns that read the next message as well, as the real agent does through
its tool.
"""
_ACTIONS = {
    Action.POST_FINDINGS: 60,
    Action.ASK_REPORTER: 20,
    Action.RESOLVED: 15,
    Action.ESCALATE: 5,
}
_KEEPS_FINDINGS = 0.4
"""Share of later turns that only reply to developers, or say nothing."""
_OWN_WORD = re.compile(r"\bt\d\d+[mr]\d*\b")
_ORDER = re.compile(r"add (t\d\d[mr]\d*) to (chaos-\d+)")
_NOTE = re.compile(r"note (t\d\d[mr]\d*) of (rfp_chaos\d+)")
_SCOPE = re.compile(r"rfp_id_scope: (rfp_\w+)")


@dataclass(frozen=True)
class FaultRates:
    """Shares of attempts that fail. The workers read them from a file before each attempt."""

    seed: str = ""
    overloaded: float = 0.0
    broken_off: float = 0.0
    lost_before: float = 0.0
    """Turns of the agent whose worker is lost before the result is stored."""
    lost_after: float = 0.0
    disk_full: float = 0.0
    longest: float = 0.7
    """The longest duration of an agent's turn or a model call, in seconds."""
    outage_from: float = 0.0
    """The moment at which the model of conversations stops answering, in seconds since 1970."""
    outage_until: float = 0.0
    result_delay: float = 0.0
    """The longest delay of the result of a core activity, in seconds."""
    result_lost: float = 0.0
    """Share of the results of core activities that are lost after their commit."""

    @classmethod
    def read(cls, home: Path) -> Self:
        return cls(**json.loads((home / "chaos.json").read_text()))

    def write(self, home: Path) -> None:
        """Replace the file atomically, so that no worker reads half of it."""
        new = home / "chaos.json.new"
        new.write_text(json.dumps(asdict(self)))
        new.replace(home / "chaos.json")


class ScriptedActivities(LiveAgentActivities):
    """Runs a turn with the product's own claims, leases and heartbeats, but without a model.

    The turn reports the messages it has seen, chooses its action at random, and fails at the given
    rates.
    """

    def __init__(
        self, database: Database, workspaces: Workspaces, settings: RepositorySettings
    ) -> None:
        super().__init__(database, workspaces, cast(Any, None))  # no agent is used
        self._root = settings.workspace_root
        self._home = settings.home
        self._repositories = remotes.repositories_by_name(settings.repo)

    async def _work(
        self, request: TurnRequest, claim: TurnClaim, attached: list[AttachedFile]
    ) -> TurnEnded:
        rates = FaultRates.read(self._home)
        random = seeded_random(f"{rates.seed}:{claim.bug_id}:{claim.turn}:{claim.attempt}")
        if random.random() < rates.disk_full:
            await self._meet_full_disk(claim, random)
        self._write_workspace(claim)
        await asyncio.sleep(random.uniform(0.1, rates.longest))
        chance = random.random()
        for share, error in (
            (rates.lost_before, _worker_lost()),
            (rates.overloaded, Transient("The model is overloaded.", retry_after=0.5)),
            (rates.broken_off, Transient("The model's answer broke off.")),
        ):
            if chance < share:
                raise error
            chance -= share
        outcome = _outcome(request, claim, random)
        await self._store.finish(claim, outcome)
        if chance < rates.lost_after:
            raise _worker_lost()
        assert outcome.action
        return TurnEnded(outcome.action)

    async def _meet_full_disk(self, claim: TurnClaim, random: Random) -> None:
        """Fail as the product does: at the first file, or at the git step that creates or clones a
        mirror on the full disk.
        """
        if random.random() < _AT_GIT:
            folder = self._home / FULL_DISK / claim.bug_id
            mirrors = Mirrors(folder, self._repositories, Git())
            try:
                for name in self._repositories:
                    await mirrors.commit(
                        name
                    )  # works where the harness has no right to mount a full disk
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _write_workspace(self, claim: TurnClaim) -> None:
        folder = self._root / "cases" / claim.bug_id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "notes").write_text(f"turn {claim.turn}, attempt {claim.attempt}")


@asynccontextmanager
async def scripted_activities(
    settings: AgentSettings, repository: RepositorySettings, *, alone: bool
) -> AsyncIterator[tuple[ScriptedActivities, Database]]:
    """Replace `threadline.wiring.agent_worker.agent_activities`."""
    url = settings.agent_database_url.get_secret_value()
    pool_size = 2 * settings.agent_slots + 2
    async with agent_database(url, pool_size=pool_size) as database:
        workspaces = Workspaces(repository.workspace_root, repository.repo)
        # Removes the workspace of a run that was terminated before its cleanup.
        async with sweep_periodically(
            workspaces, AgentStore(database).open_cases, agent_worker.SWEEP
        ):
            yield ScriptedActivities(database, workspaces, repository), database


def _outcome(request: TurnRequest, claim: TurnClaim, random: Random) -> TurnOutcome:
    seen = [entry.seq for entry in claim.entries]
    (action,) = random.choices(list(_ACTIONS), list(_ACTIONS.values()))
    if action is Action.ASK_REPORTER and (
        request.unanswered or claim.questions >= request.limits.max_questions
    ):
        action = Action.POST_FINDINGS
    read = [max(seen) + 1] if seen and random.random() < _READS_ON else []
    keeps_findings = (
        claim.has_findings and action is Action.POST_FINDINGS and random.random() < _KEEPS_FINDINGS
    )
    result = {
        "summary": "" if keeps_findings else f"Turn {claim.turn} found this.",
        "reply": random.choice(["", f"Turn {claim.turn} replies."]),
        "clarification_question": "Which browser?",
        "for_reporter": "We know more about it now, and will tell you when it works again.",
        "seen": seen,
        "said": [entry.text for entry in claim.entries],
    }
    return TurnOutcome(action, result=result, read=read)


def _worker_lost() -> ApplicationError:
    return ApplicationError("the worker was shut down", type="WorkerShutdown")


class ScriptedChat(ChatModel):
    """Answers by `reply_to` in the product's own activities, and fails at the given rates."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._random = Random()  # noqa: S311 - no secret depends on it

    async def ask(self, prompt: Prompt, *, attempt: int = 1) -> Completion:
        rates = FaultRates.read(self._home)
        await asyncio.sleep(self._random.uniform(0.05, rates.longest))
        if rates.outage_from <= time.time() < rates.outage_until:
            raise Transient("The model could not be reached.")
        chance = self._random.random()
        if chance < rates.overloaded:
            raise Transient("The model is asked too often.", retry_after=0.5)
        if chance < rates.overloaded + rates.broken_off:
            raise Transient("The model's answer broke off.")
        return Completion(reply_to(prompt), Usage("scripted", input_tokens=len(prompt.messages)))


@asynccontextmanager
async def scripted_chat(settings: ModelSettings) -> AsyncIterator[ScriptedChat]:
    """Replace `threadline.wiring.conversations._model`."""
    yield ScriptedChat(Path(os.environ["THREADLINE_HOME"]))


def reply_to(prompt: Prompt) -> ModelReply:
    """Make the orders that were not made yet, stay silent on messages for people, or else name the
    messages that were read.
    """
    if prompt.form:
        claims = "refund" in json.loads(prompt.messages[0].content)["query"]
        decided = decision_form(
            "ESCALATE", sensitivity="claims", escalation_reason="A claim.", query_complexity=0.8
        )
        return ModelReply(json.dumps(decided if claims else decision_form()))
    said = _unanswered(prompt.messages)
    tools = {tool["name"] for tool in prompt.tools}
    may_call = prompt.tool_choice is ToolChoice.AUTO
    if may_call and POST_SUMMARY in tools and not _has_tried_to_post(prompt.messages):
        return ModelReply(calls=tuple(_operator_calls(prompt, said)))
    if may_call and CREATE_ITEMS in tools and (orders := _new_orders(_ORDER, prompt, said)):
        items = ((project, {"title": word, "role": ROLE, "days": 1}) for word, project in orders)
        return ModelReply(
            calls=tuple(
                _call(CREATE_ITEMS, project_id=project, items=[item]) for project, item in items
            )
        )
    if may_call and said and all(ASIDE in each for each in said):
        return ModelReply(NO_REPLY)
    return ModelReply(names(said))


def words_of(text: str) -> list[str]:
    """Return the words that identify messages of conversations, each once, in order."""
    return list(dict.fromkeys(_OWN_WORD.findall(text)))


def names(said: Sequence[str]) -> str:
    """Return an answer that names each message."""
    return f"I have read {', '.join(words_of(' '.join(said))) or 'nothing'}."


def _operator_calls(prompt: Prompt, said: Sequence[str]) -> Iterator[ToolCall]:
    """Load the RFP, change and journal the notes, and post, all in one reply."""
    if scope := _SCOPE.search(prompt.instructions):
        yield _call("opportunity_load", rfp_id=scope[1])
    for word, rfp_id in _new_orders(_NOTE, prompt, said):
        yield _call(
            "opportunity_patch",
            rfp_id=rfp_id,
            patch=json.dumps({"noted": {word: True}}),
            version=None,
        )
        yield _call("journal_append", rfp_id=rfp_id, text=word, kind="note")
    yield _call(POST_SUMMARY, text=names(said), rfp_id=None)


def _new_orders(
    pattern: re.Pattern[str], prompt: Prompt, said: Sequence[str]
) -> list[tuple[str, str]]:
    """Return each order's word and target, except for calls made already. A correction is no new
    order.
    """
    made = " ".join(call.arguments for message in prompt.messages for call in message.calls)
    found = (pattern.search(each) for each in said if not each.startswith("[Corrected]"))
    orders = dict.fromkeys((each[1], each[2]) for each in found if each)
    return [order for order in orders if f'"{order[0]}"' not in made]


def _call(name: str, **given: object) -> ToolCall:
    return ToolCall(f"call_{uuid.uuid4().hex}", name, json.dumps(given))


def _has_tried_to_post(dialogue: Sequence[Message]) -> bool:
    """Return whether the turn has tried to post and was refused: then it ends in words."""
    tried = False
    for each in dialogue:
        tried = (
            tried or any(call.name == POST_SUMMARY for call in each.calls)
        ) and each.role is not Role.USER
    return tried


def _unanswered(dialogue: Sequence[Message]) -> list[str]:
    """Return people's messages since the last answer. A silent reply is no answer."""
    said: list[str] = []
    for each in dialogue:
        if each.role is Role.USER:
            said.append(each.content)
        elif _is_answer(each):
            said.clear()
    return said


def _is_answer(said: Message) -> bool:
    if said.role is Role.TOOL:
        return POSTED in said.content
    return said.role is Role.ASSISTANT and not said.calls and NO_REPLY not in said.content
