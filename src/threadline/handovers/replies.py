"""HandoverReplies: a reply from the card to the asker. It is shown under the card, held, and then
posted.

The handover's workflow calls these methods one at a time, so that no other call changes a reply's
posts. The record has the state of a reply; each method reads it again and may be repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.model.handover import Handover
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.db.engine import Database
from threadline.errors import InternalError, Mendable, Permanent
from threadline.handovers import blocks
from threadline.handovers.files import Attachments
from threadline.handovers.model import HOLD, UnshownFile, post_key
from threadline.handovers.posts import HandoverPosts
from threadline.handovers.reply import HandoverAnswer, Intent, ReplyState
from threadline.handovers.store import HandoverAnswerStore
from threadline.models.model import Message, Role
from threadline.slack import formatting
from threadline.slack.formatting import Rendered
from threadline.slack.model import FileRef
from threadline.threads.authors import AuthorPolicy

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, eq=False)
class HandoverReplies:
    """`authors` resolves the names of people whom a reply mentions. `hold`: seconds for which a
    reply can be undone.
    """

    database: Database
    posts: HandoverPosts
    authors: AuthorPolicy
    hold: float = HOLD

    async def show(self, handover: Handover, message_id: str, event_id: str = "") -> None:
        """Show a reply's state under the card, and begin its undo time.

        Args:
            event_id: the message, edit or deletion that led to this call; empty for a button. A
                correction of a sent reply changes the post in the asker's thread.
        """
        answer = await self._get(handover.ref, message_id)
        if answer is None or answer.state is ReplyState.INTERNAL:
            return
        if answer.state is ReplyState.LATE:
            await self._say_closed(handover, answer)
            return
        corrects = answer.state is ReplyState.SENT and event_id not in ("", message_id)
        if corrects and not await self._correct(handover, answer, event_id):
            return
        await self._preview(handover, answer)
        if answer.state is ReplyState.HELD:
            async with self.database.begin() as tx:
                await HandoverAnswerStore(tx).start_hold(handover.ref, message_id, self.hold)

    async def show_waiting(self, handover: Handover) -> None:
        """Show held replies that no earlier run has shown."""
        async with self.database.begin() as tx:
            waiting = await HandoverAnswerStore(tx).waiting(handover.ref)
        for answer in waiting:
            if not answer.is_shown_as_held:
                await self.show(handover, answer.message_id)

    async def send_due(self, handover: Handover) -> None:
        """Post the due replies, in order."""
        async with self.database.begin() as tx:
            due = await HandoverAnswerStore(tx).claim_due(handover.ref)
        for message_id in due:
            await self._send(handover, message_id)

    async def _send(self, handover: Handover, message_id: str) -> None:
        ref = handover.ref
        answer = await self._get(ref, message_id)
        if answer is None or answer.state is not ReplyState.SENDING:
            return
        if answer.deleted or answer.words(handover.user_id).intent is not Intent.REPLY:
            # withdrawn since it was claimed
            await self._withdraw(handover, answer)
            return
        try:
            await self._post(handover, answer)
        except InternalError:
            raise
        except Mendable as refused:
            # it is sent, with the later ones, after the admin has mended the cause
            await self._report(
                handover,
                answer,
                f"waits:{message_id}",
                blocks.refused_text(refused, blocks.POSTED_LATER),
            )
            raise
        except Permanent as refused:
            # settle it: otherwise later replies would wait for it for ever
            await self._report(
                handover,
                answer,
                f"unsaid:{message_id}",
                blocks.refused_text(refused, blocks.NOT_POSTED),
            )
            await self._settle(handover, answer, ReplyState.REFUSED)
            return
        await self._settle(handover, answer, ReplyState.SENT)
        _log.info("reply_sent", handover=ref.key)

    async def _withdraw(self, handover: Handover, answer: HandoverAnswer) -> None:
        """Settle a reply that was withdrawn after it was claimed. If an earlier try has posted it,
        it counts as sent and is corrected here, since the press for its withdrawal may be over.
        """
        ref = handover.ref
        what = f"answer:{answer.message_id}"
        await self.posts.outbox.settle(post_key(ref, what))
        if not await self.posts.parts(ref, what):
            await self._settle(handover, answer, ReplyState.UNDONE)
            return
        if answer.deleted or answer.is_marked(handover.user_id):
            await self._correct(handover, answer, answer.message_id)
        else:
            await self.posts.files.remove_missing(self._attachments(handover, answer))
        await self._settle(handover, answer, ReplyState.SENT)

    async def _post(self, handover: Handover, answer: HandoverAnswer) -> None:
        """Post a reply in the asker's thread, then its files. Update the posts of an earlier try
        to the current text.
        """
        ref = handover.ref
        what = f"answer:{answer.message_id}"
        rendered = await self._render(handover, answer)
        parts = await self.posts.parts(ref, what)
        await self.posts.reword(
            ref, what, ref.thread, rendered, parts, blocks.REMOVED, (answer.ts,)
        )
        await self._note_down(handover, answer)  # before the files, which may take long
        if answer.files or parts:
            await self._show_files(handover, answer)

    async def _note_down(self, handover: Handover, answer: HandoverAnswer) -> None:
        """Add a person's answer to the transcript, so that the agent reads it later."""
        ref = handover.ref
        key = _transcript_key(answer.message_id)
        note = await self._note(handover, answer)
        async with self.database.begin() as tx:
            snapshot = await ConversationStore(tx).snapshot(ref.thread)
            if snapshot.exists:
                entry = (key, Message(Role.ASSISTANT, note))
                if not await TranscriptStore(tx).append(ref.thread, snapshot.turn, 0, [entry]):
                    # an earlier try has written it
                    await TranscriptStore(tx).rewrite(ref.thread, key, note)

    async def _show_files(self, handover: Handover, answer: HandoverAnswer) -> None:
        """Show the files of a posted reply to the asker. Name those that cannot be shown in its
        post, and notify its author of the reasons. If Slack refuses that notice, the reply still
        counts as sent.
        """
        ref = handover.ref
        what = f"answer:{answer.message_id}"
        unshown = await self.posts.files.show(self._attachments(handover, answer))
        if not unshown:
            return
        rendered = await self._render(handover, answer, unshown)
        try:
            parts = await self.posts.parts(ref, what)
            await self.posts.reword(
                ref, what, ref.thread, rendered, parts, blocks.REMOVED, (answer.ts,)
            )
            told = blocks.unshown_text(unshown)
            await self._report(handover, answer, f"unshown:{answer.message_id}", told)
        except (InternalError, Mendable):
            raise
        except Permanent as refused:
            _log.warning("unshown_files_not_named", handover=ref.key, reason=str(refused))

    async def _settle(self, handover: Handover, answer: HandoverAnswer, state: ReplyState) -> None:
        """Record the final state of a reply, and show it under the card; the record counts even if
        Slack refuses the post.
        """
        async with self.database.begin() as tx:
            await HandoverAnswerStore(tx).settle(handover.ref, answer.message_id, state)
        settled = await self._get(handover.ref, answer.message_id)
        if settled:
            await self._preview(handover, settled)

    async def _preview(self, handover: Handover, answer: HandoverAnswer) -> None:
        """Show a reply's current text and state under the card. If Slack refuses that, the reply
        still continues: its author has requested it.
        """
        ref = handover.ref
        what = f"preview:{answer.message_id}"
        words = await self.authors.words_to_relay(
            answer.words(handover.user_id).text or answer.text
        )
        rendered = blocks.preview(handover, answer, words, self.hold)
        try:
            parts = await self.posts.parts(ref, what)
            if not parts and answer.state in (ReplyState.HELD, ReplyState.SENT):
                await self.posts.post(ref, what, handover.card, (rendered,), (answer.ts,))
                parts = await self.posts.parts(ref, what) if self.posts.finds_lost_posts else []
            if parts:
                await self.posts.slack.update(
                    handover.channel, parts[0], rendered.text, rendered.blocks
                )
        except InternalError:
            raise
        except Permanent as refused:
            _log.warning("reply_preview_refused", handover=ref.key, reason=str(refused))

    async def _correct(self, handover: Handover, answer: HandoverAnswer, event_id: str) -> bool:
        """Update a sent reply in the asker's thread to its current text.

        An edit that removed the prefix may be meant for colleagues: it changes no words in the
        asker's thread, and only removes the files that the message has lost.

        Returns:
            Whether the asker's thread shows the current text.
        """
        ref = handover.ref
        what = f"answer:{answer.message_id}"
        if not answer.deleted and not answer.is_marked(handover.user_id):
            await self.posts.files.remove_missing(self._attachments(handover, answer))
            await self._report(handover, answer, f"unmarked:{event_id}", blocks.NOT_MARKED)
            return False
        note = await self._note(handover, answer)
        # first, so that the agent reads no old words even if Slack refuses the change
        async with self.database.begin() as tx:
            await TranscriptStore(tx).rewrite(ref.thread, _transcript_key(answer.message_id), note)
        parts = await self.posts.parts(ref, what)
        try:
            await self.posts.files.remove_missing(self._attachments(handover, answer))
            rendered = await self._render(handover, answer)
            await self.posts.reword(
                ref, what, ref.thread, rendered, parts, blocks.REMOVED, (answer.ts,)
            )
            await self._show_files(handover, answer)
        except InternalError:
            raise
        except Mendable as refused:
            await self._report(
                handover,
                answer,
                f"waits:{event_id}",
                blocks.refused_text(refused, blocks.CHANGED_LATER),
            )
            raise
        except Permanent as refused:
            await self._report(
                handover,
                answer,
                f"unsaid:{event_id}",
                blocks.refused_text(refused, blocks.NOT_CHANGED),
            )
            return False
        return True

    async def _say_closed(self, handover: Handover, answer: HandoverAnswer) -> None:
        """Notify the author that the handover is closed. The post's key is not an answer's, since
        this notice must never be corrected.
        """
        if not answer.deleted:
            notice = formatting.notice(blocks.ALREADY_CLOSED, mentions=(answer.user_id,))
            what = f"over:{answer.message_id}"
            await self.posts.post(handover.ref, what, handover.card, notice, (answer.ts,))

    async def _report(
        self, handover: Handover, answer: HandoverAnswer, what: str, text: str
    ) -> None:
        """Notify the author under the card of the reason why the other thread does not show their
        text.
        """
        _log.warning("reply_not_relayed", handover=handover.ref.key, reason=text)
        notice = formatting.notice(text, mentions=(answer.user_id,))
        await self.posts.post(handover.ref, what, handover.card, notice, (answer.ts,))

    def _attachments(self, handover: Handover, answer: HandoverAnswer) -> Attachments:
        """Return the files of a reply, for the asker's thread."""
        ref = handover.ref
        what = f"answer:{answer.message_id}"
        read_files = partial(self._read_files, handover, answer.message_id)
        return Attachments(
            ref, answer.message_id, answer.user_id, answer.files, ref.thread, what, read_files
        )

    async def _read_files(self, handover: Handover, message_id: str) -> tuple[FileRef, ...]:
        """Return the current files of a reply; none if the message has stopped being one."""
        answer = await self._get(handover.ref, message_id)
        if (
            answer is None
            or answer.deleted
            or answer.words(handover.user_id).intent is not Intent.REPLY
        ):
            return ()
        return answer.files

    async def _get(self, ref: ConversationTurn, message_id: str) -> HandoverAnswer | None:
        async with self.database.begin() as tx:
            return await HandoverAnswerStore(tx).get(ref, message_id)

    async def _words(self, handover: Handover, answer: HandoverAnswer) -> str:
        """Return the words of a reply. They are empty for a reply that consists only of files, and
        a mark for a reply that its author has emptied.
        """
        text = answer.words(handover.user_id).text
        if not text:
            return "" if answer.files else blocks.REMOVED
        return await self.authors.words_to_relay(text)

    async def _render(
        self, handover: Handover, answer: HandoverAnswer, unshown: Sequence[UnshownFile] = ()
    ) -> tuple[Rendered, ...]:
        """Render a reply for the asker."""
        text = await self._words(handover, answer)
        shown = blocks.DELETED if answer.deleted else blocks.with_unshown(text, unshown)
        return formatting.notice(shown, mentions=(answer.user_id,), headline=blocks.ANSWERS)

    async def _note(self, handover: Handover, answer: HandoverAnswer) -> str:
        """Return a reply in the form that the agent reads."""
        text = await self._words(handover, answer)
        said = blocks.DELETED if answer.deleted else blocks.with_files(text, answer.files)
        return f"{answer.user_id}, a person of the team, answered: {said}"


def _transcript_key(message_id: str) -> str:
    return f"h:{message_id}"
