"""A fix's way to the code host, in the core worker: the agent that wrote it holds no credential to push it."""

import structlog
from temporalio import activity

from threadline.cases import blocks
from threadline.cases.contract import TurnRef
from threadline.cases.fix_contract import FixActivities
from threadline.cases.model import CaseStatus, Marks, Reason
from threadline.cases.store import CaseRecord, CaseStore, PullRequest, TurnRecord
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.forge.pull_requests import FixRequest, OpenedPullRequest, PullRequests
from threadline.privacy.redaction import redact
from threadline.slack import formatting
from threadline.threads.messages import clean
from threadline.threads.outbox import Outbox, Post

_log = structlog.get_logger(__name__)


class LiveFixActivities(FixActivities):
    """One branch and one pull request for each case; a later fix is pushed to it."""

    def __init__(self, database: Database, pull_requests: PullRequests, outbox: Outbox) -> None:
        self._database = database
        self._pull_requests = pull_requests
        self._outbox = outbox

    @activity.defn
    async def open_pull_request(self, turn: TurnRef) -> Marks:
        async with self._database.begin() as work:
            case = await CaseStore(work.tx).get(turn.bug_id)
            record = await CaseStore(work.tx).turn(turn.bug_id, turn.turn)
            if case.status is CaseStatus.RESOLVED:
                return await CaseStore(work.tx).marks(turn.bug_id)
        opened = await self._pull_requests.open(_request(case, record))
        async with self._database.begin() as work:
            marks = await CaseStore(work.tx).save_pull_request(
                turn.bug_id,
                PullRequest(opened.repository, opened.branch, opened.url, opened.number, opened.commit, turn.turn),
            )
        try:
            await self._tell(case, turn.turn, opened)
        except Permanent as error:  # the pull request is there all the same, and is shown with the next findings
            _log.error("fix_post_refused", case=turn.bug_id, reason=str(error))
        _log.info("pull_request_opened", case=turn.bug_id, url=opened.url, commit=opened.commit)
        return marks

    async def _tell(self, case: CaseRecord, turn: int, opened: OpenedPullRequest) -> None:
        """In both threads; of a case that was closed in the meantime, that the fix is there all the same."""
        async with self._database.begin() as work:
            closed = (await CaseStore(work.tx).get(case.bug_id)).status is CaseStatus.RESOLVED
        said = [] if closed else [(case.thread, blocks.fix_proposed_text(case.bug_id))]
        if case.summary:
            say = blocks.late_pull_request_text if closed else blocks.pull_request_text
            said.insert(0, (case.summary, say(case.bug_id, opened.url)))
        for thread, words in said:
            key = f"{case.bug_id}:turn:{turn}:fix:{thread.channel}"
            rendered = formatting.notice(words)
            await self._outbox.publish(Post(key, thread.channel, thread.ts, rendered))

    @activity.defn
    async def check_pull_request(self, bug_id: str) -> Marks:
        async with self._database.begin() as work:
            known = await CaseStore(work.tx).pull_request(bug_id)
            marks = await CaseStore(work.tx).marks(bug_id)
        if known is None or known.state != "open":
            return marks
        opened = OpenedPullRequest(known.repository, known.url, known.number, known.branch, known.commit)
        state = await self._pull_requests.state(opened)
        if state == "open":
            return marks
        settled = PullRequest(**{**vars(known), "state": "merged" if state == "merged" else "closed"})
        async with self._database.begin() as work:
            marks = await CaseStore(work.tx).save_pull_request(bug_id, settled)
            if state == "merged" and marks.status is not CaseStatus.RESOLVED:
                marks = await CaseStore(work.tx).end(bug_id, Reason.FIX_MERGED)
        return marks


def _request(case: CaseRecord, record: TurnRecord) -> FixRequest:
    """Raises `Permanent` when the fix is not in exactly one repository."""
    changed = {name: diff for name, diff in record.diffs.items() if diff}
    if len(changed) != 1:
        where = ", ".join(sorted(changed)) or "none"
        raise Permanent(
            f"a fix may change one repository, and this one changes {where}: ask for one repository at a time"
        )
    [(repository, diff)] = changed.items()
    body = "\n\n".join(
        filter(
            None,
            (
                record.outcome.summary,
                record.outcome.root_cause,
                f"Proposed by an agent for {case.bug_id}. Please review it before it is run anywhere.",
            ),
        )
    )
    return FixRequest(
        bug_id=case.bug_id,
        repository=repository,
        base=record.base.get(repository, ""),
        diff=diff,
        title=clean(redact(case.title)),
        body=clean(redact(body)),
        key=record.fix_requested_by,
    )
