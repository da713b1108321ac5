"""A hand-over's activities: people see what waits for one of them, somebody takes it, and both sides are told."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from temporalio import activity

from threadline.conversations.contract import TalkTurn
from threadline.db.engine import Database
from threadline.errors import InternalError, Permanent
from threadline.handovers import blocks as handovers
from threadline.handovers.card_data import Cards
from threadline.handovers.contract import HandoverActivities, HandoverPress, HandoverState, Reminder
from threadline.handovers.model import CLOSE, HandoverRef, post_key
from threadline.handovers.posts import HandoverPosts
from threadline.handovers.store import Handover, SaidMeanwhile
from threadline.slack import formatting
from threadline.slack.client import Slack
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.authors import AuthorPolicy
from threadline.threads.outbox import Outbox
from threadline.threads.store import PostStore

_GONE = "This handover is no longer on record, so nothing was changed."
_NO_SAY = (
    "Guests and people from other companies cannot take or close a handover, so nothing was changed. "
    "Ask a member of this workspace to do it."
)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Reception:
    """Where people take threads over: a channel's id. `remind_every`: seconds."""

    channel: str
    remind_every: float = 1800.0


class LiveHandoverActivities(HandoverActivities):
    """Args: `authors` says whose word counts where people take threads over."""

    def __init__(
        self,
        database: Database,
        slack: Slack,
        outbox: Outbox,
        cards: Cards,
        reception: Reception,
        authors: AuthorPolicy,
    ) -> None:
        self._database = database
        self._slack = slack
        self._outbox = HandoverPosts(slack, outbox)
        self._cards = cards
        self._reception = reception
        self._authors = authors

    @activity.defn
    async def open_handover(self, ref: HandoverRef) -> HandoverState:
        handover = await self._of(ref)
        if handover is None:
            return HandoverState(open=False)
        return self._state(await self._shown(handover))

    @activity.defn
    async def press_handover(self, request: HandoverPress) -> HandoverState:
        ref, user, closes = request.ref, request.press.user_id, request.press.action_id == CLOSE
        before = await self._of(ref)
        if before is None:
            return HandoverState(open=False, words=_GONE)
        if not before.open:
            again = closes and before.closed_by == user  # a try whose answer was lost may have done it
            return self._state(
                before, "" if again else f"{formatting.mention(before.closed_by)} has already closed this handover."
            )
        place = Thread(ref.thread.team, before.channel or self._reception.channel, before.card_ts)
        if refused := await self._refused(place, user):
            _log.info("handover_click_refused", handover=ref.key, user=user, reason=refused)
            return self._state(before, refused)
        async with self._database.begin() as work:
            if closes:
                now = await work.handovers.close(ref, user, request.press.at)
            else:
                now = await work.handovers.take(ref, user)
        _log.info("handover_click_handled", handover=ref.key, user=user, close=closes)
        after = now or before
        late = after.taken_by != user and not closes
        words = f"{formatting.mention(after.taken_by)} has already taken this handover." if late else ""
        return self._state(after, words)

    @activity.defn
    async def show_handover(self, ref: HandoverRef) -> None:
        handover = await self._of(ref)
        if handover is None:
            return
        try:
            if handover.card_ts:
                await self._renewed(handover)
        except Permanent:  # whoever asks is told all the same
            await self._tell_all(handover)
            raise
        await self._tell_all(handover)

    @activity.defn
    async def remind_handover(self, reminder: Reminder) -> HandoverState:
        handover = await self._of(reminder.ref)
        if handover is None or not handover.open or handover.taken_by:
            return self._state(handover) if handover else HandoverState(open=False)
        words = handovers.reminder(handover.user_id)
        await self._outbox.under_card(await self._shown(handover), f"reminder:{reminder.number}", words)
        async with self._database.begin() as work:
            await work.handovers.reminded(reminder.ref, reminder.number)
        return self._state(handover)

    @activity.defn
    async def relay_to_person(self, turn: TalkTurn) -> bool:
        async with self._database.begin() as work:
            known = await work.handovers.all_in(turn.thread)
            said = await work.handovers.said_in(turn.thread, turn.turn) if known else []
        unshown = False
        for each in known:
            if turn.turn > each.ref.turn:
                missed = await self._relay(each, said)
                unshown = unshown or (missed and each is known[0])
            elif each.card_ts:  # what a turn was handed over with stands on the card, and so does what was before
                await self._renewed(each)
        return unshown

    async def _refused(self, place: Thread, user: str) -> str:
        """Why somebody's click counts for nothing, in words for them; empty where it counts."""
        try:
            return "" if await self._authors.allows(place, user) else _NO_SAY
        except InternalError:
            raise
        except Permanent as unknown:  # else every click behind this one would wait for ever
            return f"Slack did not say who you are, so nothing was changed. {unknown}"

    async def _relay(self, handover: Handover, said: Sequence[SaidMeanwhile]) -> bool:
        """Show under the card what is not there yet, unless that is over, and what is there as it reads now.

        Returns:
            whether something is not there, since it is over.
        """
        unshown = False
        for each in said:
            what = f"said:{each.message_id}"
            async with self._database.begin() as work:
                posted = await PostStore(work.tx).part_timestamps(post_key(handover.ref, what))
            news = not posted and not each.deleted and each.user_id != handover.taken_by
            unshown = unshown or (news and not handover.open)
            if posted or (news and handover.open):
                handover = await self._shown(handover)
                text = handovers.DELETED if each.deleted else handovers.with_files(each.text, each.files)
                words = handovers.said(each.user_id, text)
                await self._outbox.under_card(handover, what, words)
                if each.deleted or each.edited:
                    await self._outbox.reword(handover.channel, posted, words, handovers.emptied())
        return unshown

    async def _of(self, ref: HandoverRef) -> Handover | None:
        async with self._database.begin() as work:
            return await work.handovers.of(ref)

    async def _shown(self, handover: Handover) -> Handover:
        """With its place; whoever needs that first posts the card."""
        if handover.card_ts:
            return handover
        ref, card = handover.ref, await self._cards.of(handover)
        await self._outbox.card(handover, self._reception.channel, card)
        async with self._database.begin() as work:
            shown = await work.handovers.of(ref)
        if shown is None:
            raise Permanent("The conversation is no longer stored.")
        return shown

    async def _renewed(self, handover: Handover) -> None:
        """The card as it reads now."""
        card = await self._cards.of(handover)
        await self._slack.update(handover.channel, handover.card_ts, card.text, card.blocks)

    async def _tell_all(self, handover: Handover) -> None:
        if handover.taken_by:
            await self._tell(handover, "taken", handover.taken_by, handovers.taken(handover.taken_by))
        if not handover.open:
            await self._tell(handover, "closed", handover.closed_by, handovers.closed(handover.closed_by))

    async def _tell(self, handover: Handover, what: str, user: str, words: tuple[Rendered, ...]) -> None:
        """In the thread of who asks; that nothing can be said there stands under the card, for whoever did it."""
        try:
            await self._outbox.in_thread(handover, what, words)
        except InternalError:
            raise
        except Permanent as refused:
            _log.warning("thread_not_notified", handover=handover.ref.key, change=what, reason=str(refused))
            untold = f"{refused} The other thread was not told that you have {what} the handover."
            under = formatting.notice(untold, mentions=(user,))
            await self._outbox.under_card(await self._shown(handover), f"untold:{what}", under)

    def _state(self, handover: Handover, words: str = "") -> HandoverState:
        return HandoverState(handover.open, handover.taken_by, self._reception.remind_every, words, handover.reminded)
