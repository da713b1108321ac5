"""The way of a turn: found when it begins, and what the operator is given for it before it is asked."""

from collections.abc import Sequence
from dataclasses import replace

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from threadline.conversations.contract import TalkTurn
    from threadline.conversations.model.conversation import Execution, Outcome, OutcomeKind
    from threadline.conversations.operator_contract import Begun, OperatorActivities, PassOn
    from threadline.models.model import ToolCall
    from threadline.operator.model import protocol
    from threadline.operator.model.protocol import ProtocolState, ToolRequest
    from threadline.operator.model.routing import Agent

from threadline.threads.calls import attempt, call

CLARIFYING = "slack.ask.clarifying.question"
_FAILED = (OutcomeKind.FAILED, OutcomeKind.SPEECHLESS)


class Way:
    """What is known of a turn's way; before it is found, the copilot's."""

    def __init__(self, turn: TalkTurn) -> None:
        self._turn = turn
        self.begun: Begun | None = None
        self.protocol: ProtocolState | None = None

    @property
    def agent(self) -> Agent:
        return self.begun.agent if self.begun else Agent.COPILOT

    @property
    def overhears(self) -> bool:
        """Whether nothing that it was begun with was addressed to the bot."""
        return self.begun is not None and self.begun.overhears

    async def find(self) -> Begun:
        return self._taken(await call(OperatorActivities.begin_turn, self._turn, summary="route the turn"))

    def falls_through(self, outcome: Outcome) -> bool:
        """Whether the operator is to go on where the conversational agent has failed and has changed nothing."""
        touched = any(not each.read_only for each in outcome.executions)
        return bool(self.begun and self.begun.falls_through and outcome.kind in _FAILED and not touched)

    async def pass_on(self, step: int) -> Begun:
        """Give the turn to the operator, behind the steps that it took so far."""
        request = PassOn(self._turn.thread, self._turn.turn, step)
        return self._taken(await call(OperatorActivities.pass_on, request, summary="hand the turn to the operator"))

    async def prepare(self) -> None:
        """Gather what the operator is to know, and have the request analysed; it can do without either."""
        await attempt(OperatorActivities.prepare_turn, self._turn, summary="gather the operator's context")
        await attempt(OperatorActivities.analyse_request, self._turn, summary="analyse the request")

    def lost(self, asked: ToolCall, execution: Execution) -> Execution:
        """A call that broke off, with the state behind it: nobody knows whether it was done."""
        if self.protocol is None:
            return execution
        return replace(execution, protocol=protocol.record_outcome(self.protocol, ToolRequest(asked.kind), None))

    def learn(self, executions: Sequence[Execution]) -> None:
        """Take over what calls have done, in whatever order they ended."""
        for each in executions:
            if self.protocol and each.protocol:
                self.protocol = self.protocol.joined(each.protocol)

    def _taken(self, begun: Begun) -> Begun:
        self.begun, self.protocol = begun, begun.protocol
        if begun.correlation_id:
            workflow.upsert_memo({"correlation_id": begun.correlation_id, "way": begun.about})
        return begun


def closing(execution: Execution) -> OutcomeKind | None:
    """The end of a turn that a call is; None when the turn goes on behind it."""
    if execution.protocol is None or not execution.protocol.over:
        return None
    if execution.protocol.proposed:
        return OutcomeKind.PROPOSED
    return OutcomeKind.ASKED if execution.tool == CLARIFYING else OutcomeKind.SPOKEN
