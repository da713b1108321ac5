"""Which case a thread belongs to: the one indexed read of the gateway."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases import case_row
from threadline.cases.tables import cases
from threadline.slack.model import Thread
from threadline.threads.addressing import bug_workflow_id
from threadline.threads.tables import threads

REPORT, SUMMARY, ESCALATION = "report", "summary", "escalation"


@dataclass(frozen=True)
class ThreadRecord:
    """`kind`: `report`, `summary` or `escalation`."""

    workflow_id: str
    bug_id: str
    kind: str


class Threads:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def find(self, thread: Thread) -> ThreadRecord | None:
        """The case of a thread; None when it has none, or not yet."""
        query = select(threads.c.workflow_id, threads.c.bug_id, threads.c.kind).where(
            threads.c.team == thread.team, threads.c.channel == thread.channel, threads.c.thread_ts == thread.ts
        )
        row = (await self._connection.execute(query)).one_or_none()
        return ThreadRecord(row.workflow_id, row.bug_id, row.kind) if row else None

    async def report_of(self, thread: Thread) -> Thread | None:
        """The thread in which the case of a thread was reported."""
        query = (
            select(cases.c.team, cases.c.channel, cases.c.thread_ts)
            .join(threads, threads.c.bug_id == cases.c.bug_id)
            .where(threads.c.team == thread.team, threads.c.channel == thread.channel, threads.c.thread_ts == thread.ts)
        )
        row = (await self._connection.execute(query)).one_or_none()
        return Thread(*row) if row else None

    async def others(self, bug_id: str, channel: str, ts: str) -> list[str]:
        """The roots of the case's other threads in a channel."""
        place = threads.c
        query = select(place.thread_ts).where(place.bug_id == bug_id, place.channel == channel, place.thread_ts != ts)
        return list((await self._connection.execute(query.order_by(place.thread_ts))).scalars())

    async def register(self, bug_id: str, kind: str, channel: str, ts: str) -> None:
        """Remember a thread that the bot opened for a case; the summary's is the case's own. Safe to repeat."""
        case = await case_row.lock(self._connection, bug_id)
        report = Thread(case.team, case.channel, case.thread_ts)
        row = {"workflow_id": bug_workflow_id(report), "kind": kind, "bug_id": bug_id}
        place = {"team": case.team, "channel": channel, "thread_ts": ts}
        await self._connection.execute(insert(threads).values(**place, **row).on_conflict_do_nothing())
        if kind == SUMMARY and case.summary_ts is None:
            await case_row.write(self._connection, bug_id, summary_channel=channel, summary_ts=ts)
