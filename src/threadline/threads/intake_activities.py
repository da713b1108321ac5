"""What is read from Slack: a report that a reply overtook, attachments, and whose thread a reply is in."""

import structlog
from temporalio import activity

from threadline.cases.contract import FETCH_ATTEMPTS, Forward, IntakeActivities, case_start
from threadline.cases.message_store import CaseMessageStore, PendingFile
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.handovers.relay import Relaying
from threadline.privacy.redaction import redact
from threadline.slack.client import Slack
from threadline.slack.files import download, redact_files
from threadline.slack.model import Thread
from threadline.threads import addressing, messages
from threadline.threads.message_table import log_quarantined, redact_message
from threadline.threads.messages import IncomingMessage
from threadline.threads.model import ThreadOwner, owner_in
from threadline.threads.store import PostStore, Quarantine, ThreadStore
from threadline.threads.workflow_client import WorkflowClient

_log = structlog.get_logger(__name__)


class LiveIntakeActivities(IntakeActivities):
    """Args: `bot_user` is our own user's id; `relaying` takes what is no case's."""

    def __init__(
        self,
        database: Database,
        slack: Slack,
        bot_user: str,
        workflows: WorkflowClient,
        relaying: Relaying | None = None,
    ) -> None:
        self._database = database
        self._slack = slack
        self._bot_user = bot_user
        self._workflows = workflows
        self._relaying = relaying

    @activity.defn
    async def fetch_report(self, thread: Thread) -> IncomingMessage | None:
        root = await self._slack.message(thread.channel, thread.ts)
        if root is None or not root.user or root.bot_id or root.user == self._bot_user:
            return None
        return IncomingMessage(
            id=addressing.message_id(thread.team, thread.channel, thread.ts),
            kind=messages.REPORT,
            sender_type=messages.REPORTER,
            sender_id=root.user,
            text=messages.clean(redact(root.text)),
            channel=thread.channel,
            ts=thread.ts,
            files=redact_files(root.files),
        )

    @activity.defn
    async def fetch_attachments(self, bug_id: str) -> int:
        """A file that cannot be had is noted with the reason, which the agent reads instead of it."""
        async with self._database.begin() as work:
            pending = await CaseMessageStore(work.tx).pending_files(bug_id)
        for file in pending:
            await self._fetch(file)
        async with self._database.begin() as work:
            missing, readable = (
                await CaseMessageStore(work.tx).pending_files(bug_id),
                await CaseMessageStore(work.tx).readable_files(bug_id),
            )
        if missing:
            raise Transient(f"{len(missing)} attachments of {bug_id} could not be fetched yet.")
        return readable

    async def _fetch(self, file: PendingFile) -> None:
        """One file; what stands in its way for now keeps no other from being fetched, and counts at last."""
        try:
            content = (await download(self._slack.client, file.file_id)).content
        except (Permanent, Transient) as error:
            if isinstance(error, Permanent) or activity.info().attempt >= FETCH_ATTEMPTS:
                async with self._database.begin() as work:
                    await CaseMessageStore(work.tx).fail_file(file.id, str(error))
            return
        async with self._database.begin() as work:
            await CaseMessageStore(work.tx).store_file(file.id, content)

    @activity.defn
    async def forward_reply(self, forward: Forward) -> bool:
        if self._relaying and await self._relaying.relay(forward.thread, forward.message):
            return True
        owner = await self._owner_of(forward.thread)
        if owner is None or owner.feature != "case":
            message = redact_message(forward.message)
            unreadable = [(message, "")] if message.kind == messages.QUARANTINED else []
            async with self._database.begin() as work:
                quarantined = await Quarantine(work.tx).keep(forward.thread, unreadable)
            log_quarantined(forward.thread, quarantined)
            _log.debug("reply_ignored", slack_thread=forward.thread.key, reason="This thread belongs to no case.")
            return False
        await self._workflows.start(case_start(owner.thread, forward.message))
        return True

    async def _owner_of(self, thread: Thread) -> ThreadOwner | None:
        """By the registry, else by the metadata of our own root: it was posted, and its registration was lost."""
        async with self._database.begin() as work:
            if known := await ThreadStore(work.tx).owner(thread):
                return known
        root = await self._slack.message(thread.channel, thread.ts)
        if root is None or root.user != self._bot_user:
            return None  # only our own metadata says whose thread it is
        owner = owner_in(root.payload)
        if owner is None or owner.feature != "case" or owner.thread.team != thread.team:
            return None
        async with self._database.begin() as work:
            await PostStore(work.tx).record_posted(str(root.payload.get("key", "")), thread.ts)
            await ThreadStore(work.tx).register(owner, thread.channel, thread.ts)
        return owner
