"""What a person writes under a hand-over's card is said in the thread of who asks, once, as it reads now."""

import structlog

from threadline.db.engine import Database
from threadline.errors import InternalError, Permanent
from threadline.handovers import blocks as shown
from threadline.handovers.model import HANDOVER, handover_workflow_id, parse_card_key, post_key
from threadline.handovers.posts import HandoverPosts
from threadline.handovers.store import Handover
from threadline.models.model import Message, Role
from threadline.slack.client import Slack
from threadline.slack.model import Thread
from threadline.threads.message_table import redact_message
from threadline.threads.model import IncomingMessage, MessageKind, ThreadOwner
from threadline.threads.outbox import Outbox
from threadline.threads.store import PostStore, ThreadStore

_log = structlog.get_logger(__name__)


class Relaying:
    """Args: `bot_user` is our own user's id."""

    def __init__(self, database: Database, slack: Slack, outbox: Outbox, bot_user: str) -> None:
        self._database = database
        self._slack = slack
        self._outbox = HandoverPosts(slack, outbox)
        self._bot_user = bot_user

    async def relay(self, place: Thread, message: IncomingMessage) -> bool:
        """Say it where it is waited for. Whoever answers what nobody has taken has taken it.

        Returns:
            whether the place is the thread of a hand-over; where it is not, nothing has happened.
        """
        handover = await self._at(place)
        if handover is None:
            return False
        message = redact_message(message)
        async with self._database.begin() as work:
            if await work.handover_answers.has(handover.ref, message.id):
                return True
            now = await work.handover_answers.as_it_reads(handover.ref, message)
            if now and handover.open and now.kind == MessageKind.MESSAGE:
                await work.handovers.take(handover.ref, now.sender_id)
        if now:
            await self._say_or_tell(handover, now)
        async with self._database.begin() as work:  # at last: until then the catch-up sends it again
            await work.handover_answers.keep(handover.ref, message)
        _log.info("message_relayed", handover=handover.ref.key, kind=message.kind, open=handover.open)
        return True

    async def _say_or_tell(self, handover: Handover, message: IncomingMessage) -> None:
        """Where nothing more can be said, its writer is told so."""
        try:
            await self._say(handover, message)
        except InternalError:
            raise
        except Permanent as refused:  # else what people write under the card next would wait behind it for ever
            _log.warning("message_not_relayed", handover=handover.ref.key, reason=str(refused))
            words = shown.unsaid(message.sender_id, str(refused), again=message.kind == MessageKind.MESSAGE)
            await self._outbox.under_card(handover, f"unsaid:{message.id}", words)

    async def _say(self, handover: Handover, message: IncomingMessage) -> None:
        """Do what the message asks for, where somebody waits for it.

        Raises:
            Permanent: nothing more can be said there.
        """
        what = f"answer:{message.correction_of or message.id}"
        if message.kind == MessageKind.QUARANTINED:
            _log.error("message_unreadable", handover=handover.ref.key, message=message.id)
        elif message.kind in (MessageKind.EDIT, MessageKind.DELETION):
            await self._correct(handover, what, message)
        elif handover.closed_before(float(message.ts)) and not await self._part_timestamps(handover, what):
            # Under a key that is no answer's, which could be corrected. Parts of one are of an earlier try.
            await self._outbox.under_card(handover, f"over:{message.id}", shown.over())
        elif text := _words(message):
            await self._outbox.in_thread(handover, what, shown.answered(message.sender_id, text))
            await self._note(handover, message.id, _noted(message.sender_id, text))

    async def _part_timestamps(self, handover: Handover, what: str) -> list[str]:
        """The `ts` of each message in which it was said."""
        async with self._database.begin() as work:
            return list(await PostStore(work.tx).part_timestamps(post_key(handover.ref, what)))

    async def _correct(self, handover: Handover, what: str, message: IncomingMessage) -> None:
        """Every part that was said with it reads as it does now; nothing happens to what nobody has said."""
        thread = handover.ref.thread
        text = shown.DELETED if message.kind == MessageKind.DELETION else _words(message)
        places = await self._part_timestamps(handover, what)
        if not places:
            return
        async with self._database.begin() as work:  # at first: whatever Slack refuses, the agent reads no old words
            await work.transcripts.rewrite(thread, f"h:{message.correction_of}", _noted(message.sender_id, text))
        words = shown.answered(message.sender_id, text)
        await self._outbox.reword(thread.channel, places, words, shown.left_out())
        await self._outbox.in_thread(handover, what, words)  # the parts by which it is longer now

    async def _note(self, handover: Handover, message_id: str, words: str) -> None:
        """The agent knows later what a person has answered in its place."""
        thread = handover.ref.thread
        async with self._database.begin() as work:
            marks = await work.conversations.marks(thread)
            if marks.opened:
                note = Message(Role.ASSISTANT, words)
                await work.transcripts.append(thread, marks.turn, 0, [(f"h:{message_id}", note)])

    async def _at(self, place: Thread) -> Handover | None:
        async with self._database.begin() as work:
            if (known := await work.handovers.at(place)) or await ThreadStore(work.tx).owner(place):
                return known
        root = await self._slack.message(place.channel, place.ts)
        if root is None or root.user != self._bot_user:
            return None  # only our own metadata says whose thread it is
        ref = parse_card_key(str(root.payload.get("key", "")))
        if ref is None or ref.thread.team != place.team:
            return None
        async with self._database.begin() as work:  # its card was posted, and where is not on record yet
            if await work.handovers.of(ref) is None:
                return None
            owner = ThreadOwner(handover_workflow_id(ref.thread, ref.turn), HANDOVER)
            await ThreadStore(work.tx).register(owner, place.channel, place.ts)
            await work.handovers.shown(ref, place.channel, place.ts)
            return await work.handovers.of(ref)


def _noted(user_id: str, text: str) -> str:
    return f"{user_id}, a person of the team, answered: {text}"


def _words(message: IncomingMessage) -> str:
    return shown.with_files(message.text, message.files)
