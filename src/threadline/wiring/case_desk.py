"""What the command line asks about cases, and the one thing it does to them."""

import getpass
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from threadline.cases.contract import case_start
from threadline.cases.model import Entry
from threadline.cases.store.case import CaseRecord, CaseStore, PullRequest, TurnRecord
from threadline.cases.store.lists import CaseLists, Transition
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.engine import Database
from threadline.privacy.redaction import redact
from threadline.settings import DatabaseSettings
from threadline.threads.model import IncomingMessage, MessageKind, SenderType
from threadline.threads.store import Quarantine, QuarantinedMessage
from threadline.threads.workflow_client import WorkflowClient
from threadline.wiring.temporal import temporal_client


@dataclass(frozen=True)
class CaseFile:
    """A case with all that is stored of it."""

    case: CaseRecord
    transitions: Sequence[Transition]
    conversation: list[Entry]
    turns: list[TurnRecord]
    pull_request: PullRequest | None


class CaseDesk:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_cases(self, *, open_only: bool = True, limit: int = 50) -> list[CaseRecord]:
        """The newest cases first."""
        async with self._database.begin() as work:
            return await CaseLists(work.tx).list(open_only=open_only, limit=limit)

    async def show(self, bug_id: str) -> CaseFile:
        """Raises `CaseNotFound`."""
        async with self._database.begin() as work:
            case = await CaseStore(work.tx).get(bug_id)
            entries: list[Entry] = []
            cursor = None
            while True:
                page = await CaseMessageStore(work.tx).page(bug_id, cursor, limit=200)
                entries += page.entries
                cursor = page.next_cursor
                if cursor is None:
                    break
            return CaseFile(
                case,
                await CaseLists(work.tx).transitions(bug_id),
                entries,
                await CaseStore(work.tx).turns(bug_id),
                await CaseStore(work.tx).pull_request(bug_id),
            )

    async def quarantine(self, limit: int = 50) -> list[tuple[QuarantinedMessage, str]]:
        """What nobody could read, the newest first; each with the number of its thread's case, if it has one."""
        async with self._database.begin() as work:
            kept = await Quarantine(work.tx).messages(limit)
            cases = await CaseLists(work.tx).bug_ids({message.thread for message in kept})
        return [(message, cases.get(message.thread, "")) for message in kept]

    async def resolve(self, bug_id: str, reason: str) -> None:
        """Ask the case's workflow to end it: like everything else, that is a signal.

        Raises:
            CaseNotFound: there is no such case.
            Transient: Temporal did not take it.
        """
        async with self._database.begin() as work:
            case = await CaseStore(work.tx).get(bug_id)
        message = IncomingMessage(
            id=f"operator:{uuid.uuid4()}",
            kind=MessageKind.CLOSE,
            sender_type=SenderType.ADMIN,
            sender_id=getpass.getuser(),
            text=redact(reason),
            channel=case.thread.channel,
            ts=f"{time.time():.6f}",
        )
        await WorkflowClient(await temporal_client(tries=1)).start(case_start(case.thread, message))


@asynccontextmanager
async def case_desk() -> AsyncIterator[CaseDesk]:
    database = Database(DatabaseSettings.read().url.get_secret_value(), pool_size=2, application="threadline-cli")
    try:
        yield CaseDesk(database)
    finally:
        await database.dispose()
