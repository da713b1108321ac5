"""LiveCaseActivities: the case in the database, its report in Slack, and its fix at the code
host.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import structlog
from temporalio import activity

from threadline.cases import contract
from threadline.cases.contract import CaseActivities, TurnRef
from threadline.cases.effects import as_answer, belongs_to_case, is_spoken
from threadline.cases.model import (
    CaseLimits,
    CaseRecord,
    CaseSnapshot,
    CaseStatus,
    Reason,
    Settled,
)
from threadline.cases.posts import LiveCasePostActivities
from threadline.cases.store.case import CaseStore, TurnRecord
from threadline.cases.store.lists import CaseLists
from threadline.cases.store.messages import CaseMessageStore, Flushed
from threadline.db.engine import Database
from threadline.errors import INVESTIGATION, IllegalTransition, Mendable, Permanent, Transient
from threadline.forge.pull_requests import FixRequest, PullRequests
from threadline.privacy.redaction import redact
from threadline.slack.client import SlackClient
from threadline.slack.errors import translated
from threadline.slack.files import download_readable
from threadline.slack.formatting import redact_files
from threadline.slack.model import ACCESS_FAULT, AuthorRefusal, Thread, clean_text
from threadline.threads.activity import ReportFault, log_fault
from threadline.threads.authors import AuthorPolicy
from threadline.threads.message_table import log_quarantined, redact_message, seconds
from threadline.threads.model import (
    AGENTS_QUEUE,
    IncomingMessage,
    MessageKind,
    SenderType,
    message_id,
)
from threadline.threads.queues import NO_WORKER
from threadline.tools.public_text import public_sentence

_START_WORKER = (
    "No worker serves the agents' queue, so investigations wait: start `threadline worker "
    "--queue agents`. They then start by themselves."
)
_INTERNAL = (
    "The investigation failed because of an internal error. The worker's log has the details."
)
_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class LiveCaseActivities(CaseActivities):
    """The live activities of a case.

    Args:
        bot_user: The bot's own user id, whose messages are no reports.
        authors: Decides whose reports count.
    """

    database: Database
    slack: SlackClient
    posts: LiveCasePostActivities
    pull_requests: PullRequests
    _: KW_ONLY
    limits: CaseLimits
    bot_user: str
    authors: AuthorPolicy
    report_fault: ReportFault = log_fault
    has_worker: Callable[[str], Awaitable[bool]] | None = None

    async def flush_messages(self, request: contract.FlushRequest) -> contract.StoredCase:
        thread = request.thread
        unposted = False
        now = activity.info().started_time.timestamp()
        batch = self._without_lost_closes([redact_message(each) for each in request.messages])
        number = await self._number_before_restore(thread) if request.first and batch else 0
        async with self.database.begin() as tx:
            if batch:
                store = CaseMessageStore(tx)
                flushed = await store.flush(
                    thread,
                    batch,
                    start_turn=request.start_turn,
                    number=number,
                    silence_ends=now + self.limits.developer_timeout,
                )
            else:
                flushed = Flushed(await CaseStore(tx).snapshot_of(thread))
            case = flushed.case
            if request.first and case.status is CaseStatus.RESOLVED:
                unposted = await CaseLists(tx).closing_is_unposted(case.bug_id)
        log_quarantined(thread, flushed.quarantined, case=case.bug_id)
        if flushed.turn_started:
            _log.info("status_changed", case=case.bug_id, status=case.status)
        received = [(each.channel, each.ts) for each in batch if _is_acknowledged(case, each)]
        self.posts.outbox.add_reactions("+1" if case.ended else "eyes", received)
        return contract.StoredCase(case, self.limits if request.first else None, unposted)

    def _without_lost_closes(self, batch: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        """Treat a bare "cancel" from the period that a restored database has lost as an answer.

        It may have answered a question of that period. If it closed a case instead, the closing
        post ends that case again (`RestoredEnds`).
        """
        window = self.posts.outbox.lost.active_window
        if window is None:
            return list(batch)
        return [
            as_answer(each) if window.holds(float(seconds(each.ts))) else each for each in batch
        ]

    async def _number_before_restore(self, thread: Thread) -> int:
        """Return the number that the thread's case had before a restore; 0 when none is known."""
        bug_id = await self.posts.outbox.lost.case_number(thread)
        return int(bug_id.removeprefix("BUG-")) if bug_id else 0

    async def update_status(self, change: contract.StatusChange) -> CaseSnapshot:
        """Take one step of the case's life.

        A step that the status no longer allows is skipped: the snapshot shows the present status.
        Its wait counts from the start of this attempt, since the database may have been away.
        """
        began = activity.info().started_time.timestamp()
        wait_until = began + change.wait if change.wait else 0.0
        try:
            async with self.database.begin() as tx:
                snapshot = await CaseStore(tx).transition(
                    change.bug_id, change.to, change.reason, wait_until=wait_until
                )
        except IllegalTransition as error:
            _log.warning("status_change_refused", case=change.bug_id, reason=str(error))
            async with self.database.begin() as tx:
                return await CaseStore(tx).snapshot(change.bug_id)
        _log.info("status_changed", case=change.bug_id, status=change.to, reason=change.reason)
        return snapshot

    async def save_investigation_result(self, request: contract.SettleRequest) -> Settled:
        failure = request.failure and public_sentence(request.failure, _INTERNAL)
        if failure:
            _log.warning(
                "turn_failed", case=request.bug_id, turn=request.turn, reason=request.failure
            )
        async with self.database.begin() as tx:
            settled = await CaseStore(tx).settle(request.bug_id, request.turn, failure)
        if request.fault:
            await self.report_fault(
                request.fault.cause, request.fault.subject, request.fault.message
            )
        elif settled.action and not failure:
            await self.posts.outbox.recovery.works(INVESTIGATION)
            await self.posts.outbox.recovery.works(NO_WORKER, AGENTS_QUEUE)
        _log.info("turn_completed", case=request.bug_id, turn=request.turn, action=settled.action)
        return settled

    async def check_agents_worker(self, bug_id: str) -> bool:
        if await self._agents_worker_lives():
            await self.posts.outbox.recovery.works(NO_WORKER, AGENTS_QUEUE)
            return True
        _log.warning("investigation_waits_for_worker", case=bug_id, queue=AGENTS_QUEUE)
        await self.report_fault(NO_WORKER, AGENTS_QUEUE, _START_WORKER)
        return False

    async def _agents_worker_lives(self) -> bool:
        """Return whether a worker serves the agents' queue.

        A worker whose slots are all in use asks Temporal for no work, but renews the leases of its
        turns.
        """
        if self.has_worker is None or await self.has_worker(AGENTS_QUEUE):
            return True
        async with self.database.begin() as tx:
            return await CaseLists(tx).turn_runs()

    async def end_case(self, request: contract.EndRequest) -> CaseSnapshot:
        async with self.database.begin() as tx:
            snapshot = await CaseStore(tx).end(request.bug_id, request.reason)
        _log.info("case_ended", case=request.bug_id, status=snapshot.status, reason=request.reason)
        return snapshot

    async def fetch_report(self, thread: Thread) -> IncomingMessage | None:
        root = await self.slack.get_root(thread.channel, thread.ts)
        if root is None or root.user == self.bot_user or not (root.user or root.apps):
            return None
        report = IncomingMessage(
            id=message_id(thread.team, thread.channel, thread.ts),
            kind=MessageKind.REPORT,
            sender_type=SenderType.REPORTER,
            sender_id=root.user or root.apps[0],
            text=clean_text(redact(root.text)),
            channel=thread.channel,
            ts=thread.ts,
            files=redact_files(root.files),
            forwarded=clean_text(redact(root.forwarded)),
        )
        # An accepted reply does not vouch for the root's author, whose own event may have been
        # refused.
        checked = await self.authors.check(thread.team, report, root.apps, root.app_team)
        return None if isinstance(checked, AuthorRefusal) else checked

    async def fetch_attachments(self, bug_id: str) -> None:
        """Fetch the pending attachments.

        A file that cannot be fetched is stored with the reason, which the agent reads instead of
        it. While Slack refuses the bot as a whole, no file is given up.
        """
        async with self.database.begin() as tx:
            pending = await CaseMessageStore(tx).pending_files(bug_id)
        for identity, file_id in pending:
            await self._fetch(identity, file_id)
        async with self.database.begin() as tx:
            missing = await CaseMessageStore(tx).pending_files(bug_id)
        if missing:
            raise Transient(f"{len(missing)} attachments of {bug_id} could not be fetched yet.")

    async def _fetch(self, identity: int, file_id: str) -> None:
        """Fetch one file.

        A temporary failure does not stop the other files; in the last attempt it is final.
        """
        try:
            content = await download_readable(self.slack.client, file_id)
        except (Permanent, Transient) as error:
            if isinstance(error, Mendable) and error.kind == ACCESS_FAULT:
                await self._check_bot_is_accepted()
            if isinstance(error, Permanent) or activity.info().attempt >= contract.FETCH_ATTEMPTS:
                async with self.database.begin() as tx:
                    await CaseMessageStore(tx).fail_file(identity, str(error))
            return
        async with self.database.begin() as tx:
            await CaseMessageStore(tx).store_file(identity, content)

    async def _check_bot_is_accepted(self) -> None:
        """Raise `Mendable` if Slack refuses the bot as a whole, and not just one file."""
        async with translated("the bot"):
            await self.slack.client.auth_test()

    async def open_pull_request(self, turn: TurnRef) -> CaseSnapshot:
        async with self.database.begin() as tx:
            case = await CaseStore(tx).get(turn.bug_id)
            record = await CaseStore(tx).turn(turn.bug_id, turn.turn)
            if case.status is CaseStatus.RESOLVED:
                return await CaseStore(tx).snapshot(turn.bug_id)
        opened = await self.pull_requests.open(_request(case, record))
        async with self.database.begin() as tx:
            snapshot = await CaseStore(tx).save_pull_request(turn.bug_id, opened)
        try:
            await self.posts.post_pull_request(case, turn.turn, opened)
        except Mendable:
            raise  # retried: the pull request is stored, and is not opened twice
        except Permanent as error:
            # The pull request exists all the same, and is shown with the next findings.
            _log.error("fix_post_refused", case=turn.bug_id, reason=str(error))
        _log.info("pull_request_opened", case=turn.bug_id, url=opened.url, commit=opened.commit)
        return snapshot

    async def check_pull_request(self, bug_id: str) -> CaseSnapshot:
        async with self.database.begin() as tx:
            known = await CaseStore(tx).pull_request(bug_id)
            snapshot = await CaseStore(tx).snapshot(bug_id)
        if known is None or known.state != "open":
            return snapshot
        state = await self.pull_requests.state(known)
        if state == "open":
            return snapshot
        settled = replace(known, state="closed" if state == "gone" else state)
        async with self.database.begin() as tx:
            snapshot = await CaseStore(tx).save_pull_request(bug_id, settled)
            if state == "merged" and snapshot.status is not CaseStatus.RESOLVED:
                snapshot = await CaseStore(tx).end(bug_id, Reason.FIX_MERGED)
        return snapshot


def _request(case: CaseRecord, record: TurnRecord) -> FixRequest:
    """Build the request for a turn's fix.

    Raises:
        Permanent: The fix is not in exactly one repository.
    """
    changed = {name: diff for name, diff in record.diffs.items() if diff}
    if len(changed) != 1:
        where = ", ".join(sorted(changed)) or "none"
        raise Permanent(
            f"a fix may change one repository, and this one changes {where}: ask for one "
            "repository at a time"
        )
    [(repository, diff)] = changed.items()
    outcome = record.outcome
    review = f"Proposed by an agent for {case.bug_id}. Please review it before it is run anywhere."
    return FixRequest(
        bug_id=case.bug_id,
        repository=repository,
        base=record.base.get(repository, ""),
        diff=diff,
        title=clean_text(redact(case.title)),
        body=clean_text(
            redact("\n\n".join(filter(None, (outcome.summary, outcome.root_cause, review))))
        ),
        key=record.fix_requested_by,
    )


def _is_acknowledged(case: CaseSnapshot, message: IncomingMessage) -> bool:
    """Return whether the message gets a reaction that confirms its receipt.

    A third party's reply is ignored silently.
    """
    return bool(case.bug_id) and is_spoken(message) and belongs_to_case(message, case.reporter_id)
