"""What is said in Slack. Every post has a business key, so that saying it again says nothing new.

What goes to the thread of a report is read by its reporter: of what an agent or a failure says, nothing gets there but
what `cases/audience.py` lets through, and the question.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog
from temporalio import activity

from threadline.cases import activities as cases
from threadline.cases import audience, case_row, sentences
from threadline.cases.case_queries import CaseRecord
from threadline.cases.contract import (
    Escalation,
    Notice,
    NoticeKind,
    Reactions,
    SlackActivities,
    SlaNotice,
    StatusChange,
    TurnRef,
)
from threadline.cases.message_reads import Conversation
from threadline.cases.model import ESCALATION, SUMMARY, Action, CaseStatus, Marks, Reason, Severity, case_owner
from threadline.cases.sla import DEFAULT_TARGETS, Target
from threadline.cases.sla_rows import SlaEvents
from threadline.cases.turn_rows import TurnRecord
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.slack import formatting
from threadline.slack.client import Slack
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.outbox import Outbox, Post, add_reactions
from threadline.threads.store import PostStore

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Places:
    """Where things are said, and who is called.

    `team` and `bot_user` are Slack's ids of the workspace and of the bot; `tiers` holds user and group ids by tier of
    on-call, the first to be called first.
    """

    team: str
    bot_user: str
    summaries: str
    escalations: str
    tiers: Sequence[Sequence[str]] = ()
    targets: Mapping[Severity, Target] = field(default_factory=lambda: DEFAULT_TARGETS)

    def target(self, severity: Severity) -> Target:
        return self.targets[severity]

    def on_call(self, tier: int) -> Sequence[str]:
        return self.tiers[min(tier, len(self.tiers) - 1)] if self.tiers else ()


class LiveSlackActivities(SlackActivities):
    """Args: `slack` for reactions; everything else is said through `posts`."""

    def __init__(self, database: Database, slack: Slack, outbox: Outbox, places: Places) -> None:
        self._database = database
        self._slack = slack
        self._outbox = outbox
        self._places = places

    # -- saying ------------------------------------------------------------------------------------------------------

    @activity.defn
    async def post_notice(self, notice: Notice) -> None:
        case = await self._case(notice.bug_id)
        if notice.detail:  # nobody is shown it where there is no summary thread, or where that cannot be written to
            _log.warning("case_problem_reported", case=notice.bug_id, kind=notice.kind, reason=notice.detail)
        key = f"{notice.kind}:{notice.ordinal}"
        if notice.kind in _FOR_DEVELOPERS and case.summary:
            await self._notify(case, case.summary, key, notice, notice.detail)
            return
        if notice.kind is NoticeKind.NOBODY_CALLED and case.summary:
            with contextlib.suppress(Permanent):  # then the reporter is the only one who can be told
                await self._notify(case, case.summary, f"{key}:why", notice, notice.detail)
        await self._notify(case, case.thread, key, notice)

    async def _notify(self, case: CaseRecord, where: Thread, key: str, notice: Notice, detail: str = "") -> None:
        words = sentences.notice(notice.kind, notice.bug_id, detail)
        await self._say(case, where, key, formatting.notice(words))

    @activity.defn
    async def post_clarification_question(self, turn: TurnRef) -> None:
        case, record = await self._case(turn.bug_id), await self._turn(turn)
        asked = str(record.result.get("clarification_question", ""))
        rendered = formatting.question(case.bug_id, case.reporter_id, asked)
        await self._say(case, case.thread, f"turn:{turn.turn}:question", rendered, kind="question", words=asked)

    async def present(self, turn: TurnRef) -> Marks | None:
        """A turn's findings, in a summary thread that is opened for them when there is none; see the contract."""
        await self.create_summary_thread(turn.bug_id)
        return await self.post_investigation_results(turn)

    @activity.defn
    async def create_summary_thread(self, bug_id: str) -> None:
        case = await self._case(bug_id)
        if case.summary:
            return
        rendered = formatting.notice(sentences.SUMMARY_ROOT, headline=f"{bug_id}: {case.title}")
        opens = case_owner(case.thread, SUMMARY)
        await self._outbox.publish(Post(f"{bug_id}:summary", self._places.summaries, None, rendered, opens))

    @activity.defn
    async def post_investigation_results(self, turn: TurnRef) -> Marks | None:
        case, record = await self._case(turn.bug_id), await self._turn(turn)
        async with self._database.begin() as work:
            fix = await work.pull_requests.of(turn.bug_id)
        found = _findings(case, record, fix.url if fix else None)
        words = f"{found.summary}\n{found.root_cause}".strip()
        rendered = formatting.findings(found)
        await self._say(case, _summary(case), f"turn:{turn.turn}:findings", rendered, kind="findings", words=words)
        if record.action is Action.POST_FINDINGS:  # an escalation and an end have posts of their own
            await self._tell_reporter(case, record)
        return await cases.take_step(self._database, _from_now(turn.then)) if turn.then else None

    async def _tell_reporter(self, case: CaseRecord, record: TurnRecord) -> None:
        """What the reporter may read of a turn. The findings stand, also when their thread cannot be written to."""
        if not (told := await self._told(case, record)):
            return
        rendered, key = formatting.notice(told), f"turn:{record.turn}:told"
        try:
            await self._say(case, case.thread, key, rendered, kind="told", words=told)
        except Permanent as error:
            _log.error("reporter_not_notified", case=case.bug_id, turn=record.turn, reason=str(error))

    @activity.defn
    async def escalate_to_humans(self, turn: TurnRef) -> Escalation:
        case, record = await self._case(turn.bug_id), await self._turn(turn)
        why = str(record.result.get("summary", "")) or record.failure
        root = formatting.notice(
            sentences.escalation(why),
            mentions=tuple(self._places.on_call(0)),
            headline=f"{case.bug_id} needs a person: {case.title}",
        )
        await self._open_escalation(case, case.escalations, root)
        words = sentences.with_people(case.bug_id, await self._told(case, record))
        await self._say(case, case.thread, f"escalation:{case.escalations}:told", formatting.notice(words))
        target = self._places.target(case.severity)
        return Escalation(case.bug_id, case.escalations, target, len(self._places.tiers))

    async def _open_escalation(self, case: CaseRecord, number: int, root: tuple[Rendered, ...]) -> None:
        """An escalation has a thread of its own, or the case's summary thread when both share a channel."""
        key = f"{case.bug_id}:escalation:{number}"
        channel = self._places.escalations
        if case.summary and case.summary.channel == channel:
            await self._outbox.publish(Post(key, channel, case.summary.ts, root))
        else:
            await self._outbox.publish(Post(key, channel, None, root, case_owner(case.thread, ESCALATION)))

    @activity.defn
    async def report_sla_event(self, notice: SlaNotice) -> bool:
        case = await self._case(notice.bug_id)
        async with self._database.begin() as work:
            root = await PostStore(work.tx).ts_of(f"{notice.bug_id}:escalation:{notice.escalation}")
            marks = await work.cases.marks_of(notice.bug_id)
        if not (root and marks.escalated and marks.escalations == notice.escalation):
            return False
        shared = case.summary and case.summary.channel == self._places.escalations
        thread_ts = case.summary.ts if case.summary and shared else root
        mentions = tuple(self._places.on_call(notice.tier))
        rendered = formatting.notice(sentences.sla(notice.bug_id, notice.kind), mentions=mentions)
        key = f"{notice.bug_id}:sla:{notice.escalation}:{notice.ordinal}"

        async def is_open(tx: Transaction) -> bool:
            return (await case_row.marks(tx, notice.bug_id)).status is not CaseStatus.RESOLVED

        async def record(tx: Transaction, ts: str) -> None:
            event = (notice.escalation, notice.ordinal, notice.kind, notice.tier)
            await SlaEvents(tx).record(notice.bug_id, *event)

        post = Post(key, self._places.escalations, thread_ts, rendered, valid_if=is_open, on_posted=record)
        return bool(await self._outbox.publish(post))

    @activity.defn
    async def post_closing(self, bug_id: str) -> None:
        case = await self._case(bug_id)
        if not case.close_reason:
            return  # reopened meanwhile
        async with self._database.begin() as work:
            fix = await work.pull_requests.of(bug_id)
            why = told = ""
            if case.close_reason == Reason.AGENT_RESOLVED:
                result = (await work.turns.turn_result(bug_id, case.turn)).result
                said = await work.conversation.of_reporter(bug_id)
                why, told = str(result.get("summary", "")), audience.told_to_reporter(result, said)
            elif case.close_reason == Reason.OPERATOR_RESOLVED:
                why = told = await work.conversation.last_close(bug_id)
        reason = Reason(case.close_reason)
        left = (sentences.fix_left(), sentences.fix_left(fix.url)) if fix else ("", "")
        refusals: list[Permanent] = []
        for thread, last, fix_left in ((case.thread, told, left[0]), (case.summary, why, left[1])):
            if thread:
                words = sentences.ended(bug_id, reason, last_words=last, fix=fix_left)
                key = f"closing:{case.closings}:{thread.channel}"
                try:
                    await self._say(case, thread, key, formatting.notice(words), kind="closing", words=words)
                except Permanent as error:  # those in the other thread are told all the same
                    refusals.append(error)
        if refusals:
            raise refusals[0]

    # -- cosmetics ---------------------------------------------------------------------------------------------------

    @activity.defn
    async def add_reactions(self, reactions: Reactions) -> None:
        await add_reactions(self._slack, reactions.name, reactions.items)

    @activity.defn
    async def mark_used(self, turn: TurnRef) -> None:
        async with self._database.begin() as work:
            used = await work.conversation.used_by(turn.bug_id, turn.turn)
        await add_reactions(self._slack, "white_check_mark", used)

    # -- parts -------------------------------------------------------------------------------------------------------

    async def _case(self, bug_id: str) -> CaseRecord:
        async with self._database.begin() as work:
            return await work.overview.case(bug_id)

    async def _turn(self, turn: TurnRef) -> TurnRecord:
        async with self._database.begin() as work:
            return await work.turns.turn_result(turn.bug_id, turn.turn)

    async def _told(self, case: CaseRecord, record: TurnRecord) -> str:
        async with self._database.begin() as work:
            said = await work.conversation.of_reporter(case.bug_id)
        return audience.told_to_reporter(record.result, said)

    async def _say(
        self,
        case: CaseRecord,
        thread: Thread,
        key: str,
        rendered: tuple[Rendered, ...],
        *,
        kind: str = "notice",
        words: str = "",
    ) -> None:
        """Post in one of the case's threads; `words` are kept in the conversation, where the agent reads them."""

        async def record(tx: Transaction, ts: str) -> None:
            await Conversation(tx).record_bot_message(case.bug_id, kind, words, thread.channel, ts)

        post = Post(f"{case.bug_id}:{key}", thread.channel, thread.ts, rendered, on_posted=record if words else None)
        await self._outbox.publish(post)
        _log.info("message_posted", case=case.bug_id, key=post.key)


_FOR_DEVELOPERS = frozenset({NoticeKind.FORWARDED, NoticeKind.FIX_REFUSED})


def _summary(case: CaseRecord) -> Thread:
    if case.summary is None:
        raise Permanent(
            f"{case.bug_id} has no thread in the summaries channel yet: its first message could not be posted."
        )
    return case.summary


def _findings(case: CaseRecord, record: TurnRecord, pull_request: str | None) -> formatting.Findings:
    """A turn's outcome as it lies in the database; one that failed has only a summary."""
    result = record.result
    return formatting.Findings(
        bug_id=case.bug_id,
        title=case.title,
        severity=case.severity,
        confidence=float(result.get("confidence", 0.0)),
        summary=str(result.get("summary") or result.get("clarification_question") or ""),
        root_cause=str(result.get("root_cause", "")),
        turn=record.turn,
        cost_usd=record.cost_usd,
        reported_by=case.reporter_id,
        evidence=[formatting.Evidence(**item) for item in result.get("evidence", ())],
        recommended_actions=result.get("recommended_actions", ()),
        components=case.components,
        pull_request=pull_request,
    )


def _from_now(change: StatusChange) -> StatusChange:
    """A wait begins when there is something to answer: posting may have taken Slack's outage of a day."""
    info = activity.info()
    late = (info.started_time - info.scheduled_time).total_seconds()
    return replace(change, wait_until=change.wait_until + max(0.0, late)) if change.wait_until else change
