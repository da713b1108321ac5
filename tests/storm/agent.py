"""The agent of a storm: it says nothing but what it has seen, and now and then its worker is lost."""

import asyncio
from random import Random

from temporalio import activity
from temporalio.exceptions import ApplicationError

from threadline.contracts.bug import AgentActivities, TurnEnded, TurnRequest
from threadline.db.agent_turns import AgentTurns, Claim, TurnOutcome
from threadline.domain.bug import Action

INTERRUPTED = 0.1
"""Share of the attempts that end with the loss of their worker: half before they commit, half after it."""
READS_ON = 0.2
"""Share of the turns that read the next message as well, as an agent does through its tool."""

_ACTIONS = {Action.POST_FINDINGS: 60, Action.ASK_REPORTER: 20, Action.RESOLVED: 15, Action.ESCALATE: 5}


class StormAgent(AgentActivities):
    def __init__(self, turns: AgentTurns, random: Random) -> None:
        self._turns = turns
        self._random = random

    @activity.defn
    async def run_agent_investigation(self, request: TurnRequest) -> TurnEnded:
        return await self._run(request)

    @activity.defn
    async def run_continuation_investigation(self, request: TurnRequest) -> TurnEnded:
        return await self._run(request)

    @activity.defn
    async def cleanup_workspace(self, bug_id: str) -> None:
        """There is none."""

    async def _run(self, request: TurnRequest) -> TurnEnded:
        claim = await self._turns.claim(request.bug_id, request.turn, request.attempt, request.session_id, lease_s=30)
        if isinstance(claim, TurnEnded):
            return claim
        fate = self._random.random()
        await asyncio.sleep(self._random.uniform(0.1, 0.8))
        if fate < INTERRUPTED / 2:
            raise _lost()
        outcome = self._outcome(request, claim)
        await self._turns.finish(claim, outcome)
        if fate < INTERRUPTED:
            raise _lost()
        assert outcome.action
        return TurnEnded(outcome.action)

    def _outcome(self, request: TurnRequest, claim: Claim) -> TurnOutcome:
        seen = [entry.seq for entry in claim.entries]
        (action,) = self._random.choices(list(_ACTIONS), list(_ACTIONS.values()))
        if action is Action.ASK_REPORTER and (request.unanswered or claim.questions >= request.limits.max_questions):
            action = Action.POST_FINDINGS
        read = [max(seen) + 1] if seen and self._random.random() < READS_ON else []
        result = {"summary": f"turn {claim.turn}", "clarification_question": "Which browser?", "seen": seen}
        return TurnOutcome(action, result=result, read=read)


def _lost() -> ApplicationError:
    return ApplicationError("the worker was shut down", type="WorkerShutdown")
