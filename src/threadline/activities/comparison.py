"""One thread as Slack shows it against the same thread as it is stored: what nobody has told us of."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from threadline.activities import missed_events
from threadline.activities.missed_events import MissedEvent, Raw
from threadline.db.conversation import StoredMessage
from threadline.db.engine import Database
from threadline.db.followed import DueThread
from threadline.domain import addressing, messages, rich_text
from threadline.domain.redaction import redact
from threadline.slack.history import History


@dataclass(frozen=True)
class Difference:
    """`missing`: what is to be signalled. `young`: something was too fresh to be judged, so a look is due again."""

    missing: list[MissedEvent]
    young: bool = False


@dataclass(frozen=True)
class _Sides:
    """Both sides of one thread; `author` is who wrote its root, as far as anybody knows."""

    thread: DueThread
    shown: list[Raw]
    stored: Mapping[str, StoredMessage]
    author: str


class Comparison:
    """Args: `team` is the workspace's id, `bot_user` our own user's: the root of a thread that we opened is ours."""

    def __init__(self, database: Database, history: History, team: str, bot_user: str) -> None:
        self._database = database
        self._history = history
        self._team = team
        self._bot_user = bot_user

    async def of(self, thread: DueThread, oldest: float, latest: float) -> Difference:
        """Compare what was said, edited and deleted between two moments, in seconds since 1970."""
        floor, end = max(thread.floor, Decimal(f"{oldest:.6f}")), Decimal(f"{latest:.6f}")
        listed = [message async for message in self._history.thread(thread.channel, thread.thread_ts, f"{floor:.6f}")]
        shown = [message for message in listed if floor < Decimal(message["ts"]) < end]
        sides = await self._sides(thread, listed, shown)
        missing = [event for message in shown if (event := self._told(sides, message, end))]
        if thread.bug_id:
            missing += await self._deletions(sides, listed, floor, end)
        young = any(Decimal(message["ts"]) >= end or _edited(message) >= end for message in listed)
        return Difference(missing, young)

    async def _sides(self, thread: DueThread, listed: list[Raw], shown: list[Raw]) -> _Sides:
        ids = [self._id(thread, message) for message in shown]
        stored: dict[str, StoredMessage] = {}
        if thread.bug_id and ids:
            async with self._database.begin() as work:
                stored = await work.conversation.stored(thread.bug_id, ids)
        root = next((message for message in listed if message["ts"] == thread.thread_ts), {})
        gone = not root or root.get("subtype") == "tombstone"
        return _Sides(thread, shown, stored, thread.reporter_id if gone else str(root.get("user") or ""))

    def _told(self, sides: _Sides, message: Raw, end: Decimal) -> MissedEvent | None:
        thread, identity = sides.thread, self._id(sides.thread, message)
        if message.get("subtype") == "tombstone" or not (sides.author or thread.bug_id):
            return None  # under a deleted root without a case nobody knows whose thread it is
        author = sides.author or self._bot_user
        before = sides.stored.get(identity)
        if before is None:
            return missed_events.posted(self._team, thread.channel, message, author, identity)
        version = _edited(message)
        if not 0 < version < end or before.sender_type == messages.BOT:
            return None
        edit = addressing.edit_id(self._team, thread.channel, str(message["ts"]), str(message["edited"]["ts"]))
        if edit in sides.stored or _kept(rich_text.text_of(message)) == _kept(before.message_text):
            return None
        return missed_events.edited(self._team, thread.channel, message, author, edit, before)

    async def _deletions(self, sides: _Sides, listed: list[Raw], floor: Decimal, end: Decimal) -> list[MissedEvent]:
        """What is stored and not shown any more, neither here nor in another thread of the case in this channel."""
        thread = sides.thread
        there = {str(message["ts"]) for message in listed if message.get("subtype") != "tombstone"}
        async with self._database.begin() as work:
            said = await work.conversation.said_in(thread.bug_id, self._team, thread.channel, floor, end)
            others = await work.threads.others(thread.bug_id, thread.channel, thread.thread_ts)
        gone = [message for message in said if message.slack_ts not in there]
        for root in others if gone else ():
            oldest = f"{min(Decimal(message.slack_ts) for message in gone) - 1:.6f}"
            elsewhere = {str(message["ts"]) async for message in self._history.thread(thread.channel, root, oldest)}
            gone = [message for message in gone if message.slack_ts not in elsewhere]
        return [self._deletion(sides, message) for message in gone]

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
