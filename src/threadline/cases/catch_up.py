"""CaseThreads: the threads of cases that the catch-up compares with Slack."""

from collections.abc import Sequence

from threadline.cases.contract import case_start
from threadline.cases.model import CLOSING
from threadline.cases.store.case import ACTOR, CaseStore, open_threads_query
from threadline.cases.store.messages import MESSAGES
from threadline.db.engine import Query, Transaction
from threadline.slack.history import RawMessage
from threadline.slack.model import Thread
from threadline.threads.basis import LostPost
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.comparison import MissedEvent, ThreadSource
from threadline.threads.contract import LookScope
from threadline.threads.model import (
    IncomingMessage,
    MessageKind,
    SenderType,
    ThreadOwner,
    message_id,
)

CLOSED_BEFORE_RESTORE = "It was closed before the database was restored from a backup."


class CaseThreads(ThreadSource):
    """The report's thread and the developers' threads of a case, or a thread that may become a
    report's.
    """

    kind = "case"
    table = MESSAGES
    scope = LookScope.CASES
    always_due = True

    def active_threads(self, team: str, since: float) -> Query:
        """Select open cases' threads whose root is older than `since`.

        A channel's history shows a new reply only on the thread's root.
        """
        return open_threads_query(team, since)

    def relevant(
        self, thread: CatchUpThread, author_id: str, shown: Sequence[RawMessage]
    ) -> list[RawMessage]:
        """Return all messages; none under a deleted root that no case owns, whose author is
        unknown.
        """
        return list(shown) if author_id or thread.owner else []

    def lost_end(self, thread: Thread, post: LostPost) -> MissedEvent | None:
        """Return a close for the case whose closing post is in the report's thread.

        It ends the case again, as an admin would. Any other post returns None.
        """
        if (post.kind, post.subject) != (CLOSING, thread.key):
            return None
        close = IncomingMessage(
            id=f"restored:{message_id(thread.team, thread.channel, post.ts)}",
            kind=MessageKind.CLOSE,
            sender_type=SenderType.ADMIN,
            sender_id=ACTOR,
            text=CLOSED_BEFORE_RESTORE,
            channel=thread.channel,
            ts=post.ts,
        )
        return MissedEvent(close.id, (post.ts, ""), {}, case_start(thread, close))

    async def owner_id(self, tx: Transaction, owner: ThreadOwner) -> str:
        return await CaseStore(tx).bug_id(owner.thread)
