"""The operator around the loop, as the workflow of a conversation asks for it."""

from dataclasses import asdict, dataclass

from temporalio import activity

from threadline.conversations.contract import TalkTurn
from threadline.conversations.model.conversation import ConversationMarks
from threadline.conversations.operator_contract import Begun, OperatorActivities, PassOn
from threadline.conversations.request_texts import asked_in
from threadline.conversations.turn_memory import Remembering
from threadline.conversations.turn_plans import Plan
from threadline.conversations.turn_routing import Beginning
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.operator.context_preparation import Preparing
from threadline.threads.activity import heartbeating


@dataclass(frozen=True)
class _Asked:
    """What a turn is asked, by whom, and what is known of it so far."""

    plan: Plan
    user_id: str
    question: str


class LiveOperatorActivities(OperatorActivities):
    def __init__(
        self, database: Database, beginning: Beginning, preparing: Preparing, remembering: Remembering
    ) -> None:
        self._database = database
        self._beginning = beginning
        self._preparing = preparing
        self._remembering = remembering

    @activity.defn
    async def begin_turn(self, turn: TalkTurn) -> Begun:
        return await self._beginning.begin(turn)

    @activity.defn
    async def pass_on(self, request: PassOn) -> Begun:
        return await self._beginning.pass_on(request)

    @activity.defn
    async def prepare_turn(self, turn: TalkTurn) -> str:
        asked = await self._asked(turn)
        plan: Plan | None = asked.plan
        if not asked.plan.context:
            scope = asked.plan.route.scope.rfp_id
            async with heartbeating():
                made = await self._preparing.context(turn.thread, turn.turn, asked.user_id, asked.question, scope)
            layers = [asdict(each) for each in made.layers]
            async with self._database.begin() as work:
                await work.turn_plans.prepared(turn.thread, turn.turn, made.text, made.patterns, layers)
                plan = await work.turn_plans.of(turn.thread, turn.turn)  # what another try has gathered first stands
        there = [each for each in plan.layers if not each.get("missing")] if plan else []
        return ", ".join(f"{each['name']} {each['tokens']}" for each in there)

    @activity.defn
    async def analyse_request(self, turn: TalkTurn) -> ConversationMarks:
        asked = await self._asked(turn)
        said = ""
        if not asked.plan.analysis:
            async with heartbeating():
                said = await self._preparing.analyse(turn.thread, turn.turn, asked.question, asked.plan.context)
        async with self._database.begin() as work:
            if said:
                await work.turn_plans.analysed(turn.thread, turn.turn, said)
            return await work.conversations.marks(turn.thread)

    @activity.defn
    async def remember_turn(self, turn: TalkTurn) -> None:
        await self._remembering.remember(turn.thread, turn.turn)

    async def _asked(self, turn: TalkTurn) -> _Asked:
        thread, number = turn.thread, turn.turn
        async with self._database.begin() as work:
            plan = await work.turn_plans.of(thread, number)
            if plan is None:
                raise Permanent("This turn has no route yet, so no context can be gathered for it.")
            said = await asked_in(work, thread, number)
            askers = await work.conversations.askers(thread, number, 1)
        return _Asked(plan, askers[-1].user_id if askers else "", "\n".join(said))
