"""The operator around the loop, as the workflow of a conversation asks for it."""

from temporalio import activity

from threadline.activities.beating import beating
from threadline.activities.beginning import Beginning
from threadline.contracts.conversation import TalkTurn
from threadline.contracts.operator import Begun, OperatorActivities
from threadline.db.engine import Database
from threadline.domain.conversation import ConversationMarks


class LiveOperatorActivities(OperatorActivities):
    def __init__(self, database: Database, beginning: Beginning) -> None:
        self._database = database
        self._beginning = beginning

    @activity.defn
    async def begin_turn(self, turn: TalkTurn) -> Begun:
        return await self._beginning.begin(turn)

    @activity.defn
    async def pass_on(self, turn: TalkTurn) -> Begun:
        return await self._beginning.pass_on(turn)

    @activity.defn
    async def prepare_turn(self, turn: TalkTurn) -> str:
        async with beating():
            return ""

    @activity.defn
    async def analyse_request(self, turn: TalkTurn) -> ConversationMarks:
        async with self._database.begin() as work:
            return await work.conversations.marks(turn.thread)

    @activity.defn
    async def remember_turn(self, turn: TalkTurn) -> None:
        return None
