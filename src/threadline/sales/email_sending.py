"""Mails on Postgres: a draft is taken before it is handed to the mail server, so that it goes out at most once."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.message import EmailMessage

from threadline.approvals import blocks as approvals
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.errors import NotDone, Permanent
from threadline.privacy.redaction import redact
from threadline.rfps.store import TeamMemberStore
from threadline.sales import email_model as letters
from threadline.sales import mail_message as messages
from threadline.sales.email_model import Draft, DraftRefused, NewLetter
from threadline.sales.email_tools import EmailOutbox, Mailer
from threadline.sales.model import Interaction, InteractionKind
from threadline.sales.tools import Asker
from threadline.slack.model import Thread
from threadline.slack.users import UserDirectory
from threadline.tools.model import Change, Effect, Operation, Risk


@dataclass(frozen=True)
class Sending:
    """Who sends, to which domains, and up to which risk unasked. Without a sender, drafts may be to anybody."""

    sender: str = ""
    domains: Collection[str] = ()
    free: Risk = Risk.LOW


class PostgresOutbox(EmailOutbox):
    """Args: `users` says whose address is whose; `rate`: how often one record may be changed, None for as often as one
    likes."""

    def __init__(self, database: Database, users: UserDirectory, settings: Sending, rate: Rate | None = None) -> None:
        self._database = database
        self._users = users
        self._settings = settings
        self._rate = rate

    @property
    def free(self) -> Risk:
        return self._settings.free

    async def draft(self, change: Change, user_id: str, new: NewLetter) -> Draft:
        clean = letters.checked(NewLetter(new.recipient, redact(new.subject), redact(new.body)))
        self._check(clean.recipient)
        shown = Draft("MAIL-0000000000", user_id, clean.recipient, clean.subject, clean.body)
        if not approvals.is_whole(shown.told):
            raise DraftRefused("the mail is too long to show in full for approval: shorten the text")
        async with self._database.begin() as work:
            return await work.letters.draft(replace(change, rate=self._rate), user_id, clean)

    async def get(self, thread: Thread, draft_id: str) -> Draft:
        async with self._database.begin() as work:
            draft = await work.letters.get(thread, draft_id)
        self._check(draft.recipient)
        return draft

    async def risk(self, team: str, asker: Asker, recipient: str) -> Risk:
        if asker.others:
            return Risk.HIGH
        user = await self._users.get(asker.user_id)
        async with self._database.begin() as work:
            known = await work.crm.vouched(team, recipient, asker.user_id)
            known = known or await TeamMemberStore(work.tx).has_address(team, recipient)
        return letters.assessed(recipient, user.email if user else "", on_record=known)

    async def send(self, change: Change, draft_id: str, mailer: Mailer) -> Draft:
        operation, sender = change.operation, self._settings.sender
        if not sender:
            raise Permanent("No sender is set: THREADLINE_SMTP_FROM is empty. Nothing was sent.")
        at, name = datetime.fromtimestamp(change.now, UTC), messages.message_id(operation.key, sender)
        # What a draft says never changes, so that it can be looked at before it is taken.
        message = _composed(sender, await self.get(operation.thread, draft_id), name, at)
        async with self._database.begin() as work:
            await work.letters.claim(replace(change, rate=self._rate), draft_id)
        try:
            await mailer.send(message)
        except (Permanent, NotDone):
            async with self._database.begin() as work:
                await work.letters.release(operation)
            raise
        return await self._went_out(change, name, at)

    async def taken_by(self, operation: Operation) -> Draft | None:
        async with self._database.begin() as work:
            return await work.letters.taken_by(operation)

    async def effect(self, operation: Operation) -> Effect | None:
        async with self._database.begin() as work:
            return await work.operations.effect(operation)

    async def _went_out(self, change: Change, message_id: str, at: datetime) -> Draft:
        async with self._database.begin() as work:
            sent = await work.letters.sent(change.operation, message_id, at)
            if lead := await work.crm.at_address(change.team, sent.recipient):
                await work.crm.add(lead.lead_id, Interaction(InteractionKind.EMAIL, sent.subject, at, sent.user_id))
            return sent

    def _check(self, recipient: str) -> None:
        """Raises `DraftRefused`; without a sender nothing is sent, and a draft harms nobody."""
        if self._settings.sender and (refused := letters.refusal(recipient, self._settings.domains)):
            raise refused


def _composed(sender: str, draft: Draft, message_id: str, at: datetime) -> EmailMessage:
    try:
        return messages.composed(sender, draft.recipient, draft.subject, draft.body, message_id, at)
    except ValueError as unlike:
        raise DraftRefused(
            f"{draft.draft_id} cannot be sent as drafted. Nothing was sent. Draft it again, with a subject and an "
            "address in plain characters"
        ) from unlike
