"""Storing a conversation of 1,000 messages, and reading it back."""

import json
import time
from collections.abc import AsyncGenerator
from dataclasses import asdict

import asyncpg

from bench.figures import Row, pair
from bench.ground import Ground
from bench.path import Clock, said
from bench.scale import by_turns
from threadline.cases.store.messages import CaseMessageStore
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage, MessageKind
from threadline_devstack.slack import identity

LENGTH = 1000
BATCH = 100
PAGE = 200
FLOOR = "raw asyncpg: one INSERT a batch into a table with the same keys, one SELECT a page"
_TABLE = """
CREATE TABLE IF NOT EXISTS least_conversation (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    thread text NOT NULL,
    message_id text NOT NULL UNIQUE,
    said jsonb NOT NULL)
"""
_STORE = """
INSERT INTO least_conversation (thread, message_id, said)
SELECT $1, m.id, m.said FROM unnest($2::text[], $3::jsonb[]) AS m (id, said) ON CONFLICT DO NOTHING
"""
_READ = "SELECT * FROM least_conversation WHERE thread = $1 AND id > $2 ORDER BY id LIMIT $3"

Times = tuple[float, float]


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    clock = Clock()
    length = ground.scale.of(LENGTH, least=BATCH)
    connection = await asyncpg.connect(ground.databases.owner)
    try:
        await connection.execute(_TABLE)
        for path in (_ours(ground, clock, BATCH), _floor(connection, clock, BATCH)):
            await path  # the first statements of a connection are prepared
        ours, floor = await by_turns(
            ground.scale.rounds,
            lambda: _ours(ground, clock, length),
            lambda: _floor(connection, clock, length),
        )
    finally:
        await connection.close()
    for number, name in enumerate(
        (f"storing {length} messages, {BATCH} at a time", f"reading {length} back")
    ):
        mine, least = ([run[number] * 1000 for run in runs] for runs in (ours, floor))
        yield Row("conversation", name, *pair(mine, least, "ms"), FLOOR)


async def _ours(ground: Ground, clock: Clock, length: int) -> Times:
    thread, batches = _spoken(clock, length)
    began = time.perf_counter()
    for batch in batches:
        async with ground.database.begin() as tx:
            bug_id = (await CaseMessageStore(tx).flush(thread, batch)).case.bug_id
    stored = time.perf_counter()
    cursor = None
    read = 0
    while True:
        async with ground.database.begin() as tx:
            page = await CaseMessageStore(tx).page(bug_id, cursor, limit=PAGE)
        read += len(page.entries)
        if (cursor := page.next_cursor) is None:
            break
    _all_of(length, read)
    return stored - began, time.perf_counter() - stored


async def _floor(connection: asyncpg.Connection, clock: Clock, length: int) -> Times:
    thread, batches = _spoken(clock, length)
    began = time.perf_counter()
    for batch in batches:
        told = [json.dumps(asdict(message)) for message in batch]
        await connection.execute(_STORE, thread.key, [message.id for message in batch], told)
    stored = time.perf_counter()
    last = 0
    read = 0
    while rows := await connection.fetch(_READ, thread.key, last, PAGE):
        last = rows[-1]["id"]
        read = read + len([json.loads(row["said"]) for row in rows])
    _all_of(length, read)
    return stored - began, time.perf_counter() - stored


def _all_of(length: int, read: int) -> None:
    """Raise `RuntimeError` if a conversation was read only in part, which is fast."""
    if read != length:
        raise RuntimeError(f"{read} of {length} messages came back")


def _spoken(clock: Clock, length: int) -> tuple[Thread, list[list[IncomingMessage]]]:
    thread = Thread(identity.TEAM, identity.REPORTS, clock.next())
    spoken = [said(thread, thread.ts, MessageKind.REPORT)]
    spoken += [said(thread, clock.next(), MessageKind.MESSAGE) for _ in range(length - 1)]
    return thread, [spoken[at : at + BATCH] for at in range(0, length, BATCH)]
