"""The sweep of conversations: one in which something waits runs."""

from collections.abc import Sequence

from threadline.conversations.contract import conversation_start
from threadline.conversations.store.conversation import ConversationStore, WaitingConversation
from threadline.db.engine import Database, Transaction
from threadline.threads.sweep import WorkflowSweep
from threadline.threads.workflow_client import WorkflowClient, WorkflowStart


class OpenConversations(WorkflowSweep[WaitingConversation]):
    """Args: `quiet`: seconds of silence after which a run ends."""

    name = "conversations"

    def __init__(self, database: Database, workflows: WorkflowClient, quiet: float) -> None:
        super().__init__(database, workflows)
        self._quiet = quiet

    async def find(self, tx: Transaction, after: int, limit: int) -> Sequence[WaitingConversation]:
        return await ConversationStore(tx).waiting_conversations(after, limit, self._quiet)

    def start_of(self, item: WaitingConversation) -> WorkflowStart:
        return conversation_start(item.thread)
