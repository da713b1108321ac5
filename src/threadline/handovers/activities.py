"""LiveHandoverActivities: the card and its buttons, and messages that people write on either side.

Each post has a key of its own (`post_key`), so that it is posted once. Every method that posts raises what
`Outbox.publish` and `SlackClient.update` raise. `handovers/replies.py` carries replies from the card to the asker.
HandoverThreads is what the catch-up compares.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial

import structlog

from threadline.cases.model import CaseReaders
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database, Transaction
from threadline.decisions.model import RECENT_MESSAGES, last_round
from threadline.decisions.store import DecisionStore
from threadline.errors import InternalError, Mendable, Permanent, Transient
from threadline.handovers import blocks
from threadline.handovers.contract import HandoverActivities, HandoverState, Reminder, handover_start
from threadline.handovers.files import Attachments
from threadline.handovers.model import (
    CARD,
    CLOSE,
    HANDOVER,
    HOLD,
    REPLY,
    TAKE,
    UNDO,
    WRITTEN,
    WRITTEN_KEY,
    Handover,
    UnshownFile,
    handover_workflow_id,
    message_of,
    parse_value,
    post_key,
    ref_of,
    reply_value,
)
from threadline.handovers.posts import HandoverPosts
from threadline.handovers.replies import HandoverReplies
from threadline.handovers.reply import REPLY_PREFIX, Intent, ReplyState
from threadline.handovers.store import ANSWERS, HandoverAnswerStore, HandoverMessage, HandoverStore, StoredAnswer
from threadline.slack import formatting
from threadline.slack.client import SlackClient
from threadline.slack.formatting import Rendered
from threadline.slack.model import FileRef, Thread
from threadline.slack.text import is_blank
from threadline.threads.authors import AuthorPolicy
from threadline.threads.basis import Basis
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.comparison import ThreadSource
from threadline.threads.message_table import StoredMessage, redact_message, seconds
from threadline.threads.model import ButtonPress, IncomingMessage, MessageKind, SenderType, ThreadOwner
from threadline.threads.outbox import Outbox, Post
from threadline.threads.workflow_client import WorkflowClient

_GONE = "This handover is no longer on record, so nothing was changed."
_EXTERNAL = (
    "Guests and people from other companies cannot take or close a handover, so nothing was changed. "
    "Ask a member of this workspace to do it."
)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class HandoverSettings:
    """`channel`: where cards are posted, a channel's id. `remind_every` and `hold`: seconds between reminders, and for
    which a reply can be undone. `on_call`: users and groups that a card calls."""

    channel: str
    readers: CaseReaders
    remind_every: float = 1800.0
    hold: float = HOLD
    on_call: Sequence[str] = ()


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


@dataclass(frozen=True, eq=False)
class LiveHandoverActivities(HandoverActivities):
    """`authors` says whose press counts."""

    database: Database
    slack: SlackClient
    outbox: Outbox
    authors: AuthorPolicy
    workflows: WorkflowClient
    settings: HandoverSettings

    @property
    def posts(self) -> HandoverPosts:
        return HandoverPosts(self.database, self.slack, self.outbox)

    @property
    def replies(self) -> HandoverReplies:
        return HandoverReplies(self.database, self.posts, self.authors, self.settings.hold)

    # -- The card and its buttons ----------------------------------------------------------------------------------

    async def open_handover(self, ref: ConversationTurn) -> HandoverState:
        handover = await self._get(ref)
        if handover is None:
            return HandoverState(open=False)
        handover = await self._with_card(handover)
        try:  # what was deleted while the card was being posted stands on it
            await self._update_card(ref)
        except InternalError:
            raise
        except Permanent as refused:  # somebody has deleted the card; a run that waits for it would answer no press
            _log.warning("card_not_updated", handover=ref.key, reason=str(refused))
        await self.replies.show_waiting(handover)
        return await self._state(handover)

    async def press_handover(self, press: ButtonPress) -> HandoverState:
        ref = parse_value(press.value)
        before = await self._get(ref) if ref else None
        if before is None:
            return HandoverState(open=False, reply=_GONE)
        if press.action_id == WRITTEN:  # `receive_message` has recorded it
            return await self._state(before)
        if not before.open and press.action_id != UNDO:
            again = press.action_id == CLOSE and before.closed_by == press.user_id  # a try whose answer was lost
            reply = f"{formatting.mention(before.closed_by)} has already closed this handover."
            return await self._state(before, "" if again else reply)
        if press.action_id == TAKE and before.taken_by == press.user_id:
            return await self._state(before)
        card = Thread(before.ref.thread.team, before.channel or self.settings.channel, before.card_ts)
        if refused := await self._refusal(card, press.user_id):
            _log.info("handover_press_refused", handover=before.ref.key, user=press.user_id, reason=refused)
            return await self._state(before, refused)
        after, reply = await self._record_press(before, press)
        _log.info("handover_pressed", handover=before.ref.key, user=press.user_id, button=press.action_id)
        return await self._state(after, reply)

    async def _record_press(self, before: Handover, press: ButtonPress) -> tuple[Handover, str]:
        """Record a press that counts. Returns the handover, and what only the person who pressed is told."""
        ref, user = before.ref, press.user_id
        if press.action_id == REPLY:
            return await self._record_reply(before, press)
        async with self.database.begin() as tx:
            if press.action_id == UNDO:
                answer = await HandoverAnswerStore(tx).undo(ref, message_of(press.value), user)
                return before, _undo_refusal(answer.state if answer else None)
            if press.action_id == CLOSE:
                after = await HandoverStore(tx).close(ref, user, press.at)
                await HandoverAnswerStore(tx).end_holds(ref)  # the asker reads them before the end
                return after or before, ""
            after = await HandoverStore(tx).take(ref, user) or before
        taken = after.taken_by == user
        return after, "" if taken else f"{formatting.mention(after.taken_by)} has already taken this handover."

    async def _record_reply(self, before: Handover, press: ButtonPress) -> tuple[Handover, str]:
        """Store a reply that was written in the modal as if it had been written under the card."""
        if is_blank(press.text):
            return before, blocks.EMPTY_REPLY
        written = IncomingMessage(
            id=reply_id(press),
            kind=MessageKind.MESSAGE,
            sender_type=SenderType.DEVELOPER,
            sender_id=press.user_id,
            text=f"{REPLY_PREFIX} {press.text}",
            channel=before.channel,
            ts=f"{press.at or datetime.now(UTC).timestamp():.6f}",
        )
        await self._store(before.ref, redact_message(written))
        return await self._get(before.ref) or before, ""

    async def show_reply(self, press: ButtonPress) -> HandoverState:
        ref = parse_value(press.value)
        handover = await self._get(ref) if ref else None
        if handover is None:
            return HandoverState(open=False)
        handover = await self._with_card(handover)
        event_id = press.key.removeprefix(WRITTEN_KEY) if press.action_id == WRITTEN else ""
        await self.replies.show(handover, reply_id(press), event_id)
        if event_id:
            async with self.database.begin() as tx:  # last: until then the catch-up sends it again
                await HandoverAnswerStore(tx).mark_shown(handover.ref, event_id)
        return await self._state(handover)

    async def send_replies(self, ref: ConversationTurn) -> HandoverState:
        handover = await self._get(ref)
        if handover is None:
            return HandoverState(open=False)
        handover = await self._with_card(handover)
        await self.replies.send_due(handover)
        return await self._state(await self._get(ref) or handover)

    async def show_handover(self, ref: ConversationTurn) -> None:
        handover = await self._get(ref)
        if handover is None:
            return
        refusals: list[Permanent] = []
        try:
            await self._update_card(ref)
        except Permanent as error:  # the asker is told all the same
            refusals.append(error)
        changes = [("taken", handover.taken_by, blocks.TAKEN_BY), ("closed", handover.closed_by, blocks.CLOSED_BY)]
        for what, user, words in changes:
            try:
                if user:
                    await self._notify(handover, what, user, words)
            except Mendable as error:
                refusals.append(error)
        if refusals:  # one that can be mended first: then this is tried again
            raise min(refusals, key=lambda each: not isinstance(each, Mendable))

    async def remind_handover(self, reminder: Reminder) -> HandoverState:
        handover = await self._get(reminder.ref)
        if handover is None or not handover.open or handover.taken_by:
            return await self._state(handover) if handover else HandoverState(open=False)
        handover = await self._with_card(handover)
        notice = formatting.notice(blocks.NOBODY_YET, mentions=tuple(self.settings.on_call))
        about = await self._asked(handover.ref)
        await self.posts.post(handover.ref, f"reminder:{reminder.number}", handover.card, notice, about)
        async with self.database.begin() as tx:
            await HandoverStore(tx).record_reminder(reminder.ref, reminder.number)
        return await self._state(handover)

    async def _refusal(self, card: Thread, user: str) -> str:
        """The reason why a user's press does not count, in words for them; empty if it counts."""
        try:
            return "" if await self.authors.allows(card, user) else _EXTERNAL
        except InternalError:
            raise
        except Permanent as unknown:  # otherwise later presses would wait for this one for ever
            return f"Slack did not say who you are, so nothing was changed. {blocks.refused_text(unknown, '')}".strip()

    async def _state(self, handover: Handover, reply: str = "") -> HandoverState:
        async with self.database.begin() as tx:
            send_in = await HandoverAnswerStore(tx).send_in(handover.ref)
        every, reminded = self.settings.remind_every, handover.reminded
        return HandoverState(handover.open, handover.taken_by, every, reply, reminded, send_in)

    async def _get(self, ref: ConversationTurn) -> Handover | None:
        async with self.database.begin() as tx:
            return await HandoverStore(tx).get(ref)

    async def _with_card(self, handover: Handover) -> Handover:
        """The handover with its card's place; whoever needs that first posts the card."""
        if handover.card_ts:
            return handover
        ref, channel = handover.ref, self.settings.channel

        async def record(tx: Transaction, ts: str) -> None:
            await HandoverStore(tx).set_card(ref, channel, ts)

        opens = ThreadOwner(handover_workflow_id(ref.thread, ref.turn), HANDOVER)
        card = await self._card(handover)
        asked = await self._asked(ref)
        basis = Basis(f"{CARD}:{ref.turn}", ref.thread.key, asked, asked)  # its buttons name the turn
        post = Post(
            post_key(ref, CARD), channel, None, (card,), opens, on_posted=record, correlation_id=ref.key, basis=basis
        )
        await self.outbox.publish(post)
        posted = await self._get(ref)
        if posted is None:
            raise Permanent("The conversation is no longer stored.")
        return posted

    async def _asked(self, ref: ConversationTurn) -> tuple[str, ...]:
        """The `ts` of the messages that were handed over."""
        async with self.database.begin() as tx:
            return await TurnStore(tx).asked(ref.thread, ref.turn)

    async def _update_card(self, ref: ConversationTurn) -> None:
        """Have the card, if it is posted, show the handover as it is now. It is read again after each update: of two
        updates at the same time, the one that Slack gets last may be the one that was read first."""
        shown = None
        while (handover := await self._get(ref)) and handover.card_ts:
            card = await self._card(handover)
            if card == shown:
                return
            await self.slack.update(handover.channel, handover.card_ts, card.text, card.blocks)
            shown = card

    async def _card(self, handover: Handover) -> Rendered:
        """Made of the conversation as it is now: what somebody has deleted is not shown again."""
        ref, readers = handover.ref, self.settings.readers
        async with self.database.begin() as tx:
            question = "\n".join(await TurnStore(tx).request_texts(ref.thread, ref.turn, whole=True))
            conversation = await ConversationStore(tx).find_id(ref.thread)
            decided = last_round(await DecisionStore(tx).rounds(conversation, ref.turn))
            transcript = await TranscriptStore(tx).read(ref.thread)
        before = [each.message for each in transcript.messages if each.turn < ref.turn and each.message.spoken]
        address = readers.link(ref.thread) if readers.workspace else ""
        recent, on_call = before[-RECENT_MESSAGES:], self.settings.on_call
        return blocks.card(handover, question, recent, decided, address, on_call)

    async def _notify(self, handover: Handover, what: str, user: str, words: str) -> None:
        """In the asker's thread. Where nothing can be posted there, whoever pressed is told so under the card. Raises
        `Mendable` where it can be posted later."""
        ref = handover.ref
        try:
            await self.posts.post(ref, what, ref.thread, formatting.notice("", mentions=(user,), headline=words))
        except InternalError:
            raise
        except Permanent as refused:
            _log.warning("asker_not_notified", handover=ref.key, change=what, reason=str(refused))
            later = isinstance(refused, Mendable)
            text = blocks.refused_text(refused, blocks.untold(what, later=later))
            card = (await self._with_card(handover)).card
            await self.posts.post(ref, f"untold:{what}", card, formatting.notice(text, mentions=(user,)))
            if later:
                raise

    # -- From the asker to the person ------------------------------------------------------------------------------

    async def relay_to_person(self, turn: ConversationTurn) -> bool:
        missed, shown = False, None
        while True:
            async with self.database.begin() as tx:
                store = HandoverStore(tx)
                handovers = await store.list_for(turn.thread)
                written = await store.asker_messages(turn.thread, turn.turn) if handovers else []
            if written == shown:
                return missed
            missed = False
            for each in handovers:
                if turn.turn > each.ref.turn:
                    unseen = await self._show_messages(each, written, turn)
                    missed = missed or (unseen and each is handovers[0])  # the newest one is closed
                else:  # the card shows what the turn was handed over with, and what was said before
                    await self._update_card(each.ref)
            shown = written  # what was deleted or edited while it was on its way stands there

    async def relay_until_mended(self, turn: ConversationTurn) -> bool:
        return await self.relay_to_person(turn)

    async def _show_messages(
        self, handover: Handover, written: Sequence[HandoverMessage], turn: ConversationTurn
    ) -> bool:
        """Show under the card what is not there yet, unless it is closed, and what is there as it reads now; returns
        whether something is not there, since it is closed."""
        missed = False
        for each in written:
            posted = await self.posts.parts(handover.ref, _said(each))
            is_new = not posted and not each.deleted and each.user_id != handover.taken_by
            missed = missed or (is_new and not handover.open)
            if posted or (is_new and handover.open):
                handover = await self._with_card(handover)
                old = posted if each.deleted or each.edited else ()
                await self._show_message(handover, each, old, ())
                if each.files or old:
                    await self._show_files(handover, each, turn)
        return missed

    async def _show_message(
        self, handover: Handover, said: HandoverMessage, parts: Sequence[str], unshown: Sequence[UnshownFile]
    ) -> None:
        words = await self.authors.words_to_relay(said.text)
        text = blocks.DELETED if said.deleted else blocks.with_unshown(words, unshown)
        rendered = formatting.notice(text, mentions=(said.user_id,), headline="wrote")
        about = (said.ts,)
        await self.posts.reword(handover.ref, _said(said), handover.card, rendered, parts, blocks.DELETED, about)

    async def _show_files(self, handover: Handover, said: HandoverMessage, turn: ConversationTurn) -> None:
        """Show the files of a message of the asker under the card. Those that cannot be shown are named there, and the
        asker is told why; where Slack refuses that, the message counts as shown."""
        ref = handover.ref
        read_files = partial(self._read_files, turn, said.message_id)
        attached = Attachments(ref, said.message_id, said.user_id, said.files, handover.card, _said(said), read_files)
        unshown = await self.posts.files.show(attached)
        if not unshown:
            return
        try:
            await self._show_message(handover, said, await self.posts.parts(ref, _said(said)), unshown)
            told = formatting.notice(blocks.unshown_text(unshown), mentions=(said.user_id,))
            await self.posts.post(ref, f"unshown:{said.message_id}", ref.thread, told, (said.ts,))
        except (InternalError, Mendable):
            raise
        except Permanent as refused:
            _log.warning("unshown_files_not_named", handover=ref.key, reason=str(refused))

    async def _read_files(self, turn: ConversationTurn, message_id: str) -> tuple[FileRef, ...]:
        """The files of a message of the asker as it reads now."""
        async with self.database.begin() as tx:
            written = await HandoverStore(tx).asker_messages(turn.thread, turn.turn)
        return next((each.files for each in written if each.message_id == message_id and not each.deleted), ())

    # -- From the person to the asker ------------------------------------------------------------------------------

    async def receive_message(self, owner: ThreadOwner, message: IncomingMessage) -> bool:
        """Store a message that was written under a card, whose thread `owner` has, and tell the handover's workflow if
        it concerns the asker: it takes the handover, or it is a reply or a correction of one. Words that are meant for
        colleagues go nowhere. Returns whether there is such a handover; otherwise nothing has happened."""
        handover = await self._get(ref_of(owner))
        if handover is None:
            return False
        handover, message = await self._with_card(handover), redact_message(message)
        stored = await self._store(handover.ref, message)
        if stored and stored.answer.state is not ReplyState.INTERNAL:
            await self._press(handover, message, WRITTEN, reply_value(handover.ref, stored.answer.message_id))
            return True  # the workflow marks it as shown: until then the catch-up sends it again
        if stored and _takes(stored, message, handover):
            await self._press(handover, message, TAKE, handover.ref.key)
        elif stored and stored.is_new and message.kind == MessageKind.MESSAGE:
            await self._hint(handover, message)
        async with self.database.begin() as tx:
            await HandoverAnswerStore(tx).mark_shown(handover.ref, message.id)
        _log.info("message_under_card", handover=handover.ref.key, kind=message.kind, open=handover.open)
        return True

    async def _store(self, ref: ConversationTurn, message: IncomingMessage) -> StoredAnswer | None:
        """Store a message; one that takes the handover does so at once, since the workflow may be waiting for Slack,
        and the agent is to be silent from now on."""
        async with self.database.begin() as tx:
            await ConversationStore(tx).lock(ref.thread)  # before the handover is read: nobody closes it meanwhile
            handover = await HandoverStore(tx).get(ref)
            stored = await HandoverAnswerStore(tx).store(handover, message) if handover else None
            if handover and stored and _is_taken_by(stored, message, handover):
                await HandoverStore(tx).take(ref, message.sender_id)
        return stored

    async def _press(self, handover: Handover, message: IncomingMessage, action: str, value: str) -> None:
        """Press for the author of a message, so that the workflow knows of it."""
        key, at = f"{WRITTEN_KEY}{message.id}", float(seconds(message.ts))
        press = ButtonPress(message.sender_id, action, value, key, at, handover.channel, handover.card_ts)
        await self.workflows.start(handover_start(handover.ref, press))

    async def _hint(self, handover: Handover, message: IncomingMessage) -> None:
        """Tell the person who has the thread, once and in private, that their first message was not sent: they may have
        meant it for the asker."""
        if not handover.open or message.sender_id != handover.taken_by:
            return
        async with self.database.begin() as tx:
            first = await HandoverAnswerStore(tx).is_first_of(handover.ref, message.sender_id)
        if not first:
            return
        try:
            place, user = handover.card, message.sender_id
            await self.slack.post_ephemeral(place.channel, user, blocks.INTERNAL_HINT, place.ts)
        except (Permanent, Transient) as error:
            _log.info("hint_not_shown", handover=handover.ref.key, reason=str(error))


def reply_id(press: ButtonPress) -> str:
    """The id of the message under the card that a press is about; of a reply in a modal, one made of the press."""
    return f"modal:{press.key}" if press.action_id == REPLY else message_of(press.value)


def _takes(stored: StoredAnswer, message: IncomingMessage, handover: Handover) -> bool:
    """Whether a message is the word by which its author takes the handover."""
    spoken = message.kind == MessageKind.MESSAGE and not stored.answer.deleted
    return spoken and stored.answer.words(handover.user_id).intent is Intent.TAKE


def _is_taken_by(stored: StoredAnswer, message: IncomingMessage, handover: Handover) -> bool:
    """Whether a message takes a free handover: a reply does so as well as the word."""
    explicit = stored.answer.state is ReplyState.HELD or _takes(stored, message, handover)
    return explicit and stored.is_new and not handover.taken_by


def _undo_refusal(state: ReplyState | None) -> str:
    """Tell the person who pressed Undo why nothing was undone; empty if it was."""
    if state is ReplyState.UNDONE:
        return ""
    return blocks.UNDO_TOO_LATE if state in (ReplyState.SENDING, ReplyState.SENT) else blocks.NOT_HELD


def _said(message: HandoverMessage) -> str:
    """As what a message of the asker is posted under the card."""
    return f"said:{message.message_id}"
