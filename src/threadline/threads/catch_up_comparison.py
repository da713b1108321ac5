"""One thread as Slack shows it against the same thread as it is stored: what nobody has told us of."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from temporalio import activity

from threadline.db.engine import Database
from threadline.db.unit_of_work import Work
from threadline.privacy.redaction import redact
from threadline.slack.history import History
from threadline.slack.model import Thread
from threadline.threads import addressing, messages
from threadline.threads import catch_up_events as missed_events
from threadline.threads.catch_up_events import MissedEvent, Raw
from threadline.threads.catch_up_store import DueThread
from threadline.threads.catch_up_stored import CaseMemory, HandoverMemory, Memory, TalkMemory
from threadline.threads.message_table import StoredMessage


@dataclass(frozen=True)
class Difference:
    """`missing`: what is to be signalled. `young`: something was too fresh to be judged, so a look is due again."""

    missing: list[MissedEvent]
    young: bool = False


@dataclass(frozen=True)
class _Sides:
    """Both sides of one thread; `author` is who wrote its root, as far as anybody knows."""

    thread: DueThread
    memory: Memory
    shown: list[Raw]
    stored: Mapping[str, StoredMessage]
    author: str


class Comparison:
    """Run within an activity, which is told of each message that Slack shows.

    Args:
        team: the workspace's id.
        bot_user: our own user's id.
        channels: those of cases, with whether their threads there have a root of ours, also when it is gone. In any
            other channel a thread is a conversation, or may become one.
    """

    def __init__(
        self, database: Database, history: History, team: str, bot_user: str, channels: Mapping[str, bool]
    ) -> None:
        self._database = database
        self._history = history
        self._team = team
        self._bot_user = bot_user
        self._channels = channels

    def is_talk(self, thread: DueThread) -> bool:
        return thread.channel not in self._channels

    async def of(self, thread: DueThread, oldest: float, latest: float) -> Difference:
        """Compare what was said, edited and deleted between two moments, in seconds since 1970."""
        floor, end = max(thread.floor, Decimal(f"{oldest:.6f}")), Decimal(f"{latest:.6f}")
        async with self._database.begin() as work:  # before Slack is asked: what is stored meanwhile is not gone
            memory = await self._memory(work, thread)
            said = await memory.said_in(work, floor, end)
        listed = await self._listed(thread, thread.thread_ts, floor)
        shown = memory.concerns([message for message in listed if floor < Decimal(message["ts"]) < end])
        sides = await self._sides(thread, memory, listed, shown)
        missing = [event for message in shown if (event := self._told(sides, message, end))]
        missing += [self._deletion(sides, message) for message in await self._gone(sides, said, listed)]
        young = any(Decimal(message["ts"]) >= end or _edited(message) >= end for message in listed)
        return Difference(missing, young)

    async def _memory(self, work: Work, thread: DueThread) -> Memory:
        if self.is_talk(thread):
            return TalkMemory(thread, self._team, self._bot_user)
        place = Thread(self._team, thread.channel, thread.thread_ts)
        if not thread.bug_id and (handover := await work.handovers.at(place)):
            return HandoverMemory(thread, self._team, handover.ref)
        return CaseMemory(thread, self._team)

    async def _sides(self, thread: DueThread, memory: Memory, listed: list[Raw], shown: list[Raw]) -> _Sides:
        async with self._database.begin() as work:
            stored = await memory.stored(work, [self._id(thread, message) for message in shown])
        root = next((message for message in listed if message["ts"] == thread.thread_ts), {})
        gone = not root or root.get("subtype") == "tombstone"
        return _Sides(thread, memory, shown, stored, self._author(thread) if gone else str(root.get("user") or ""))

    def _author(self, thread: DueThread) -> str:
        """Who wrote a root that is gone."""
        return self._bot_user if thread.bug_id and self._channels.get(thread.channel) else thread.reporter_id

    async def _listed(self, thread: DueThread, root: str, floor: Decimal) -> list[Raw]:
        listed = []
        async for message in self._history.thread(thread.channel, root, f"{floor:.6f}"):
            activity.heartbeat()
            listed.append(message)
        return listed

    def _told(self, sides: _Sides, message: Raw, end: Decimal) -> MissedEvent | None:
        thread, identity = sides.thread, self._id(sides.thread, message)
        if message.get("subtype") == "tombstone" or not (sides.author or sides.memory.placed):
            return None  # under a deleted root without a case nobody knows whose thread it is
        author = sides.author or self._bot_user
        before = sides.stored.get(identity)
        if before is None:
            return missed_events.posted(self._team, thread.channel, message, author, identity)
        version = _edited(message)
        if not 0 < version < end or before.sender_type == messages.BOT:
            return None
        edit = addressing.edit_id(self._team, thread.channel, str(message["ts"]), str(message["edited"]["ts"]))
        if edit in sides.stored or _kept(sides.memory.text(message)) == _kept(before.message_text):
            return None
        return missed_events.edited(self._team, thread.channel, message, author, edit, before)

    async def _gone(self, sides: _Sides, said: list[StoredMessage], listed: list[Raw]) -> list[StoredMessage]:
        """What is stored and not there any more. A case may have more threads in this channel, known to us or not."""
        there = {str(message["ts"]) for message in listed if message.get("subtype") != "tombstone"}
        gone = [message for message in said if message.slack_ts not in there]
        if not gone:
            return []
        async with self._database.begin() as work:
            others = await sides.memory.others(work)
        for root in others:
            since = min(Decimal(message.slack_ts) for message in gone) - 1
            elsewhere = {str(message["ts"]) for message in await self._listed(sides.thread, root, since)}
            gone = [message for message in gone if message.slack_ts not in elsewhere]
            if not gone:
                return []
        return [message for message in gone if not await self._is_there(message)]

    async def _is_there(self, message: StoredMessage) -> bool:
        """Asked before each deletion: one that is inferred from a wrong list takes somebody's words for good."""
        activity.heartbeat()
        return await self._history.shows(message.channel, message.slack_ts)

    def _deletion(self, sides: _Sides, gone: StoredMessage) -> MissedEvent:
        identity = addressing.deletion_id(self._team, gone.channel, gone.slack_ts)
        by_bot = gone.sender_type == messages.DEVELOPER
        author = self._bot_user if by_bot else sides.thread.reporter_id
        return missed_events.deleted(self._team, gone, sides.thread.thread_ts, author, identity)

    def _id(self, thread: DueThread, message: Raw) -> str:
        return addressing.message_id(self._team, thread.channel, str(message["ts"]))


def _kept(text: str) -> str:
    """A text as it would be stored today: rules that are newer than what is stored make no edit either."""
    return messages.clean(redact(text))


def _edited(message: Raw) -> Decimal:
    edited = message.get("edited")
    return Decimal(str(edited.get("ts") or 0)) if isinstance(edited, Mapping) else Decimal(0)
