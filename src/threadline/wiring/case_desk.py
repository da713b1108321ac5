"""What the command line asks about cases, and the one thing it does to them."""

import getpass
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from threadline.cases.case_queries import CaseRecord, Transition
from threadline.cases.pull_request_rows import PullRequestRecord
from threadline.cases.records import Entry
from threadline.cases.turn_rows import TurnRecord
from threadline.db.engine import Database
from threadline.gateway.dispatcher import Dispatcher
from threadline.gateway.routes import Close
from threadline.privacy.redaction import redact
from threadline.settings import DatabaseSettings
from threadline.threads.messages import CLOSE, OPERATOR, IncomingMessage
from threadline.threads.store import Quarantine, QuarantinedMessage
from threadline.wiring.gateway import DatabaseThreadLookup
from threadline.wiring.temporal import temporal_client


@dataclass(frozen=True)
class CaseFile:
    """A case with all that is stored of it."""

    case: CaseRecord
    transitions: list[Transition]
    conversation: list[Entry]
    turns: list[TurnRecord]
    pull_request: PullRequestRecord | None


class CaseDesk:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_cases(self, *, open_only: bool = True, limit: int = 50) -> list[CaseRecord]:
        """The newest cases first."""
        async with self._database.begin() as work:
            return await work.overview.cases(open_only=open_only, limit=limit)

    async def show(self, bug_id: str) -> CaseFile:
        """Raises `CaseNotFound`."""
        async with self._database.begin() as work:
            case = await work.overview.case(bug_id)
            entries: list[Entry] = []
            cursor = None
            while True:
                page = await work.conversation.entries(bug_id, cursor, limit=200)
                entries += page.entries
                cursor = page.next_cursor
                if cursor is None:
                    break
            return CaseFile(
                case,
                await work.overview.transitions(bug_id),
                entries,
                await work.turns.turns_of(bug_id),
                await work.pull_requests.of(bug_id),
            )

    async def quarantine(self, limit: int = 50) -> list[tuple[QuarantinedMessage, str]]:
        """What nobody could read, the newest first; each with the number of its thread's case, if it has one."""
        async with self._database.begin() as work:
            kept = await Quarantine(work.tx).messages(limit)
            cases = await work.overview.bug_ids({message.thread for message in kept})
        return [(message, cases.get(message.thread, "")) for message in kept]

    async def resolve(self, bug_id: str, reason: str) -> None:
        """Ask the case's workflow to end it: like everything else, that is a signal.

        Raises:
            CaseNotFound: there is no such case.
            NotAccepted: Temporal did not take it.
        """
        async with self._database.begin() as work:
            case = await work.overview.case(bug_id)
        message = IncomingMessage(
            id=f"operator:{uuid.uuid4()}",
            kind=CLOSE,
            sender_type=OPERATOR,
            sender_id=getpass.getuser(),
            text=redact(reason),
            channel=case.thread.channel,
            ts=f"{time.time():.6f}",
        )
        dispatcher = Dispatcher(await temporal_client(tries=1), DatabaseThreadLookup(self._database))
        await dispatcher.dispatch(Close(case.thread, message))


@asynccontextmanager
async def case_desk() -> AsyncIterator[CaseDesk]:
    database = Database(DatabaseSettings.read().url.get_secret_value(), pool_size=2, application="threadline-cli")
    try:
        yield CaseDesk(database)
    finally:
        await database.dispose()
