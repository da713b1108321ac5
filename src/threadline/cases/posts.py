"""The case's posts in Slack. Every post has a business key, so that a repeated one posts nothing
new.

The reporter reads the report's thread. Apart from the question, an agent's words and the text of a
failure only get there through `cases/audience.py`.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from threadline.cases import blocks
from threadline.cases.contract import CasePostActivities, Escalation, Notice, SlaNotice, TurnRef
from threadline.cases.findings import developer_reply, own_reply, shows_findings
from threadline.cases.model import (
    CLOSING,
    DEFAULT_TARGETS,
    ESCALATION,
    SOLVED,
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
from threadline.errors import Mendable, Permanent
from threadline.forge.model import PullRequest
from threadline.slack import formatting
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.basis import Basis
from threadline.threads.message_table import seconds
from threadline.threads.model import ThreadOwner
from threadline.threads.outbox import Outbox, Post
from threadline.threads.store import PostStore
from threadline.tools.public_text import public_sentence

ANSWER_GRACE = 900.0
"""Seconds that a finished turn has for its answer.

Slack may be away, while the case's workflow waits for it.
"""
_ANSWERED = "speech_balloon"
"""The reaction on each message that a turn has answered."""
_RESOLVED = "white_check_mark"
"""The reaction on the report of a resolved case."""
_REPEATABLE = frozenset({NoticeKind.REOPENED, NoticeKind.QUESTION_UNANSWERED})
"""Notices that a restored case would post again."""

_INTERNAL = "an internal error occurred; the worker's log has the details."
_log = structlog.get_logger(__name__)


def _summary_key(bug_id: str) -> str:
    return f"{bug_id}:summary"


def _findings_key(bug_id: str, turn: int) -> str:
    return f"{bug_id}:turn:{turn}:findings"


def _escalation_key(bug_id: str, number: int) -> str:
    return f"{bug_id}:escalation:{number}"


@dataclass(frozen=True)
class CaseChannels:
    """The channels of a case's posts, and the people on call.

    `team` and `bot_user` are Slack's ids of the workspace and of the bot, `workspace` its address;
    `tiers` holds user and group ids by tier of on-call, the first to be called first.
    """

    team: str
    bot_user: str
    summaries: str
    escalations: str
    tiers: Sequence[Sequence[str]] = ()
    targets: Mapping[Severity, SlaTarget] = field(default_factory=lambda: DEFAULT_TARGETS)
    workspace: str = ""

    def on_call(self, tier: int) -> Sequence[str]:
        return self.tiers[min(tier, len(self.tiers) - 1)] if self.tiers else ()

    def escalation(
        self, bug_id: str, number: int, severity: Severity, started: float = 0.0
    ) -> Escalation:
        return Escalation(bug_id, number, self.targets[severity], len(self.tiers), started)


@dataclass(frozen=True)
class ClosingPost:
    """A post about a case's end, in one of its threads.

    `is_kept`: the agent reads it later. It reads only one of the developers' copies.
    """

    case: CaseRecord
    thread: Thread
    key: str
    words: str
    basis: Basis
    is_kept: bool = True


@dataclass(eq=False)
class LiveCasePostActivities(CasePostActivities):
    database: Database
    outbox: Outbox
    channels: CaseChannels

    async def post_notice(self, notice: Notice) -> None:
        case = await self._case(notice.bug_id)
        if notice.kind is NoticeKind.REOPENED:
            self.outbox.remove_reactions(_RESOLVED, [(case.thread.channel, case.thread.ts)])
        # The log is the only trace when there is no summary thread, or it cannot be written to.
        if notice.detail:
            _log.warning(
                "case_problem_reported", case=notice.bug_id, kind=notice.kind, reason=notice.detail
            )
            notice = replace(notice, detail=public_sentence(notice.detail, _INTERNAL))
        key = f"{notice.kind}:{notice.ordinal}"
        if notice.kind is NoticeKind.FIX_REFUSED and case.summary:
            await self._notify(case, case.summary, key, notice, notice.detail)
            return
        if notice.kind is NoticeKind.NOBODY_CALLED and case.summary:
            # After a refusal, the reporter is the only one left to notify.
            with contextlib.suppress(Permanent):
                await self._notify(case, case.summary, f"{key}:why", notice, notice.detail)
        await self._notify(case, case.thread, key, notice)

    async def _notify(
        self, case: CaseRecord, where: Thread, key: str, notice: Notice, detail: str = ""
    ) -> None:
        rendered = formatting.notice(blocks.notice_text(notice.kind, notice.bug_id, detail))
        await self._post(
            case, where, key, rendered, await self._notice_basis(case, key, notice.kind)
        )

    async def _notice_basis(self, case: CaseRecord, key: str, kind: NoticeKind) -> Basis | None:
        """Return the basis that identifies a notice after a restore.

        Returns None for a notice of a failure, which is sent again.
        """
        if kind is NoticeKind.INTAKE:
            return Basis.of_thread(key, case.thread)
        if kind not in _REPEATABLE:
            return None
        async with self.database.begin() as tx:
            return await CaseMessageStore(tx).basis(case, key)

    async def post_clarification_question(self, turn: TurnRef) -> None:
        told = await self._load(turn)
        asked = told.outcome.clarification_question
        key = f"turn:{turn.turn}:question"
        rendered = blocks.question_message(turn.bug_id, told.case.reporter_id, asked)
        basis = told.basis("question")
        await self._post(
            told.case, told.case.thread, key, rendered, basis, kind="question", words=asked
        )
        if asked_in := await self._escalation_that_asked(told.case, turn.turn):
            notice = formatting.notice(blocks.reporter_asked_text(turn.bug_id, asked))
            beside = told.basis("asked")
            await self._post_beside(told.case, asked_in, f"turn:{turn.turn}:asked", notice, beside)
        if told.case.summary:
            # The question is posted, and does not wait for the developers' channel.
            try:
                await self._reply(told, told.case.summary)
            except Permanent as error:
                _log.error(
                    "developers_not_answered",
                    case=turn.bug_id,
                    turn=turn.turn,
                    reason=str(error),
                )
        self.outbox.add_reactions(_ANSWERED, told.used)

    async def update_card(self, bug_id: str) -> None:
        case = await self._case(bug_id)
        if case.summary:
            rendered = blocks.card_message(case, self.channels.workspace)
            await self.outbox.replace(
                Post(_summary_key(bug_id), case.summary.channel, None, rendered)
            )

    async def create_summary_thread(self, bug_id: str) -> None:
        await self._open_summary(await self._case(bug_id))

    async def post_investigation_results(self, turn: TurnRef) -> None:
        told = await self._load(turn)
        summary = told.case.summary
        if summary is None:
            raise Permanent(
                f"{turn.bug_id} has no thread in the summaries channel yet: its first "
                "message could not be posted."
            )
        if told.action is Action.ASK_REPORTER:
            await self._post_findings(told, summary)  # the question, which Slack refused
        elif shows_findings(told):
            await self._show_findings(told, summary)
        await self._reply(told, summary)
        if asked_in := await self._escalation_that_asked(told.case, turn.turn):
            await self._answer_on_call(told, asked_in)
        self.outbox.add_reactions(_ANSWERED, told.used)
        text = told.reporter_text
        # An escalation and an end have posts of their own.
        if not text or told.action is not Action.POST_FINDINGS:
            return
        rendered = formatting.notice(text)
        key = f"turn:{turn.turn}:told"
        try:
            basis = told.basis("told")
            await self._post(
                told.case, told.case.thread, key, rendered, basis, kind="told", words=text
            )
        except Mendable:
            raise  # retried: the reporter may be notified later
        except Permanent as error:
            # The findings stay posted, also when the reporter's thread cannot be written to.
            _log.error(
                "reporter_not_notified", case=turn.bug_id, turn=turn.turn, reason=str(error)
            )

    async def _show_findings(self, told: TurnPost, summary: Thread) -> None:
        """Post the case's findings, or replace the earlier ones in place.

        A message that was deleted, or that Slack lets nobody change, cannot be replaced: then the
        findings are posted again. Those of an earlier turn do not replace those of a later one.
        """
        if told.shown_in_turn and not told.is_newest:
            return
        if not told.shown_in_turn or not await self._replace_findings(told, summary):
            await self._post_findings(told, summary)

    async def _replace_findings(self, told: TurnPost, summary: Thread) -> bool:
        key = _findings_key(told.case.bug_id, told.shown_in_turn)
        post = Post(key, summary.channel, summary.ts, blocks.findings_message(told))
        try:
            if not await self.outbox.replace(post):
                return False
        except Mendable:
            raise  # retried: Slack may let us change it later
        except Permanent as error:
            _log.warning("findings_not_replaced", case=told.case.bug_id, reason=str(error))
            return False
        async with self.database.begin() as tx:
            ts = await PostStore(tx).ts_of(key)
            where = replace(summary, ts=ts or "")
            await CaseMessageStore(tx).rewrite_bot_message(told.case.bug_id, where, told.words)
        return True

    async def _post_findings(self, told: TurnPost, summary: Thread) -> None:
        rendered = blocks.findings_message(told)
        key = f"turn:{told.turn}:findings"
        basis = told.basis("findings")
        words = told.words
        await self._post(told.case, summary, key, rendered, basis, kind="findings", words=words)

    async def _reply(self, told: TurnPost, summary: Thread) -> None:
        if words := developer_reply(told):
            rendered = formatting.notice(words)
            key = f"turn:{told.turn}:reply"
            basis = told.basis("reply")
            await self._post(told.case, summary, key, rendered, basis, kind="reply", words=words)

    async def _answer_on_call(self, told: TurnPost, at: Thread) -> None:
        """Answer people on call in their own thread, with the findings if they are new."""
        key = f"turn:{told.turn}"
        if told.has_findings or told.action is Action.ASK_REPORTER:
            rendered = blocks.findings_message(told)
            basis = told.basis("findings")
            await self._post_beside(told.case, at, f"{key}:findings:on-call", rendered, basis)
        if words := own_reply(told):
            rendered = formatting.notice(words)
            basis = told.basis("reply")
            await self._post_beside(told.case, at, f"{key}:reply:on-call", rendered, basis)

    async def _escalation_that_asked(self, case: CaseRecord, turn: int) -> Thread | None:
        """Return the escalation's thread with the messages of people on call that a turn answers.

        Returns None if they wrote nothing, or if they wrote in the summary thread.
        """
        if not case.escalations:
            return None
        async with self.database.begin() as tx:
            store = CaseStore(tx)
            asked = await store.asked_by_developers(case.bug_id, turn)
            threads = (
                await store.escalation_threads(case.bug_id)
                if self.channels.escalations in asked
                else []
            )
        if not threads:
            return None
        at = asked[self.channels.escalations]
        before = [each for each in threads if seconds(each.ts) <= seconds(at)]
        return (before or threads)[-1]

    async def _post_beside(
        self, case: CaseRecord, at: Thread, key: str, rendered: tuple[Rendered, ...], basis: Basis
    ) -> None:
        """Post a copy of a text that is posted elsewhere already; a refusal does not stop the
        turn.
        """
        try:
            await self._post(case, at, key, rendered, basis)
        except Permanent as error:
            _log.error("on_call_not_notified", case=case.bug_id, key=key, reason=str(error))

    async def _open_summary(self, case: CaseRecord) -> Thread:
        if case.summary:
            return case.summary
        rendered = blocks.card_message(case, self.channels.workspace)
        opens = case_owner(case.thread, SUMMARY)
        channel = self.channels.summaries
        basis = Basis.of_thread("summary", case.thread)
        ts = await self.outbox.publish(
            Post(_summary_key(case.bug_id), channel, None, rendered, opens, basis=basis)
        )
        return Thread(case.thread.team, channel, ts)

    async def post_pull_request(self, case: CaseRecord, turn: int, fix: PullRequest) -> None:
        """Announce a fix's pull request in both threads, or only to developers if the case was
        closed.
        """
        async with self.database.begin() as tx:
            told = await CaseStore(tx).for_post(case.bug_id, turn)
        closed = told.case.status is CaseStatus.RESOLVED
        said = [] if closed else [(case.thread, blocks.fix_proposed_text(case.bug_id))]
        if case.summary:
            text = blocks.late_pull_request_text if closed else blocks.pull_request_text
            said.insert(0, (case.summary, text(case.bug_id, fix)))
        for thread, words in said:
            key = f"turn:{turn}:fix:{thread.channel}"
            await self._post(case, thread, key, formatting.notice(words), told.basis("fix"))

    async def escalate_to_humans(self, turn: TurnRef) -> Escalation:
        told = await self._load(turn)
        case = told.case
        number = told.case.escalations
        target = self.channels.targets[case.severity]
        root = formatting.notice(
            blocks.escalation_text(told.why, target),
            mentions=tuple(self.channels.on_call(0)),
            headline=f"{case.bug_id} needs a person: {case.title}",
        )
        key = _escalation_key(case.bug_id, number)
        channel = self.channels.escalations
        if case.summary and self._shares_summary(case):
            post = Post(key, channel, case.summary.ts, root)
        else:
            post = Post(key, channel, None, root, case_owner(case.thread, ESCALATION))
        await self.outbox.publish(replace(post, basis=told.basis("escalation")))
        words = formatting.notice(blocks.escalated_text(case.bug_id, told.reporter_text, target))
        await self._post(
            case, case.thread, f"escalation:{number}:told", words, told.basis("escalated")
        )
        return self.channels.escalation(case.bug_id, number, case.severity)

    async def report_sla_event(self, notice: SlaNotice) -> bool:
        async with self.database.begin() as tx:
            store = CaseStore(tx)
            case = await store.get(notice.bug_id)
            snapshot = await store.snapshot(notice.bug_id)
            root = await PostStore(tx).ts_of(_escalation_key(notice.bug_id, notice.escalation))
        if not (root and snapshot.escalated and snapshot.escalations == notice.escalation):
            return False

        async def is_open(tx: Transaction) -> bool:
            return (await CaseStore(tx).get(notice.bug_id)).status is not CaseStatus.RESOLVED

        async def record(tx: Transaction, ts: str) -> None:
            event = (notice.escalation, notice.ordinal, notice.kind, notice.tier)
            await CaseStore(tx).record_sla_event(notice.bug_id, *event)

        thread_ts = case.summary.ts if case.summary and self._shares_summary(case) else root
        mentions = tuple(self.channels.on_call(notice.tier))
        rendered = formatting.notice(
            blocks.sla_text(notice.bug_id, notice.kind), mentions=mentions
        )
        key = f"{notice.bug_id}:sla:{notice.escalation}:{notice.ordinal}"
        # The root identifies the escalation: a restored case may have another one under this
        # number.
        basis = Basis(f"sla:{notice.ordinal}:{notice.kind}", case.thread.key, (root,), (root,))
        post = Post(
            key, self.channels.escalations, thread_ts, rendered, valid_if=is_open, on_posted=record
        )
        return bool(await self.outbox.publish(replace(post, basis=basis)))

    async def post_closing(self, bug_id: str) -> None:
        case = await self._case(bug_id)
        refusals = await self._tell_end(bug_id)
        if case.close_reason in SOLVED:
            self.outbox.add_reactions(_RESOLVED, [(case.thread.channel, case.thread.ts)])
        try:
            # The end drops the pending posts. A post that Slack has may have opened a thread of
            # the case.
            if await self.outbox.settle(f"{bug_id}:", self._owners(case)):
                refusals = await self._tell_end(bug_id)
        except Mendable as error:
            refusals.append(error)
        # Raise a mendable refusal first: then the activity is retried.
        if refusals:
            raise min(refusals, key=lambda each: not isinstance(each, Mendable))

    async def _tell_end(self, bug_id: str) -> list[Permanent]:
        """Post in each of the case's threads how it ended.

        Returns the refusals; one does not stop the posts in the other threads.
        """
        refusals: list[Permanent] = []
        for each in await self._closing_posts(bug_id):
            rendered = formatting.notice(each.words)
            kept = each.words if each.is_kept else ""
            try:
                await self._post(
                    each.case,
                    each.thread,
                    each.key,
                    rendered,
                    each.basis,
                    kind="closing",
                    words=kept,
                )
            except Permanent as error:
                refusals.append(error)
        return refusals

    def _owners(self, case: CaseRecord) -> dict[str, ThreadOwner]:
        """Return the owners of the threads that the case's posts open, by the posts' keys."""
        owners = {_summary_key(case.bug_id): case_owner(case.thread, SUMMARY)}
        if not self._shares_summary(case):
            owner = case_owner(case.thread, ESCALATION)
            owners |= {
                _escalation_key(case.bug_id, each): owner
                for each in range(1, case.escalations + 1)
            }
        return owners

    def _shares_summary(self, case: CaseRecord) -> bool:
        """Return whether escalations are posted in the summary thread: both use one channel."""
        return case.summary is not None and case.summary.channel == self.channels.escalations

    async def _closing_posts(self, bug_id: str) -> list[ClosingPost]:
        """Return the closing posts for the case's threads; none if it was reopened meanwhile."""
        async with self.database.begin() as tx:
            store = CaseStore(tx)
            case = await store.get(bug_id)
            if not case.close_reason:
                return []
            fix = await store.pull_request(bug_id)
            basis = await store.basis(case, CLOSING)
            escalations = await store.escalation_threads(bug_id)
            why = told = ""
            if case.close_reason == Reason.AGENT_RESOLVED:
                turn = await store.for_post(bug_id, case.turn)
                why = turn.why
                told = turn.reporter_text
            elif case.close_reason == Reason.ADMIN_RESOLVED:
                why = told = await CaseMessageStore(tx).last_close(bug_id)
        reason = Reason(case.close_reason)
        key = f"closing:{case.closings}"
        left = (blocks.unmerged_fix_text(), blocks.unmerged_fix_text(fix.url)) if fix else ("", "")
        for_reporter = blocks.closing_text(bug_id, reason, explanation=told, fix=left[0])
        for_developers = blocks.closing_text(bug_id, reason, explanation=why, fix=left[1])
        posts = [
            ClosingPost(case, case.thread, f"{key}:{case.thread.channel}", for_reporter, basis)
        ]
        if case.summary:
            posts.append(
                ClosingPost(
                    case, case.summary, f"{key}:{case.summary.channel}", for_developers, basis
                )
            )
        beside = (
            ClosingPost(
                case, each, f"{key}:{each.channel}:{each.ts}", for_developers, basis, is_kept=False
            )
            for each in escalations
        )
        return [*posts, *beside]

    async def find_missing(
        self, tx: Transaction, after: int, limit: int
    ) -> Sequence[MissingAnswer]:
        summaries = self.channels.summaries
        return await CaseLists(tx).missing_answers(
            ANSWER_GRACE, limit, after, summaries=summaries, owed=False
        )

    async def post_missing(self, item: MissingAnswer) -> bool:
        _log.error("answer_missing", case=item.bug_id, turn=item.turn, kind=item.kind)
        turn = TurnRef(item.bug_id, item.turn)
        if item.kind == "question":
            await self.post_clarification_question(turn)
        else:
            await self.create_summary_thread(item.bug_id)
            await self.post_investigation_results(turn)
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
        basis: Basis | None = None,
        kind: str = "notice",
        words: str = "",
    ) -> None:
        """Post in one of the case's threads; the conversation stores `words` for the agent."""

        async def record(tx: Transaction, ts: str) -> None:
            await CaseMessageStore(tx).record_bot_message(
                case.bug_id, kind, words, replace(at, ts=ts)
            )

        post = Post(
            f"{case.bug_id}:{key}",
            at.channel,
            at.ts,
            rendered,
            on_posted=record if words else None,
        )
        await self.outbox.publish(replace(post, basis=basis))
        _log.info("message_posted", case=case.bug_id, key=post.key)
