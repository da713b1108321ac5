"""What is stored of a thread, a case's or a conversation's, as it is held against what Slack shows."""

from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Protocol

from threadline.cases.message_store import CaseMessageStore
from threadline.db.unit_of_work import Work
from threadline.handovers.model import HandoverRef
from threadline.slack import mentions, rich_text
from threadline.slack.model import Thread
from threadline.threads.catch_up_events import Raw, is_direct
from threadline.threads.catch_up_store import DueThread
from threadline.threads.message_table import StoredMessage
from threadline.threads.store import ThreadStore


class Memory(Protocol):
    """One thread's."""

    @property
    def placed(self) -> bool:
        """Whether it is known whose thread it is, also when its root is gone."""
        ...

    def concerns(self, shown: Sequence[Raw]) -> list[Raw]:
        """Which of these messages may be missing."""
        ...

    def text(self, message: Raw) -> str:
        """The message's text, as far as it is kept."""
        ...

    async def stored(self, work: Work, ids: Collection[str]) -> dict[str, StoredMessage]:
        """Which of these messages are stored, by id, with whatever corrects them."""
        ...

    async def said_in(self, work: Work, oldest: Decimal, latest: Decimal) -> list[StoredMessage]:
        """What people are stored to have said between two moments and not to have deleted."""
        ...

    async def others(self, work: Work) -> list[str]:
        """Roots in the same channel under which a message may be that is stored of this thread."""
        ...


class CaseMemory(Memory):
    """A thread that belongs to a case, or to none yet."""

    def __init__(self, thread: DueThread, team: str) -> None:
        self._thread = thread
        self._team = team

    @property
    def placed(self) -> bool:
        return bool(self._thread.bug_id)

    def concerns(self, shown: Sequence[Raw]) -> list[Raw]:
        return list(shown)

    def text(self, message: Raw) -> str:
        return rich_text.text_of(message)

    async def stored(self, work: Work, ids: Collection[str]) -> dict[str, StoredMessage]:
        return await CaseMessageStore(work.tx).find_messages(self._thread.bug_id, ids) if self.placed and ids else {}

    async def said_in(self, work: Work, oldest: Decimal, latest: Decimal) -> list[StoredMessage]:
        if not self.placed:
            return []
        return await CaseMessageStore(work.tx).messages_between(
            self._thread.bug_id, self._team, self._thread.channel, oldest, latest
        )

    async def others(self, work: Work) -> list[str]:
        owner = await ThreadStore(work.tx).owner(Thread(self._team, self._thread.channel, self._thread.thread_ts))
        roots = await ThreadStore(work.tx).roots(owner.workflow_id, self._thread.channel) if owner else []
        return [each for each in roots if each != self._thread.thread_ts]


class HandoverMemory(CaseMemory):
    """The thread of a hand-over's card: what was written there is said elsewhere, and is no case's."""

    placed = True

    def __init__(self, thread: DueThread, team: str, ref: HandoverRef) -> None:
        super().__init__(thread, team)
        self._ref = ref

    async def stored(self, work: Work, ids: Collection[str]) -> dict[str, StoredMessage]:
        return await work.handover_answers.stored(self._ref, ids)

    async def said_in(self, work: Work, oldest: Decimal, latest: Decimal) -> list[StoredMessage]:
        return await work.handover_answers.said_in(self._ref, oldest, latest)

    async def others(self, work: Work) -> list[str]:
        return []


class TalkMemory(Memory):
    """A thread in which people talk with the bot, or may begin to: `bot_user` is its user's id."""

    placed = True

    def __init__(self, thread: DueThread, team: str, bot_user: str) -> None:
        self._thread = Thread(team, thread.channel, thread.thread_ts)
        self._since = [thread.since] if thread.since is not None else []
        self._bot_user = bot_user

    def concerns(self, shown: Sequence[Raw]) -> list[Raw]:
        """What people said since one of them spoke to the bot: what they said before was none of its business.

        In direct messages all is said to the bot.
        """
        theirs = [each for each in shown if each.get("user") != self._bot_user and not each.get("bot_id")]
        if is_direct(self._thread.channel):
            return theirs
        called = [Decimal(each["ts"]) for each in theirs if calls(self._bot_user, each)]
        since = min((*called, *self._since), default=Decimal("Infinity"))
        return [each for each in theirs if Decimal(each["ts"]) >= since]

    def text(self, message: Raw) -> str:
        return mentions.without(rich_text.text_of(message), self._bot_user)

    async def stored(self, work: Work, ids: Collection[str]) -> dict[str, StoredMessage]:
        return await work.talked.stored(self._thread, ids)

    async def said_in(self, work: Work, oldest: Decimal, latest: Decimal) -> list[StoredMessage]:
        return await work.talked.said_in(self._thread, oldest, latest)

    async def others(self, work: Work) -> list[str]:
        return []


def calls(user: str, message: Raw) -> bool:
    """Whether a message, as Slack's history shows it, mentions a user."""
    return user in mentions.mentioned(rich_text.words_of(message))
