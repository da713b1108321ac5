"""The sweeps of cases: open cases run, escalations have their clock, and what a turn came to is posted."""

from collections.abc import Mapping, Sequence

import structlog

from threadline.cases.contract import Escalation, TurnRef, case_start, clock_start
from threadline.cases.model import Severity, SlaTarget
from threadline.cases.posts import LiveCasePostActivities
from threadline.cases.store.lists import CaseLists, MissingAnswer, OpenCase, OpenEscalation
from threadline.db.engine import Database, Transaction
from threadline.threads.sweep import Sweep, WorkflowSweep
from threadline.threads.workflow_client import WorkflowClient, WorkflowStart

GRACE = 900.0
"""Seconds that a finished turn has for its answer: Slack may be away, and the case's workflow waits for it."""

_log = structlog.get_logger(__name__)


class OpenCases(WorkflowSweep[OpenCase]):
    name = "cases"

    async def find(self, tx: Transaction, after: int, limit: int) -> Sequence[OpenCase]:
        return await CaseLists(tx).open_cases(after, limit)

    def start_of(self, item: OpenCase) -> WorkflowStart:
        return case_start(item.thread)


class SlaClocks(WorkflowSweep[OpenEscalation]):
    """A clock counts from the moment when people were called; its posts have keys, so it repeats none.

    Args:
        targets, tiers: what an escalation's clock is started with.
    """

    name = "SLA clocks"
    restart_completed = False

    def __init__(
        self, database: Database, workflows: WorkflowClient, targets: Mapping[Severity, SlaTarget], tiers: int
    ) -> None:
        super().__init__(database, workflows)
        self._targets = targets
        self._tiers = tiers

    async def find(self, tx: Transaction, after: int, limit: int) -> Sequence[OpenEscalation]:
        return await CaseLists(tx).open_escalations(after, limit)

    def start_of(self, item: OpenEscalation) -> WorkflowStart:
        target = self._targets[item.severity]
        escalation = Escalation(item.bug_id, item.number, target, self._tiers, item.started)
        return clock_start(escalation, acknowledged=item.acknowledged)


class MissingAnswers(Sweep[MissingAnswer]):
    """Answers that no workflow is about to post. Each post has a key, so what was posted by now is not posted twice."""

    name = "missing answers"
    waits_for_slack = True

    def __init__(self, posts: LiveCasePostActivities) -> None:
        self._posts = posts

    async def find(self, tx: Transaction, after: int, limit: int) -> Sequence[MissingAnswer]:
        return await CaseLists(tx).missing_answers(GRACE, limit, after, owed=False)

    async def repair(self, item: MissingAnswer) -> bool:
        _log.error("answer_missing", case=item.bug_id, turn=item.turn, kind=item.kind)
        turn = TurnRef(item.bug_id, item.turn)
        if item.kind == "question":
            await self._posts.post_clarification_question(turn)
        else:
            await self._posts.post_findings(turn)
        return True
