"""LiveHandoverActivities: the card and its buttons, and what people write, which is shown on the other side.

Whatever is posted has a key of its own (`post_key`), so that it is posted once. Every method that posts raises what
`Outbox.publish` and `Slack.update` raise. HandoverThreads is what the catch-up compares.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

import structlog

from threadline.cases.model import CaseReaders
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database, Transaction
from threadline.decisions.model import RECENT_MESSAGES, last_round
from threadline.decisions.store import DecisionStore
from threadline.errors import InternalError, Permanent
from threadline.handovers import blocks
from threadline.handovers.contract import HandoverActivities, HandoverState, Reminder, handover_start
from threadline.handovers.model import (
    ANSWER_PRESS,
    CARD,
    CLOSE,
    HANDOVER,
    TAKE,
    Handover,
    handover_workflow_id,
    parse_button,
    post_key,
    ref_of,
)
from threadline.handovers.store import ANSWERS, HandoverAnswerStore, HandoverMessage, HandoverStore
from threadline.models.model import Message, Role
from threadline.slack import formatting
from threadline.slack.client import SlackClient
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.authors import AuthorPolicy
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.comparison import ThreadSource
from threadline.threads.message_table import StoredMessage, redact_message, seconds
from threadline.threads.model import ButtonPress, IncomingMessage, MessageKind, ThreadOwner
from threadline.threads.outbox import Outbox, Post
from threadline.threads.store import PostStore
from threadline.threads.workflow_client import WorkflowClient

_GONE = "This handover is no longer on record, so nothing was changed."
_EXTERNAL = (
    "Guests and people from other companies cannot take or close a handover, so nothing was changed. "
    "Ask a member of this workspace to do it."
)
_CORRECTIONS = (MessageKind.EDIT, MessageKind.DELETION)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class HandoverSettings:
    """`channel`: where cards are posted, a channel's id. `remind_every`: seconds."""

    channel: str
    readers: CaseReaders
    remind_every: float = 1800.0


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

    # -- The card and its buttons ----------------------------------------------------------------------------------

    async def open_handover(self, ref: ConversationTurn) -> HandoverState:
        handover = await self._get(ref)
        if handover is None:
            return HandoverState(open=False)
        handover = await self._with_card(handover)
        try:  # what was deleted while the card was on its way stands on it
            await self._update_card(ref)
        except InternalError:
            raise
        except Permanent as refused:  # somebody has deleted the card; a run that waits for it would answer no press
            _log.warning("card_not_updated", handover=ref.key, reason=str(refused))
        return self._state(handover)

    async def press_handover(self, press: ButtonPress) -> HandoverState:
        ref, user, closes = parse_button(press.value), press.user_id, press.action_id == CLOSE
        before = await self._get(ref) if ref else None
        if ref is None or before is None:
            return HandoverState(open=False, reply=_GONE)
        if not before.open:
            again = closes and before.closed_by == user  # a try whose answer was lost may have done it
            reply = f"{formatting.mention(before.closed_by)} has already closed this handover."
            return self._state(before, "" if again else reply)
        if before.taken_by == user and not closes:
            return self._state(before)
        card = Thread(ref.thread.team, before.channel or self.settings.channel, before.card_ts)
        if refused := await self._refusal(card, user):
            _log.info("handover_press_refused", handover=ref.key, user=user, reason=refused)
            return self._state(before, refused)
        async with self.database.begin() as tx:
            store = HandoverStore(tx)
            after = await (store.close(ref, user, press.at) if closes else store.take(ref, user)) or before
        _log.info("handover_pressed", handover=ref.key, user=user, close=closes)
        if closes or after.taken_by == user:
            return self._state(after)
        by_answer = press.key.startswith(ANSWER_PRESS)  # the author has pressed nothing, and the answer counts
        reply = "" if by_answer else f"{formatting.mention(after.taken_by)} has already taken this handover."
        return self._state(after, reply)

    async def show_handover(self, ref: ConversationTurn) -> None:
        handover = await self._get(ref)
        if handover is None:
            return
        refused: Permanent | None = None
        try:
            await self._update_card(ref)
        except Permanent as error:  # the asker is told all the same
            refused = error
        if handover.taken_by:
            await self._notify(handover, "taken", handover.taken_by, blocks.TAKEN_BY)
        if handover.closed_by:
            await self._notify(handover, "closed", handover.closed_by, blocks.CLOSED_BY)
        if refused:
            raise refused

    async def remind_handover(self, reminder: Reminder) -> HandoverState:
        handover = await self._get(reminder.ref)
        if handover is None or not handover.open or handover.taken_by:
            return self._state(handover) if handover else HandoverState(open=False)
        handover = await self._with_card(handover)
        notice = formatting.notice(blocks.NOBODY_YET, mentions=(handover.user_id,))
        await self._post(handover.ref, f"reminder:{reminder.number}", handover.card, notice)
        async with self.database.begin() as tx:
            await HandoverStore(tx).record_reminder(reminder.ref, reminder.number)
        return self._state(handover)

    async def _refusal(self, card: Thread, user: str) -> str:
        """Why somebody's press counts for nothing, in words for them; empty where it counts."""
        try:
            return "" if await self.authors.allows(card, user) else _EXTERNAL
        except InternalError:
            raise
        except Permanent as unknown:  # else every press behind this one would wait for ever
            return f"Slack did not say who you are, so nothing was changed. {unknown}"

    def _state(self, handover: Handover, reply: str = "") -> HandoverState:
        return HandoverState(handover.open, handover.taken_by, self.settings.remind_every, reply, handover.reminded)

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
        post = Post(post_key(ref, CARD), channel, None, (card,), opens, on_posted=record, correlation_id=ref.key)
        await self.outbox.publish(post)
        posted = await self._get(ref)
        if posted is None:
            raise Permanent("The conversation is no longer stored.")
        return posted

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
        return blocks.card(handover, question, before[-RECENT_MESSAGES:], decided, address)

    async def _notify(self, handover: Handover, what: str, user: str, words: str) -> None:
        """In the asker's thread. Where nothing can be posted there, whoever pressed is told so under the card."""
        ref = handover.ref
        try:
            await self._post(ref, what, ref.thread, formatting.notice("", mentions=(user,), headline=words))
        except InternalError:
            raise
        except Permanent as refused:
            _log.warning("asker_not_notified", handover=ref.key, change=what, reason=str(refused))
            text = f"{refused} The other thread was not told that you have {what} the handover."
            card = (await self._with_card(handover)).card
            await self._post(ref, f"throttle_notices_due:{what}", card, formatting.notice(text, mentions=(user,)))

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
                    unseen = await self._show_messages(each, written)
                    missed = missed or (unseen and each is handovers[0])  # the newest one is closed
                else:  # the card shows what the turn was handed over with, and what was said before
                    await self._update_card(each.ref)
            shown = written  # what was deleted or edited while it was on its way stands there

    async def _show_messages(self, handover: Handover, written: Sequence[HandoverMessage]) -> bool:
        """Show under the card what is not there yet, unless it is closed, and what is there as it reads now; returns
        whether something is not there, since it is closed."""
        missed = False
        for each in written:
            what = f"said:{each.message_id}"
            posted = await self._parts(handover, what)
            is_new = not posted and not each.deleted and each.user_id != handover.taken_by
            missed = missed or (is_new and not handover.open)
            if posted or (is_new and handover.open):
                handover = await self._with_card(handover)
                rendered = formatting.notice(_text(each), mentions=(each.user_id,), headline="wrote")
                old = posted if each.deleted or each.edited else ()
                await self._reword(handover.ref, what, handover.card, rendered, old, blocks.DELETED)
        return missed

    # -- From the person to the asker ------------------------------------------------------------------------------

    async def relay_to_asker(self, owner: ThreadOwner, message: IncomingMessage) -> bool:
        """Show what a person wrote under a card, whose thread `owner` has, in the asker's thread. An answer takes a
        free handover. Returns whether there is such a handover; else nothing has happened."""
        handover = await self._get(ref_of(owner))
        if handover is None:
            return False
        handover, message = await self._with_card(handover), redact_message(message)
        async with self.database.begin() as tx:
            answer = await HandoverAnswerStore(tx).store(handover.ref, message)
        if answer:
            is_new = message.kind == MessageKind.MESSAGE and not answer.deleted
            if is_new and handover.open and not handover.taken_by:
                await self._take_by_answer(handover, message)
            handover = await self._get(handover.ref) or handover  # somebody may have closed it meanwhile
            await self._answer_or_report(handover, message, answer)
        async with self.database.begin() as tx:  # last: until then the catch-up sends it again
            await HandoverAnswerStore(tx).mark_shown(handover.ref, message.id)
        _log.info("reply_relayed", handover=handover.ref.key, kind=message.kind, open=handover.open)
        return True

    async def _take_by_answer(self, handover: Handover, message: IncomingMessage) -> None:
        """Press Take for the author, so that the workflow knows it, and the card and the asker are told. The record is
        written at once: the workflow may be waiting for Slack, and the agent is to be silent from now on."""
        ref, user, place = handover.ref, message.sender_id, (handover.channel, handover.card_ts)
        key, at = f"{ANSWER_PRESS}{message.id}", float(seconds(message.ts))
        press = ButtonPress(user, TAKE, ref.key, key, at, *place)
        await self.workflows.start(handover_start(ref, press))  # first: a later try finds the handover taken
        async with self.database.begin() as tx:
            await HandoverStore(tx).take(ref, user)

    async def _answer_or_report(self, handover: Handover, message: IncomingMessage, answer: HandoverMessage) -> None:
        """Where nothing more can be posted, the author is told so."""
        try:
            await self._answer(handover, message, answer)
        except InternalError:
            raise
        except Permanent as refused:  # else what people write under the card next would wait behind it for ever
            _log.warning("reply_not_relayed", handover=handover.ref.key, reason=str(refused))
            words = blocks.NOT_CHANGED if message.kind in _CORRECTIONS else blocks.NOT_POSTED
            notice = formatting.notice(f"{refused} {words}", mentions=(message.sender_id,))
            await self._post(handover.ref, f"unsaid:{message.id}", handover.card, notice)

    async def _answer(self, handover: Handover, message: IncomingMessage, answer: HandoverMessage) -> None:
        """Have the asker's thread show an answer as it reads now. A correction changes what is there, and no more."""
        ref, thread, what = handover.ref, handover.ref.thread, f"answer:{answer.message_id}"
        parts, text = await self._parts(handover, what), _text(answer)
        rendered = formatting.notice(text, mentions=(answer.user_id,), headline="answers")
        note = f"{answer.user_id}, a person of the team, answered: {text}"
        if message.kind in _CORRECTIONS:
            if not parts:
                return
            async with self.database.begin() as tx:  # first: whatever Slack refuses, the agent reads no old words
                await TranscriptStore(tx).rewrite(thread, f"h:{answer.message_id}", note)
            await self._reword(ref, what, thread, rendered, parts, blocks.REMOVED)
        elif handover.closed_before(float(seconds(message.ts))) and not parts:
            # Under a key that is no answer's, which could be corrected. Parts of one are of an earlier try.
            if not answer.deleted:
                await self._post(ref, f"over:{message.id}", handover.card, formatting.notice(blocks.ALREADY_CLOSED))
        elif text and not answer.deleted:
            await self._post(ref, what, thread, rendered)
            async with self.database.begin() as tx:  # the agent knows later what a person has answered in its place
                snapshot = await ConversationStore(tx).snapshot(thread)
                if snapshot.exists:
                    entry = (f"h:{message.id}", Message(Role.ASSISTANT, note))
                    await TranscriptStore(tx).append(thread, snapshot.turn, 0, [entry])

    # -- Posts -----------------------------------------------------------------------------------------------------

    async def _post(self, ref: ConversationTurn, what: str, place: Thread, rendered: Sequence[Rendered]) -> None:
        post = Post(post_key(ref, what), place.channel, place.ts, tuple(rendered), correlation_id=ref.key)
        await self.outbox.publish(post)

    async def _parts(self, handover: Handover, what: str) -> list[str]:
        """The `ts` of each message that was posted for this."""
        async with self.database.begin() as tx:
            return list(await PostStore(tx).part_timestamps(post_key(handover.ref, what)))

    async def _reword(
        self,
        ref: ConversationTurn,
        what: str,
        place: Thread,
        rendered: Sequence[Rendered],
        parts: Sequence[str],
        rest: str,
    ) -> None:
        """Have the messages of an earlier wording show this one, and `rest` those that it does not need any more; post
        the parts by which it is longer."""
        for number, ts in enumerate(parts):
            now = rendered[number] if number < len(rendered) else formatting.notice(rest)[0]
            await self.slack.update(place.channel, ts, now.text, now.blocks)
        await self._post(ref, what, place, rendered)


def _text(message: HandoverMessage) -> str:
    return blocks.DELETED if message.deleted else blocks.with_files(message.text, message.files)
