"""LiveHandoverActivities: the card and its buttons, and people's messages on either side.

Each post has its own key (`post_key`), so that it is posted once. Every method that posts raises
the errors of `Outbox.publish` and `SlackClient.update`. `handovers/replies.py` carries replies
from the card to the asker. The catch-up compares HandoverThreads with Slack.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial

import structlog

from threadline.cases.model import CaseReaders
from threadline.conversations.contract import RelayActivities
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.model.handover import Handover, handover_workflow_id
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.handovers import HandoverStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database, Transaction
from threadline.decisions.model import RECENT_MESSAGES, last_round
from threadline.decisions.store import DecisionStore
from threadline.errors import InternalError, Mendable, Permanent, Transient
from threadline.handovers import blocks
from threadline.handovers.contract import (
    HandoverActivities,
    HandoverState,
    Reminder,
    handover_start,
)
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
    UnshownFile,
    message_of,
    parse_value,
    post_key,
    ref_of,
    reply_value,
)
from threadline.handovers.posts import HandoverPosts
from threadline.handovers.replies import HandoverReplies
from threadline.handovers.reply import REPLY_PREFIX, Intent, ReplyState
from threadline.handovers.store import (
    ANSWERS,
    AskerMessage,
    AskerMessageStore,
    HandoverAnswerStore,
    StoredAnswer,
)
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
from threadline.threads.model import (
    ButtonPress,
    IncomingMessage,
    MessageKind,
    SenderType,
    ThreadOwner,
)
from threadline.threads.outbox import Outbox, Post
from threadline.threads.workflow_client import WorkflowClient

_GONE = "This handover is no longer on record, so nothing was changed."
_EXTERNAL = (
    "Guests and people from other companies cannot take or close a handover, so nothing was "
    "changed. Ask a member of this workspace to do it."
)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class HandoverSettings:
    """The settings of handovers.

    - `channel`: id of the channel for cards;
    - `remind_every`: seconds between reminders;
    - `hold`: seconds for which a reply can be undone;
    - `on_call`: users and groups that a card calls.
    """

    channel: str
    readers: CaseReaders
    remind_every: float = 1800.0
    hold: float = HOLD
    on_call: Sequence[str] = ()


class HandoverThreads(ThreadSource):
    """Messages under cards. One that is marked as shown is complete; the catch-up sends every
    other again.
    """

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
        under_card = (
            await HandoverAnswerStore(tx).ids_under_card(ref_of(thread.owner))
            if thread.owner
            else set()
        )
        return [each for each in found if each.message_id in under_card]

    async def stored_ids(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        return await HandoverAnswerStore(tx).shown_ids(ids)


@dataclass(frozen=True, eq=False)
class LiveHandoverActivities(HandoverActivities, RelayActivities):
    """Activities on the live services. `authors` decides whose press counts."""

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

    # -- The card and its buttons

    async def open_handover(self, ref: ConversationTurn) -> HandoverState:
        handover = await self._get(ref)
        if handover is None:
            return HandoverState(open=False)
        handover = await self._with_card(handover)
        try:  # the card may show messages that were deleted while it was being posted
            await self._update_card(ref)
        except InternalError:
            raise
        except Permanent as refused:
            # the card was deleted; a run that waits for it would answer no press
            _log.warning("card_not_updated", handover=ref.key, reason=str(refused))
        await self.replies.show_waiting(handover)
        has_files = any(each.files for each in await self._asker_messages(ref))
        return replace(await self._state(handover), asked_with_files=has_files)

    async def show_question_files(self, ref: ConversationTurn) -> None:
        handover = await self._get(ref)
        if handover is None:
            return
        handover = await self._with_card(handover)
        for each in await self._asker_messages(ref):
            attached = self._attachments(handover, each, ref, CARD)
            if handover.open:
                await self._show_files(attached, each)
            else:
                await self.posts.files.remove_missing(attached)

    async def _asker_messages(self, turn: ConversationTurn) -> list[AskerMessage]:
        """Return the messages of a turn with their current text."""
        async with self.database.begin() as tx:
            return await AskerMessageStore(tx).of_turn(turn)

    async def press_handover(self, press: ButtonPress) -> HandoverState:
        ref = parse_value(press.value)
        before = await self._get(ref) if ref else None
        if before is None:
            return HandoverState(open=False, reply=_GONE)
        if press.action_id == WRITTEN:  # `receive_message` has recorded it
            return await self._state(before)
        if not before.open and press.action_id != UNDO:
            # a retry after a lost answer
            again = press.action_id == CLOSE and before.closed_by == press.user_id
            reply = f"{formatting.mention(before.closed_by)} has already closed this handover."
            return await self._state(before, "" if again else reply)
        if press.action_id == TAKE and before.taken_by == press.user_id:
            return await self._state(before)
        card = Thread(
            before.ref.thread.team, before.channel or self.settings.channel, before.card_ts
        )
        if refused := await self._refusal(card, press.user_id):
            _log.info(
                "handover_press_refused",
                handover=before.ref.key,
                user=press.user_id,
                reason=refused,
            )
            return await self._state(before, refused)
        after, reply = await self._record_press(before, press)
        _log.info(
            "handover_pressed", handover=before.ref.key, user=press.user_id, button=press.action_id
        )
        return await self._state(after, reply)

    async def _record_press(self, before: Handover, press: ButtonPress) -> tuple[Handover, str]:
        """Record a valid press. Return the handover, and a private text for the person who
        pressed.
        """
        ref = before.ref
        user = press.user_id
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
        return (
            after,
            ""
            if taken
            else f"{formatting.mention(after.taken_by)} has already taken this handover.",
        )

    async def _record_reply(self, before: Handover, press: ButtonPress) -> tuple[Handover, str]:
        """Store a reply from the modal as if it had been written under the card."""
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
        except Permanent as error:  # notify the asker nevertheless
            refusals.append(error)
        changes = [
            ("taken", handover.taken_by, blocks.TAKEN_BY),
            ("closed", handover.closed_by, blocks.CLOSED_BY),
        ]
        for what, user, words in changes:
            try:
                if user:
                    await self._notify(handover, what, user, words)
            except Mendable as error:
                refusals.append(error)
        if refusals:  # one that can be mended first: it makes the workflow retry
            raise min(refusals, key=lambda each: not isinstance(each, Mendable))

    async def remind_handover(self, reminder: Reminder) -> HandoverState:
        handover = await self._get(reminder.ref)
        if handover is None or not handover.open or handover.taken_by:
            return await self._state(handover) if handover else HandoverState(open=False)
        handover = await self._with_card(handover)
        notice = formatting.notice(blocks.NOBODY_YET, mentions=tuple(self.settings.on_call))
        about = await self._asked(handover.ref)
        await self.posts.post(
            handover.ref, f"reminder:{reminder.number}", handover.card, notice, about
        )
        async with self.database.begin() as tx:
            await HandoverStore(tx).record_reminder(reminder.ref, reminder.number)
        return await self._state(handover)

    async def _refusal(self, card: Thread, user: str) -> str:
        """Return the reason why a user's press does not count, in words for them; empty if it
        counts.
        """
        try:
            return "" if await self.authors.allows(card, user) else _EXTERNAL
        except InternalError:
            raise
        except Permanent as unknown:  # otherwise later presses would wait for this one for ever
            return (
                "I could not look up who you are in Slack, so nothing was changed. "
                f"{blocks.refused_text(unknown, '')}"
            ).strip()

    async def _state(self, handover: Handover, reply: str = "") -> HandoverState:
        async with self.database.begin() as tx:
            send_in = await HandoverAnswerStore(tx).send_in(handover.ref)
        every = self.settings.remind_every
        reminded = handover.reminded
        return HandoverState(handover.open, handover.taken_by, every, reply, reminded, send_in)

    async def _get(self, ref: ConversationTurn) -> Handover | None:
        async with self.database.begin() as tx:
            return await HandoverStore(tx).get(ref)

    async def _with_card(self, handover: Handover) -> Handover:
        """Return the handover with its card's place, after posting the card if that is missing."""
        if handover.card_ts:
            return handover
        ref = handover.ref
        channel = self.settings.channel

        async def record(tx: Transaction, ts: str) -> None:
            await HandoverStore(tx).set_card(ref, channel, ts)

        opens = ThreadOwner(handover_workflow_id(ref.thread, ref.turn), HANDOVER)
        card = await self._card(handover)
        asked = await self._asked(ref)
        # the card's buttons name the turn
        basis = Basis(f"{CARD}:{ref.turn}", ref.thread.key, asked, asked)
        post = Post(
            post_key(ref, CARD),
            channel,
            None,
            (card,),
            opens,
            on_posted=record,
            correlation_id=ref.key,
            basis=basis,
        )
        await self.outbox.publish(post)
        posted = await self._get(ref)
        if posted is None:
            raise Permanent("The conversation is no longer stored.")
        return posted

    async def _asked(self, ref: ConversationTurn) -> tuple[str, ...]:
        """Return the `ts` of the messages that were handed over."""
        async with self.database.begin() as tx:
            return await TurnStore(tx).asked(ref.thread, ref.turn)

    async def _update_card(self, ref: ConversationTurn) -> None:
        """Update a posted card to the current handover. It is read again after each update: of two
        concurrent updates, the one that reaches Slack last may be the one that was read first.
        """
        shown = None
        while (handover := await self._get(ref)) and handover.card_ts:
            card = await self._card(handover)
            if card == shown:
                return
            await self.slack.update(handover.channel, handover.card_ts, card.text, card.blocks)
            shown = card

    async def _card(self, handover: Handover) -> Rendered:
        """Render the card from the current conversation, so that deleted messages are not shown
        again.
        """
        ref = handover.ref
        readers = self.settings.readers
        async with self.database.begin() as tx:
            question = "\n".join(
                await TurnStore(tx).request_texts(ref.thread, ref.turn, whole=True)
            )
            conversation = await ConversationStore(tx).find_id(ref.thread)
            decided = last_round(await DecisionStore(tx).rounds(conversation, ref.turn))
            transcript = await TranscriptStore(tx).read(ref.thread)
        before = [
            each.message
            for each in transcript.messages
            if each.turn < ref.turn and each.message.spoken
        ]
        address = readers.link(ref.thread) if readers.workspace else ""
        recent = before[-RECENT_MESSAGES:]
        on_call = self.settings.on_call
        return blocks.card(handover, question, recent, decided, address, on_call)

    async def _notify(self, handover: Handover, what: str, user: str, words: str) -> None:
        """Post a change in the asker's thread. If that is refused, notify the person who pressed
        under the card. Raises `Mendable` if the change can be posted later.
        """
        ref = handover.ref
        try:
            await self.posts.post(
                ref, what, ref.thread, formatting.notice("", mentions=(user,), headline=words)
            )
        except InternalError:
            raise
        except Permanent as refused:
            _log.warning("asker_not_notified", handover=ref.key, change=what, reason=str(refused))
            later = isinstance(refused, Mendable)
            text = blocks.refused_text(refused, blocks.untold(what, later=later))
            card = (await self._with_card(handover)).card
            await self.posts.post(
                ref, f"untold:{what}", card, formatting.notice(text, mentions=(user,))
            )
            if later:
                raise

    # -- From the asker to the person

    async def relay_to_person(self, turn: ConversationTurn) -> bool:
        missed = False
        shown = None
        while True:
            async with self.database.begin() as tx:
                handovers = await HandoverStore(tx).list_for(turn.thread)
                written = await AskerMessageStore(tx).of_turn(turn) if handovers else []
            if written == shown:
                return missed
            missed = False
            for each in handovers:
                if turn.turn > each.ref.turn:
                    unseen = await self._show_messages(each, written, turn)
                    # unseen messages: the handover is closed; only the newest one counts
                    missed = missed or (unseen and each is handovers[0])
                    continue
                # The card shows the messages of the turn that was handed over, and those before
                # it.
                await self._update_card(each.ref)
                # without a card, the handover's workflow shows the files after posting it
                if turn.turn == each.ref.turn and each.card_ts:
                    await self.show_question_files(each.ref)
            # read again: the posts may show messages that were deleted or edited meanwhile
            shown = written

    async def relay_until_mended(self, turn: ConversationTurn) -> bool:
        return await self.relay_to_person(turn)

    async def _show_messages(
        self, handover: Handover, written: Sequence[AskerMessage], turn: ConversationTurn
    ) -> bool:
        """Show new messages under the card, unless it is closed, and update those that are there.
        Return whether a message is missing there because the handover is closed.
        """
        missed = False
        for each in written:
            posted = await self.posts.parts(handover.ref, _said(each))
            is_new = not posted and not each.deleted and each.user_id != handover.taken_by
            missed = missed or (is_new and not handover.open)
            if posted or (is_new and handover.open):
                handover = await self._with_card(handover)
                old = posted if each.deleted or each.edited else ()
                await self._show_message(handover.ref, handover.card, each, old, ())
                if each.files or old:
                    await self._show_files(
                        self._attachments(handover, each, turn, _said(each)), each
                    )
        return missed

    async def _show_message(
        self,
        ref: ConversationTurn,
        card: Thread,
        said: AskerMessage,
        parts: Sequence[str],
        unshown: Sequence[UnshownFile],
    ) -> None:
        words = await self.authors.words_to_relay(said.text)
        text = blocks.DELETED if said.deleted else blocks.with_unshown(words, unshown)
        rendered = formatting.notice(text, mentions=(said.user_id,), headline="wrote")
        about = (said.ts,)
        await self.posts.reword(ref, _said(said), card, rendered, parts, blocks.DELETED, about)

    def _attachments(
        self, handover: Handover, said: AskerMessage, turn: ConversationTurn, shown_as: str
    ) -> Attachments:
        """Return the files of a message of the asker. `shown_as`: the post under which they are
        shown.
        """
        return Attachments(
            ref=handover.ref,
            message_id=said.message_id,
            user_id=said.user_id,
            files=said.files,
            place=handover.card,
            what=shown_as,
            read_files=partial(self._read_files, turn, said.message_id),
        )

    async def _show_files(self, attached: Attachments, said: AskerMessage) -> None:
        """Show the files of an asker's message under the card. Name those that cannot be shown
        there, and notify the asker of the reasons. If Slack refuses that notice, the message still
        counts as shown.
        """
        ref = attached.ref
        unshown = await self.posts.files.show(attached)
        if not unshown:
            return
        try:
            await self._name_unshown(attached, said, unshown)
            told = formatting.notice(blocks.unshown_text(unshown), mentions=(said.user_id,))
            await self.posts.post(ref, f"unshown:{said.message_id}", ref.thread, told, (said.ts,))
        except (InternalError, Mendable):
            raise
        except Permanent as refused:
            _log.warning("unshown_files_not_named", handover=ref.key, reason=str(refused))

    async def _name_unshown(
        self, attached: Attachments, said: AskerMessage, unshown: Sequence[UnshownFile]
    ) -> None:
        """Name files under the card: in the post of their message, or, for the question, which is
        on the card, in a separate post.
        """
        if attached.what != CARD:
            parts = await self.posts.parts(attached.ref, attached.what)
            await self._show_message(attached.ref, attached.place, said, parts, unshown)
            return
        named = formatting.notice(
            blocks.with_unshown("", unshown), mentions=(said.user_id,), headline="attached"
        )
        await self.posts.post(
            attached.ref, f"named:{said.message_id}", attached.place, named, (said.ts,)
        )

    async def _read_files(self, turn: ConversationTurn, message_id: str) -> tuple[FileRef, ...]:
        """Return the current files of a message of the asker."""
        written = await self._asker_messages(turn)
        return next(
            (each.files for each in written if each.message_id == message_id and not each.deleted),
            (),
        )

    # -- From the person to the asker

    async def receive_message(self, owner: ThreadOwner, message: IncomingMessage) -> bool:
        """Store a message that was written under a card, and signal the handover's workflow if it
        concerns the asker: it takes the handover, or it is a reply or a correction of one.
        Internal messages are not passed on.

        Args:
            owner: the owner of the thread under the card.
            message: the message.

        Returns:
            Whether the handover exists; otherwise the call has no effect.
        """
        handover = await self._get(ref_of(owner))
        if handover is None:
            return False
        handover = await self._with_card(handover)
        message = redact_message(message)
        stored = await self._store(handover.ref, message)
        if stored and stored.answer.state is not ReplyState.INTERNAL:
            await self._press(
                handover, message, WRITTEN, reply_value(handover.ref, stored.answer.message_id)
            )
            return True  # the workflow marks it as shown: until then the catch-up sends it again
        if stored and _takes(stored, message, handover):
            await self._press(handover, message, TAKE, handover.ref.key)
        elif stored and stored.is_new and message.kind == MessageKind.MESSAGE:
            await self._hint(handover, message)
        async with self.database.begin() as tx:
            await HandoverAnswerStore(tx).mark_shown(handover.ref, message.id)
        _log.info(
            "message_under_card", handover=handover.ref.key, kind=message.kind, open=handover.open
        )
        return True

    async def _store(self, ref: ConversationTurn, message: IncomingMessage) -> StoredAnswer | None:
        """Store a message. One that takes the handover does so at once: the workflow may be
        waiting for Slack, and the agent must be silent from now on.
        """
        async with self.database.begin() as tx:
            # before the handover is read, so that it cannot be closed meanwhile
            await ConversationStore(tx).lock(ref.thread)
            handover = await HandoverStore(tx).get(ref)
            stored = await HandoverAnswerStore(tx).store(handover, message) if handover else None
            if handover and stored and _is_taken_by(stored, message, handover):
                await HandoverStore(tx).take(ref, message.sender_id)
        return stored

    async def _press(
        self, handover: Handover, message: IncomingMessage, action: str, value: str
    ) -> None:
        """Send a press in the name of a message's author, so that the workflow learns of the
        message.
        """
        key = f"{WRITTEN_KEY}{message.id}"
        at = float(seconds(message.ts))
        press = ButtonPress(
            message.sender_id, action, value, key, at, handover.channel, handover.card_ts
        )
        await self.workflows.start(handover_start(handover.ref, press))

    async def _hint(self, handover: Handover, message: IncomingMessage) -> None:
        """Notify the person who has the thread, once and in private, that their first message was
        not sent: they may have meant it for the asker.
        """
        if not handover.open or message.sender_id != handover.taken_by:
            return
        async with self.database.begin() as tx:
            first = await HandoverAnswerStore(tx).is_first_of(handover.ref, message.sender_id)
        if not first:
            return
        try:
            place = handover.card
            user = message.sender_id
            await self.slack.post_ephemeral(place.channel, user, blocks.INTERNAL_HINT, place.ts)
        except (Permanent, Transient) as error:
            _log.info("hint_not_shown", handover=handover.ref.key, reason=str(error))


def reply_id(press: ButtonPress) -> str:
    """Return the id of the message under the card that a press is about; for a reply in a modal,
    an id derived from the press.
    """
    return f"modal:{press.key}" if press.action_id == REPLY else message_of(press.value)


def _takes(stored: StoredAnswer, message: IncomingMessage, handover: Handover) -> bool:
    """Return whether a message is the word by which its author takes the handover."""
    spoken = message.kind == MessageKind.MESSAGE and not stored.answer.deleted
    return spoken and stored.answer.words(handover.user_id).intent is Intent.TAKE


def _is_taken_by(stored: StoredAnswer, message: IncomingMessage, handover: Handover) -> bool:
    """Return whether a message takes a free handover, as a reply or by the word."""
    explicit = stored.answer.state is ReplyState.HELD or _takes(stored, message, handover)
    return explicit and stored.is_new and not handover.taken_by


def _undo_refusal(state: ReplyState | None) -> str:
    """Return the reason why Undo had no effect, for the person who pressed it; empty if it had."""
    if state is ReplyState.UNDONE:
        return ""
    return (
        blocks.UNDO_TOO_LATE if state in (ReplyState.SENDING, ReplyState.SENT) else blocks.NOT_HELD
    )


def _said(message: AskerMessage) -> str:
    """Return the `what` under which a message of the asker is posted under the card."""
    return f"said:{message.message_id}"
