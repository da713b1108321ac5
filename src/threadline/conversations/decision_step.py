"""What the decision engine makes of a turn before its agent is asked, and behind it, when something went wrong."""

from collections.abc import Sequence
from dataclasses import replace

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from threadline.conversations.contract import TalkTurn
    from threadline.conversations.decision_contract import ROUNDS, DecisionActivities, Escalate, Round, Step
    from threadline.conversations.model import answers
    from threadline.conversations.model.conversation import Execution, ExecutionStatus, Outcome, OutcomeKind
    from threadline.decisions.model import Course, Reason

from threadline.threads.calls import attempt, call, fault_of

_ENDS = {Course.CLARIFY: OutcomeKind.CLARIFIED, Course.ESCALATE: OutcomeKind.ESCALATED}
_FAILED = (OutcomeKind.FAILED, OutcomeKind.SPEECHLESS)
_BROKEN = (ExecutionStatus.ERROR, ExecutionStatus.UNKNOWN)


class TurnDecision:
    """One turn's decision. `outcome` is there when the turn ends with it: a question, or a person takes over."""

    def __init__(self, turn: TalkTurn) -> None:
        self._turn = turn
        self._decides = False
        self._escalated = False
        self.outcome: Outcome | None = None

    async def decide(self, status: str) -> None:
        """Decide, look up and weigh, once more where what was found is not enough; Slack shows `status` meanwhile."""
        for number in range(1, ROUNDS + 1):
            step = await self._round(Round(self._turn.thread, self._turn.turn, number, status))
            self._decides = step.decides
            if step.course is not Course.RETRIEVE_MORE:
                break
        if kind := _ENDS.get(step.course or Course.PROCEED):
            self.outcome = Outcome(kind, "")

    async def behind(self, outcome: Outcome) -> Outcome:
        """What becomes of a turn that has gone wrong: a person takes over, and nothing of it is lost."""
        reason = _trouble(outcome) if self._decides else None
        if reason is None:
            return outcome
        request = Escalate(self._turn.thread, self._turn.turn, reason)
        if await attempt(DecisionActivities.escalate, request, summary=f"a person takes over: {reason}"):
            return outcome  # its own words say what is wrong
        self._escalated = True
        if outcome.kind not in _FAILED:
            return outcome
        return replace(outcome, kind=OutcomeKind.ESCALATED, text=answers.until_then(outcome.executions))

    def ends_with_a_person(self, outcome: Outcome) -> bool:
        """Whether somebody is to take the turn over, now that it is settled."""
        return outcome.kind is OutcomeKind.ESCALATED or (self._escalated and outcome.kind is not OutcomeKind.STOPPED)

    async def _round(self, asked: Round) -> Step:
        try:
            step = await call(DecisionActivities.decide, asked, summary="decide what to do")
            if step.course is not None:
                return step
            await call(DecisionActivities.look_up, asked, summary=f"look up {step.about}")
            return await call(DecisionActivities.weigh, asked, summary="rate the confidence")
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("decision_failed", extra={"reason": fault_of(error).message})
            return await call(DecisionActivities.give_up_deciding, asked, summary="continue without a decision")


def _trouble(outcome: Outcome) -> Reason | None:
    if outcome.kind in _FAILED:
        return Reason.RESPONSE_ERROR
    return Reason.TOOL_FAILURE if _critical_failure(outcome.executions) else None


def _critical_failure(executions: Sequence[Execution]) -> bool:
    """Whether a tool that matters has failed, and not worked when the model asked for it again. Another call of the
    same reply mends nothing."""
    broken: dict[str, int] = {}
    for each in executions:
        if each.critical and each.status in _BROKEN:
            broken[each.tool] = each.step
        elif each.critical and broken.get(each.tool, each.step) < each.step:
            del broken[each.tool]
    return bool(broken)
