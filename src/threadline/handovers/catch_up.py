"""HandoverThreads: what the catch-up compares of the threads under handovers' cards."""

from collections.abc import Collection
from decimal import Decimal

from threadline.db.engine import Transaction
from threadline.handovers.model import HANDOVER, ref_of
from threadline.handovers.store import HandoverAnswerStore
from threadline.slack.model import Thread
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.comparison import ThreadSource
from threadline.threads.message_table import StoredMessage


class HandoverThreads(ThreadSource):
    """Answers under cards. One that is marked as shown needs nothing more; every other is sent again."""

    kind = HANDOVER

    async def find_messages(
        self, tx: Transaction, thread: CatchUpThread, ids: Collection[str]
    ) -> dict[str, StoredMessage]:
        return await HandoverAnswerStore(tx).find(ref_of(thread.owner), ids) if thread.owner else {}

    async def messages_between(
        self, tx: Transaction, thread: CatchUpThread, oldest: Decimal, latest: Decimal
    ) -> list[StoredMessage]:
        if not thread.owner:
            return []
        card = Thread(thread.team, thread.channel, thread.thread_ts)
        return await HandoverAnswerStore(tx).between(ref_of(thread.owner), card, oldest, latest)

    async def stored_ids(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        return await HandoverAnswerStore(tx).stored_ids(ids)
