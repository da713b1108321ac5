"""The sweeper: what must have a workflow has one, every open escalation its clock, every turn its answer."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import structlog
from temporalio import activity
from temporalio.client import WorkflowExecutionStatus

from threadline.cases.contract import Escalation, case_start, clock_start
from threadline.cases.message_store import CaseMessageStore
from threadline.cases.model import Severity, Target
from threadline.conversations.contract import conversation_start
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.handovers.contract import handover_start
from threadline.handovers.store import OpenHandover
from threadline.threads import addressing
from threadline.threads.catch_up_contract import Repair, RepairKind, SweepActivities, Swept, Unsaid
from threadline.threads.sweep_store import OpenCase, OpenEscalation, OpenTalk
from threadline.threads.workflow_client import WorkflowClient

PAGE = 100
"""Cases, conversations, escalations or missing answers that one activity looks at; hand-overs that it reads at once."""
GRACE = 900.0
"""Seconds that a finished turn has for its answer: Slack may be away, and the case's workflow waits for it."""

_log = structlog.get_logger(__name__)


_SETTLED = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)


class LiveSweepActivities(SweepActivities):
    """Args: `targets` and `tiers` are what an escalation's clock is started with; `quiet`: see `Sweep.open_talks`."""

    def __init__(
        self,
        database: Database,
        workflows: WorkflowClient,
        targets: Mapping[Severity, Target],
        tiers: int,
        quiet: float,
    ) -> None:
        self._database = database
        self._workflows = workflows
        self._targets = targets
        self._tiers = tiers
        self._quiet = quiet

    async def _is_running(self, workflow_id: str) -> bool:
        return await self._workflows.status(workflow_id) is WorkflowExecutionStatus.RUNNING

    @activity.defn
    async def sweep_cases(self, after: int) -> Swept:
        async with self._database.begin() as work:
            cases = await work.sweep.open_cases(after, PAGE)
        return Swept(_next(cases), await _each(cases, self._revive_case))

    async def _revive_case(self, case: OpenCase) -> bool:
        if await self._is_running(addressing.bug_workflow_id(case.thread)):
            return False
        async with self._database.begin() as work:
            if [each.id for each in await work.sweep.open_cases(case.id - 1, 1)] != [case.id]:
                return False  # it ended since the page was read, and its workflow with it
        await self._workflows.start(case_start(case.thread))
        _log.warning("case_revived", case=case.bug_id, reason="The case is open, and its workflow did not run.")
        return True

    @activity.defn
    async def sweep_conversations(self, after: int) -> Swept:
        async with self._database.begin() as work:
            talks = await work.sweep.open_talks(after, PAGE, self._quiet)
        revived = await _each(talks, self._revive_conversation)
        next_after = _next(talks)
        return Swept(next_after, revived if next_after else revived + await self._sweep_handovers())

    async def _revive_conversation(self, talk: OpenTalk) -> bool:
        if await self._is_running(addressing.conversation_workflow_id(talk.thread)):
            return False
        async with self._database.begin() as work:
            if await work.sweep.open_talks(talk.id - 1, 1, self._quiet) != [talk]:
                return False  # as with a case
        await self._workflows.start(conversation_start(talk.thread))
        _log.warning(
            "conversation_revived",
            slack_thread=talk.thread.key,
            reason="A message is not answered, and the workflow did not run.",
        )
        return True

    async def _sweep_handovers(self) -> int:
        """All of them, page by page."""
        revived, after = 0, 0
        while True:
            async with self._database.begin() as work:
                waiting = await work.handovers.open_after(after, PAGE)
            revived += await _each(waiting, self._revive_handover)
            if not (after := _next(waiting)):
                return revived

    async def _revive_handover(self, waiting: OpenHandover) -> bool:
        ref = waiting.ref
        if await self._is_running(addressing.handover_workflow_id(ref.thread, ref.turn)):
            return False
        async with self._database.begin() as work:
            handover = await work.handovers.of(ref)
        if handover is None or not handover.open:
            return False
        await self._workflows.start(handover_start(ref))
        _log.warning(
            "handover_revived", handover=ref.key, reason="The hand-over is open, and its workflow did not run."
        )
        return True

    @activity.defn
    async def sweep_clocks(self, after: int) -> Swept:
        async with self._database.begin() as work:
            escalations = await work.sweep.open_escalations(after, PAGE)
        return Swept(_next(escalations), await _each(escalations, self._revive_clock))

    async def _revive_clock(self, each: OpenEscalation) -> bool:
        if await self._workflows.status(addressing.sla_workflow_id(each.bug_id, each.number)) in _SETTLED:
            return False
        await self._start_clock(each)
        return True

    async def _start_clock(self, each: OpenEscalation) -> None:
        """From the moment when people were called: what was said since is not said again, since its keys are taken."""
        async with self._database.begin() as work:
            acknowledged = await CaseMessageStore(work.tx).developer_spoke_since(each.bug_id, each.started)
        target = self._targets[each.severity]
        escalation = Escalation(each.bug_id, each.number, target, self._tiers, each.started)
        await self._workflows.start(clock_start(escalation, acknowledged=acknowledged))
        _log.warning("sla_clock_revived", case=each.bug_id, escalation=each.number)

    @activity.defn
    async def find_missing_answers(self, after: int) -> Unsaid:
        async with self._database.begin() as work:
            missing = await work.sweep.missing_answers(GRACE, PAGE, after, owed=False)
        for answer in missing:
            _log.error("answer_missing", case=answer.bug_id, turn=answer.turn, kind=answer.kind)
        repairs = [Repair(each.bug_id, each.turn, RepairKind(each.kind)) for each in missing]
        return Unsaid(_next(missing), repairs)


class _Item(Protocol):
    @property
    def id(self) -> int: ...


_ItemT = TypeVar("_ItemT", bound=_Item)


def _next(page: Sequence[_Item]) -> int:
    return page[-1].id if len(page) == PAGE else 0


async def _each(page: Sequence[_ItemT], repair: Callable[[_ItemT], Awaitable[bool]]) -> int:
    """Repair what has to be; returns how many had. An item that fails is passed over: the next sweep finds it again."""
    repaired = 0
    for item in page:
        activity.heartbeat()
        try:
            repaired += await repair(item)
        except (Permanent, Transient) as error:
            _log.warning("sweep_item_failed", item=repr(item), reason=str(error))
        except Exception:  # noqa: BLE001 - one item that breaks must not keep the others from being repaired
            _log.exception("sweep_item_failed", item=repr(item))
    return repaired
