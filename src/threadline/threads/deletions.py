"""DeletionFinder: compares the stored messages of a thread with Slack's, and finds those that
people have deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import structlog

from threadline.db.engine import Database
from threadline.slack.history import History, ListedThread, RawMessage
from threadline.threads.absence import (
    MAX_IN_THREAD,
    SHORTEST_RETENTION,
    Absence,
    Judgement,
    Verdict,
    is_evidence,
    judge,
)
from threadline.threads.absence_store import AbsenceStore
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.faults import InstallationFaults
from threadline.threads.message_table import StoredMessage
from threadline.threads.model import ThreadOwner
from threadline.threads.store import ThreadStore

FAULT = "slack_history_incomplete"
"""The kind of the fault that is reported to the admin, one for a workspace."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class FoundDeletions:
    """The deletions of a thread. `deleted`: Slack shows a tombstone. `inferred`: believed because
    of their absence. `waits`: the next pass must compare the thread again.
    """

    deleted: Sequence[StoredMessage] = ()
    inferred: Sequence[StoredMessage] = ()
    waits: bool = False


@dataclass(frozen=True)
class _Surroundings:
    """Whether the channel shows a message older than the absent ones, and a newer one."""

    older: bool
    newer: bool


class DeletionFinder:
    """Finds deletions in one workspace, by the rule of `threads/absence.py`, and records each pass
    in Postgres.
    """

    def __init__(
        self, database: Database, history: History, faults: InstallationFaults, team: str
    ) -> None:
        self._database = database
        self._history = history
        self._faults = faults
        self._team = team

    async def find(
        self,
        thread: CatchUpThread,
        stored: Sequence[StoredMessage],
        listed: ListedThread,
        began: float,
    ) -> FoundDeletions:
        """Find the deleted messages of a thread.

        Args:
            stored: messages of the thread's owner in its channel that are not deleted, read before
                Slack.
            listed: the thread as Slack shows it.
            began: when the pass began, in seconds since 1970.
        """
        shown = {str(each["ts"]) for each in listed.messages if not _is_tombstone(each)}
        buried = {str(each["ts"]) for each in listed.messages if _is_tombstone(each)}
        missing = [each for each in stored if each.slack_ts not in shown]
        if not thread.owner or not missing:
            await self._forget(stored, [])
            return FoundDeletions()
        deleted = [each for each in missing if each.slack_ts in buried]
        if not await self._are_certain(thread, deleted, began):
            deleted = []
        absent = [each for each in missing if each not in deleted]
        absent = await self._without_shown_elsewhere(thread, thread.owner, absent)
        await self._forget(stored, absent)
        absent = await self._without_restored(absent)
        if not absent:
            return FoundDeletions(deleted)
        judged = await self._judge_all(thread, absent, listed, began)
        await self._report_doubts(thread, judged)
        return FoundDeletions(
            deleted,
            [message for message, judgement in judged if judgement.verdict is Verdict.BELIEVED],
            waits=any(judgement.verdict is Verdict.WAITING for _, judgement in judged),
        )

    async def end_pass(self) -> None:
        """Resolve the fault once no message is doubted."""
        async with self._database.begin() as tx:
            doubted = await AbsenceStore(tx, self._team).count_doubted()
        if not doubted:
            await self._faults.resolve(FAULT, self._team)

    async def _are_certain(
        self, thread: CatchUpThread, buried: Sequence[StoredMessage], began: float
    ) -> bool:
        """Return whether a person caused the tombstones. A retention policy, of a day at least,
        may leave them as well; Slack then shows nothing older.
        """
        old = [
            each for each in buried if Decimal(each.slack_ts) < Decimal(began - SHORTEST_RETENTION)
        ]
        if not old:
            return True
        first = min(old, key=lambda each: Decimal(each.slack_ts))
        page = await self._history.last_before(thread.channel, first.slack_ts)
        return any(is_evidence(message, self._team) for message in page)

    async def _without_shown_elsewhere(
        self, thread: CatchUpThread, owner: ThreadOwner, absent: Sequence[StoredMessage]
    ) -> list[StoredMessage]:
        """Return the messages that Slack shows neither in another thread of the owner nor on their
        own.
        """
        left = list(absent)
        if not left:
            return left
        async with self._database.begin() as tx:
            roots = await ThreadStore(tx).roots(owner.workflow_id, thread.channel)
        for root in roots:
            if left and root != thread.thread_ts:
                since = min(Decimal(each.slack_ts) for each in left) - 1
                other = await self._history.read_thread(thread.channel, root, f"{since:.6f}")
                elsewhere = {str(message["ts"]) for message in other.messages}
                left = [each for each in left if each.slack_ts not in elsewhere]
        if len(left) > MAX_IN_THREAD:  # too many to be believed, so no single look-ups
            return left
        return [
            each for each in left if not await self._history.exists(each.channel, each.slack_ts)
        ]

    async def _without_restored(self, absent: Sequence[StoredMessage]) -> list[StoredMessage]:
        if not absent:
            return []
        async with self._database.begin() as tx:
            restored = await AbsenceStore(tx, self._team).restored(
                [each.message_id for each in absent]
            )
        return [each for each in absent if each.message_id not in restored]

    async def _forget(
        self, stored: Sequence[StoredMessage], absent: Sequence[StoredMessage]
    ) -> None:
        """Forget the earlier absences of messages that are shown again."""
        gone = {each.message_id for each in absent}
        seen = [each.message_id for each in stored if each.message_id not in gone]
        if seen:
            async with self._database.begin() as tx:
                await AbsenceStore(tx, self._team).forget(seen)

    async def _judge_all(
        self,
        thread: CatchUpThread,
        absent: Sequence[StoredMessage],
        listed: ListedThread,
        began: float,
    ) -> list[tuple[StoredMessage, Judgement]]:
        around = _Surroundings(False, False)
        if len(absent) <= MAX_IN_THREAD:
            around = await self._surroundings(thread, absent, listed)
        ids = [each.message_id for each in absent]
        async with self._database.begin() as tx:
            store = AbsenceStore(tx, self._team)
            looks = await store.record(thread.channel, thread.thread_ts, ids, began)
            in_channel, in_workspace = await store.counts(thread.channel, began)
            judged = [
                (
                    each,
                    judge(
                        Absence(
                            looks=looks[each.message_id],
                            is_root=each.slack_ts == thread.thread_ts,
                            thread_is_whole=listed.is_whole,
                            older_is_shown=around.older,
                            newer_is_shown=around.newer,
                            in_thread=len(absent),
                            in_channel=in_channel,
                            in_workspace=in_workspace,
                        )
                    ),
                )
                for each in absent
            ]
            for verdict in Verdict:
                decided = [
                    each.message_id for each, judgement in judged if judgement.verdict is verdict
                ]
                if decided:
                    await store.set_verdict(decided, verdict)
        return judged

    async def _surroundings(
        self, thread: CatchUpThread, absent: Sequence[StoredMessage], listed: ListedThread
    ) -> _Surroundings:
        first = min(Decimal(each.slack_ts) for each in absent)
        last = max(Decimal(each.slack_ts) for each in absent)
        shown = [message for message in listed.messages if is_evidence(message, self._team)]
        older = any(Decimal(message["ts"]) < first for message in shown)
        newer = any(Decimal(message["ts"]) > last for message in shown)
        if not older:
            page = await self._history.last_before(thread.channel, f"{first:.6f}")
            older = any(is_evidence(message, self._team) for message in page)
        if not newer:
            page = await self._history.last_after(thread.channel, f"{last:.6f}")
            newer = any(is_evidence(message, self._team) for message in page)
        return _Surroundings(older, newer)

    async def _report_doubts(
        self, thread: CatchUpThread, judged: Sequence[tuple[StoredMessage, Judgement]]
    ) -> None:
        doubts = [
            judgement.reason for _, judgement in judged if judgement.verdict is Verdict.DOUBTED
        ]
        if not doubts:
            return
        place = {"channel": thread.channel, "thread_ts": thread.thread_ts}
        _log.warning("absence_doubted", messages=len(doubts), reason=doubts[0], **place)
        await self._faults.report(FAULT, self._team, doubt_text(thread.channel, doubts[0]))


def doubt_text(channel: str, reason: str) -> str:
    """Return the text for the admin; the fault is the workspace's, and the channel an example."""
    return (
        f"Slack no longer shows messages that I have stored, for example in <#{channel}>: "
        f"{reason}. I do not treat them as deleted: I keep everything and continue. Please check "
        "the retention settings of the workspace and of its channels, its plan, and that the "
        "token belongs to the right workspace. `threadline messages list` shows the messages."
    )


def _is_tombstone(message: RawMessage) -> bool:
    return message.get("subtype") == "tombstone"
