"""HandoverThreads: what the catch-up compares of the threads under handovers' cards."""

from collections.abc import Collection
from decimal import Decimal

from threadline.conversations.store.conversation import ConversationStore
from threadline.db.engine import Transaction
from threadline.handovers.model import HANDOVER, ref_of
from threadline.handovers.store import ANSWERS, HandoverAnswerStore
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.comparison import ThreadSource
from threadline.threads.message_table import StoredMessage
from threadline.threads.model import ThreadOwner


class HandoverThreads(ThreadSource):
    """Answers under cards. One that is marked as shown needs nothing more; every other is sent again."""

    kind = HANDOVER
    table = ANSWERS

    async def owner_id(self, tx: Transaction, owner: ThreadOwner) -> int | None:
        return await ConversationStore(tx).find_id(owner.thread)

    async def find_messages(
        self, tx: Transaction, thread: CatchUpThread, ids: Collection[str]
    ) -> dict[str, StoredMessage]:
        found = await super().find_messages(tx, thread, ids)
        shown = await self.stored_ids(tx, found)
        return {each: message for each, message in found.items() if each in shown}

    async def messages_between(
        self, tx: Transaction, thread: CatchUpThread, oldest: Decimal, latest: Decimal
    ) -> list[StoredMessage]:
        found = await super().messages_between(tx, thread, oldest, latest)
        under_card = await HandoverAnswerStore(tx).ids_under_card(ref_of(thread.owner)) if thread.owner else set()
        return [each for each in found if each.message_id in under_card]

    async def stored_ids(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        return await HandoverAnswerStore(tx).shown_ids(ids)
