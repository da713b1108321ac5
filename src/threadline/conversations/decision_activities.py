"""The decision engine, as the workflow of a conversation asks for it."""

from temporalio import activity

from threadline.conversations.decide import Deciding
from threadline.conversations.decision_contract import DecisionActivities, Escalate, Round, Step
from threadline.conversations.status import showing_status
from threadline.slack.client import Slack
from threadline.threads.activity import heartbeating


class LiveDecisionActivities(DecisionActivities):
    def __init__(self, deciding: Deciding, slack: Slack) -> None:
        self._deciding = deciding
        self._slack = slack

    @activity.defn
    async def decide(self, asked: Round) -> Step:
        async with heartbeating(), showing_status(self._slack, asked.thread, asked.status):
            return await self._deciding.decide(asked, activity.info().attempt)

    @activity.defn
    async def look_up(self, asked: Round) -> str:
        async with heartbeating():
            return await self._deciding.look_up(asked)

    @activity.defn
    async def weigh(self, asked: Round) -> Step:
        async with heartbeating():
            return await self._deciding.weigh(asked, activity.info().attempt)

    @activity.defn
    async def give_up_deciding(self, asked: Round) -> Step:
        return await self._deciding.give_up(asked)

    @activity.defn
    async def escalate(self, request: Escalate) -> None:
        await self._deciding.escalate(request)
