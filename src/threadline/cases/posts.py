"""What is said in Slack. Every post has a business key, so that saying it again says nothing new.

The reporter reads the thread of a report: of what an agent or a failure says, nothing gets there but what
`cases/audience.py` lets through, and the question.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from threadline.cases import blocks
from threadline.cases.contract import CasePostActivities, Escalation, Notice, SlaNotice, TurnRef
from threadline.cases.model import (
    DEFAULT_TARGETS,
    ESCALATION,
    SUMMARY,
    Action,
    CaseRecord,
    CaseStatus,
    NoticeKind,
    Reason,
    Severity,
    SlaTarget,
    case_owner,
)
from threadline.cases.outcome import TurnPost
from threadline.cases.store.case import CaseStore
from threadline.cases.store.lists import CaseLists, MissingAnswer
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.forge.pull_requests import OpenedPullRequest
from threadline.slack import formatting
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.outbox import Outbox, Post
from threadline.threads.store import PostStore

ANSWER_GRACE = 900.0
"""Seconds that a finished turn has for its answer: Slack may be away, and the case's workflow waits for it."""
_USED = "white_check_mark"
"""On each message that the agent has read."""
_FOR_DEVELOPERS = frozenset({NoticeKind.FORWARDED, NoticeKind.FIX_REFUSED})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class CaseChannels:
    """Where things are said, and who is called. `team` and `bot_user` are Slack's ids of the workspace and of the bot;
    `tiers` holds user and group ids by tier of on-call, the first to be called first."""

    team: str
    bot_user: str
    summaries: str
    escalations: str
    tiers: Sequence[Sequence[str]] = ()
    targets: Mapping[Severity, SlaTarget] = field(default_factory=lambda: DEFAULT_TARGETS)

    def on_call(self, tier: int) -> Sequence[str]:
        return self.tiers[min(tier, len(self.tiers) - 1)] if self.tiers else ()

    def escalation(self, bug_id: str, number: int, severity: Severity, started: float = 0.0) -> Escalation:
        return Escalation(bug_id, number, self.targets[severity], len(self.tiers), started)


@dataclass(eq=False)
class LiveCasePostActivities(CasePostActivities):
    database: Database
    outbox: Outbox
    channels: CaseChannels

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
        await self._post(case, where, key, formatting.notice(blocks.notice_text(notice.kind, notice.bug_id, detail)))

    async def post_clarification_question(self, turn: TurnRef) -> None:
        told = await self._load(turn)
        asked, key = told.outcome.clarification_question, f"turn:{turn.turn}:question"
        rendered = blocks.question_message(turn.bug_id, told.case.reporter_id, asked)
        await self._post(told.case, told.case.thread, key, rendered, kind="question", words=asked)
        self.outbox.add_reactions(_USED, told.used)

    async def create_summary_thread(self, bug_id: str) -> None:
        await self._open_summary(await self._case(bug_id))

    async def post_investigation_results(self, turn: TurnRef) -> None:
        await self.post_findings(turn, open_summary=False)

    async def post_findings(self, turn: TurnRef, *, open_summary: bool = True) -> None:
        """A turn's findings in the case's summary thread, which is opened for them when there is none."""
        told = await self._load(turn)
        summary = await self._open_summary(told.case) if open_summary else told.case.summary
        if summary is None:
            raise Permanent(
                f"{turn.bug_id} has no thread in the summaries channel yet: its first message could not be posted."
            )
        outcome, rendered = told.outcome, blocks.findings_message(told)
        words = f"{outcome.summary or outcome.clarification_question}\n{outcome.root_cause}".strip()
        await self._post(told.case, summary, f"turn:{turn.turn}:findings", rendered, kind="findings", words=words)
        self.outbox.add_reactions(_USED, told.used)
        text = told.reporter_text
        if not text or told.action is not Action.POST_FINDINGS:  # an escalation and an end have posts of their own
            return
        rendered, key = formatting.notice(text), f"turn:{turn.turn}:told"
        try:
            await self._post(told.case, told.case.thread, key, rendered, kind="told", words=text)
        except Permanent as error:  # the findings stand, also when the reporter's thread cannot be written to
            _log.error("reporter_not_notified", case=turn.bug_id, turn=turn.turn, reason=str(error))

    async def _open_summary(self, case: CaseRecord) -> Thread:
        if case.summary:
            return case.summary
        rendered = formatting.notice(blocks.SUMMARY_ROOT, headline=f"{case.bug_id}: {case.title}")
        opens, channel = case_owner(case.thread, SUMMARY), self.channels.summaries
        ts = await self.outbox.publish(Post(f"{case.bug_id}:summary", channel, None, rendered, opens))
        return Thread(case.thread.team, channel, ts)

    async def post_pull_request(self, case: CaseRecord, turn: int, fix: OpenedPullRequest) -> None:
        """Tell both threads of a fix's pull request; of a case that was closed meanwhile, only the developers."""
        async with self.database.begin() as tx:
            closed = (await CaseStore(tx).get(case.bug_id)).status is CaseStatus.RESOLVED
        said = [] if closed else [(case.thread, blocks.fix_proposed_text(case.bug_id))]
        if case.summary:
            text = blocks.late_pull_request_text if closed else blocks.pull_request_text
            said.insert(0, (case.summary, text(case.bug_id, fix)))
        for thread, words in said:
            await self._post(case, thread, f"turn:{turn}:fix:{thread.channel}", formatting.notice(words))

    async def escalate_to_humans(self, turn: TurnRef) -> Escalation:
        told = await self._load(turn)
        case, number = told.case, told.case.escalations
        root = formatting.notice(
            blocks.escalation_text(told.outcome.summary or told.failure),
            mentions=tuple(self.channels.on_call(0)),
            headline=f"{case.bug_id} needs a person: {case.title}",
        )
        key, channel = f"{case.bug_id}:escalation:{number}", self.channels.escalations
        if case.summary and case.summary.channel == channel:  # the channel is shared: no thread of its own
            await self.outbox.publish(Post(key, channel, case.summary.ts, root))
        else:
            await self.outbox.publish(Post(key, channel, None, root, case_owner(case.thread, ESCALATION)))
        words = blocks.escalated_text(case.bug_id, told.reporter_text)
        await self._post(case, case.thread, f"escalation:{number}:told", formatting.notice(words))
        return self.channels.escalation(case.bug_id, number, case.severity)

    async def report_sla_event(self, notice: SlaNotice) -> bool:
        async with self.database.begin() as tx:
            store = CaseStore(tx)
            case, snapshot = await store.get(notice.bug_id), await store.snapshot(notice.bug_id)
            root = await PostStore(tx).ts_of(f"{notice.bug_id}:escalation:{notice.escalation}")
        if not (root and snapshot.escalated and snapshot.escalations == notice.escalation):
            return False

        async def is_open(tx: Transaction) -> bool:
            return (await CaseStore(tx).get(notice.bug_id)).status is not CaseStatus.RESOLVED

        async def record(tx: Transaction, ts: str) -> None:
            event = (notice.escalation, notice.ordinal, notice.kind, notice.tier)
            await CaseStore(tx).record_sla_event(notice.bug_id, *event)

        shared = case.summary and case.summary.channel == self.channels.escalations
        thread_ts = case.summary.ts if case.summary and shared else root
        mentions = tuple(self.channels.on_call(notice.tier))
        rendered = formatting.notice(blocks.sla_text(notice.bug_id, notice.kind), mentions=mentions)
        key = f"{notice.bug_id}:sla:{notice.escalation}:{notice.ordinal}"
        post = Post(key, self.channels.escalations, thread_ts, rendered, valid_if=is_open, on_posted=record)
        return bool(await self.outbox.publish(post))

    async def post_closing(self, bug_id: str) -> None:
        async with self.database.begin() as tx:
            store = CaseStore(tx)
            case = await store.get(bug_id)
            if not case.close_reason:
                return  # reopened meanwhile
            fix = await store.pull_request(bug_id)
            why = told = ""
            if case.close_reason == Reason.AGENT_RESOLVED:
                turn = await store.for_post(bug_id, case.turn)
                why, told = turn.outcome.summary, turn.reporter_text
            elif case.close_reason == Reason.OPERATOR_RESOLVED:
                why = told = await CaseMessageStore(tx).last_close(bug_id)
        reason = Reason(case.close_reason)
        left = (blocks.unmerged_fix_text(), blocks.unmerged_fix_text(fix.url)) if fix else ("", "")
        refusals: list[Permanent] = []
        for thread, last, fix_left in ((case.thread, told, left[0]), (case.summary, why, left[1])):
            if thread:
                words = blocks.closing_text(bug_id, reason, explanation=last, fix=fix_left)
                key = f"closing:{case.closings}:{thread.channel}"
                try:
                    await self._post(case, thread, key, formatting.notice(words), kind="closing", words=words)
                except Permanent as error:  # those in the other thread are told all the same
                    refusals.append(error)
        if refusals:
            raise refusals[0]

    async def find_missing(self, tx: Transaction, after: int, limit: int) -> Sequence[MissingAnswer]:
        return await CaseLists(tx).missing_answers(ANSWER_GRACE, limit, after, owed=False)

    async def post_missing(self, item: MissingAnswer) -> bool:
        _log.error("answer_missing", case=item.bug_id, turn=item.turn, kind=item.kind)
        turn = TurnRef(item.bug_id, item.turn)
        await (self.post_clarification_question(turn) if item.kind == "question" else self.post_findings(turn))
        return True

    async def _case(self, bug_id: str) -> CaseRecord:
        async with self.database.begin() as tx:
            return await CaseStore(tx).get(bug_id)

    async def _load(self, turn: TurnRef) -> TurnPost:
        async with self.database.begin() as tx:
            return await CaseStore(tx).for_post(turn.bug_id, turn.turn)

    async def _post(
        self,
        case: CaseRecord,
        at: Thread,
        key: str,
        rendered: tuple[Rendered, ...],
        kind: str = "notice",
        words: str = "",
    ) -> None:
        """Post in one of the case's threads; `words` are kept in the conversation, where the agent reads them."""

        async def record(tx: Transaction, ts: str) -> None:
            await CaseMessageStore(tx).record_bot_message(case.bug_id, kind, words, replace(at, ts=ts))

        post = Post(f"{case.bug_id}:{key}", at.channel, at.ts, rendered, on_posted=record if words else None)
        await self.outbox.publish(post)
        _log.info("message_posted", case=case.bug_id, key=post.key)
