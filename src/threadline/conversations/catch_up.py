"""ConversationThreads: the catch-up's view of the threads of conversations."""

from collections.abc import Collection, Sequence
from decimal import Decimal

from threadline.conversations.model.listening import (
    DEFAULT_LISTENING,
    Listening,
    begins_conversation,
)
from threadline.conversations.store.conversation import ConversationStore, active_threads_query
from threadline.conversations.store.messages import MESSAGES
from threadline.db.engine import Query, Transaction
from threadline.slack.history import RawMessage
from threadline.slack.model import BOT_NAME
from threadline.slack.text import (
    apps_of,
    files_of,
    read_text,
    text_of,
    without_leading_mention,
)
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.comparison import ThreadSource, is_direct, may_speak, mentions_user
from threadline.threads.contract import LookScope
from threadline.threads.message_table import StoredMessage
from threadline.threads.model import ThreadOwner


class ConversationThreads(ThreadSource):
    """Threads in which people talk with the bot, or may begin to."""

    kind = "conversation"
    table = MESSAGES
    scope = LookScope.CONVERSATIONS
    everywhere = True

    def __init__(
        self,
        bot_user_id: str,
        allowed_apps: Collection[str] = (),
        bot_name: str = BOT_NAME,
        listening: Listening = DEFAULT_LISTENING,
    ) -> None:
        self._bot_user_id = bot_user_id
        self._bot_name = bot_name
        self._allowed_apps = allowed_apps
        self._listening = listening

    def begins(self, channel: str, root: RawMessage) -> bool:
        told = read_text(root)
        return begins_conversation(
            self._listening.of(channel),
            told.written,
            by_app=bool(apps_of(root)),
            has_more=bool(told.forwarded or files_of(root)),
        )

    def active_threads(self, team: str, since: float) -> Query:
        """Return the query for active threads. In a channel that is not followed, stored messages
        are the only sign of activity.
        """
        return active_threads_query(team, since)

    def relevant(
        self, thread: CatchUpThread, author_id: str, shown: Sequence[RawMessage]
    ) -> list[RawMessage]:
        """Return people's messages since the first mention; all of them in a direct message, and
        after a message that begins a conversation without one.
        """
        others = [each for each in shown if each.get("user") != self._bot_user_id]
        theirs = [each for each in others if may_speak(each, self._allowed_apps)]
        if is_direct(thread.channel):
            return theirs
        first = [] if thread.first_message_at is None else [thread.first_message_at]
        called = [Decimal(each["ts"]) for each in theirs if mentions_user(self._bot_user_id, each)]
        begun = [
            Decimal(each["ts"])
            for each in theirs
            if each["ts"] == thread.thread_ts and self.begins(thread.channel, each)
        ]
        since = min((*called, *begun, *first), default=Decimal("Infinity"))
        return [each for each in theirs if Decimal(each["ts"]) >= since]

    def text(self, message: RawMessage) -> str:
        """Return the text without the bot's leading mention, as the gateway sends it."""
        return without_leading_mention(text_of(message), self._bot_user_id, self._bot_name)

    def is_same(self, message: RawMessage, stored: StoredMessage) -> bool:
        """Compare a message with its stored version. A message that was stored as not addressed
        differs once it mentions the bot.
        """
        newly_addressed = not stored.addressed and mentions_user(self._bot_user_id, message)
        return not newly_addressed and super().is_same(message, stored)

    async def owner_id(self, tx: Transaction, owner: ThreadOwner) -> int | None:
        return await ConversationStore(tx).find_id(owner.thread)
