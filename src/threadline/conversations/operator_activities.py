"""The operator around the loop, as the workflow of a conversation asks for it."""

from temporalio import activity

from threadline.conversations.contract import TalkTurn
from threadline.conversations.operator_contract import Begun, OperatorActivities, PassOn
from threadline.conversations.turn_routing import Beginning


class LiveOperatorActivities(OperatorActivities):
    def __init__(self, beginning: Beginning) -> None:
        self._beginning = beginning

    @activity.defn
    async def begin_turn(self, turn: TalkTurn) -> Begun:
        return await self._beginning.begin(turn)

    @activity.defn
    async def pass_on(self, request: PassOn) -> Begun:
        return await self._beginning.pass_on(request)
