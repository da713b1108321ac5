"""An agent that returns the same findings at once: `python -m bench.parts.agent TEMPORAL
POSTGRES`.

It claims and finishes its turns in the database, as the real one does; it only skips the model.
"""

import asyncio
import sys

import uvloop
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from threadline.cases.contract import AgentActivities, TurnRequest
from threadline.cases.model import Action, TurnEnded
from threadline.db.agent_role import agent_database
from threadline.investigator.store import AgentStore, TurnOutcome
from threadline.threads.activity import ErrorInterceptor
from threadline.threads.activity_options import options_by_name
from threadline.threads.model import AGENTS_QUEUE

FOUND = TurnOutcome(
    Action.POST_FINDINGS, result={"summary": "found it", "title": "Cart total", "severity": "S2"}
)


class SwiftAgent(AgentActivities):
    def __init__(self, turns: AgentStore) -> None:
        self._turns = turns

    @activity.defn
    async def run_agent_investigation(self, request: TurnRequest) -> TurnEnded:
        return await self._run(request)

    @activity.defn
    async def run_continuation_investigation(self, request: TurnRequest) -> TurnEnded:
        return await self._run(request)

    @activity.defn
    async def cleanup_workspace(self, bug_id: str) -> None:
        """Do nothing: this agent has no workspace."""

    async def _run(self, request: TurnRequest) -> TurnEnded:
        claim = await self._turns.claim(
            request.bug_id, request.turn, request.attempt, request.session_id, lease_s=30
        )
        if isinstance(claim, TurnEnded):
            return claim
        await self._turns.finish(claim, FOUND)
        return TurnEnded(Action.POST_FINDINGS)


async def _work(temporal: str, database: str) -> None:
    client = await Client.connect(temporal, data_converter=pydantic_data_converter)
    async with agent_database(database, pool_size=20) as agents:
        agent = SwiftAgent(AgentStore(agents))
        async with Worker(
            client,
            task_queue=AGENTS_QUEUE,
            activities=[
                agent.run_agent_investigation,
                agent.run_continuation_investigation,
                agent.cleanup_workspace,
            ],
            interceptors=[ErrorInterceptor(options_by_name(AgentActivities))],
            max_concurrent_activities=50,
        ):
            sys.stdout.write('{"event": "agent_ready"}\n')
            sys.stdout.flush()
            await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_work(*sys.argv[1:3]))
