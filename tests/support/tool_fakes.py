"""A ledger in memory, one that loses results, a clock that tests move, and a context for calls of
tools.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from tests.support.role_fakes import with_roles
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import Rate
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import CallIdReused, Operation, ToolResult, ToolStatus
from threadline.tools.policy import CallRules, PolicyRule, Verdict
from threadline.tools.store import (
    CallIntent,
    EarlierIntent,
    LoggedCall,
    OpenResult,
    ToolLedger,
    too_many_changes,
)

MAKE_ALL = CallRules((PolicyRule(Verdict.MAKE),))
"""Makes every call, for tests of tools' effects."""


def unheld(services: Services | None = None) -> Services:
    """Return the services, with rules and roles that hold no call unless the services bring their
    own.
    """
    services = services or Services()
    return with_roles(
        services if CallRules in services else services.with_service(CallRules, MAKE_ALL)
    )


class Clock:
    """Moves only when a test advances it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def context(**given: Any) -> ToolContext:
    plain: dict[str, Any] = {
        "team": "T1",
        "channel": "C1",
        "thread_ts": "1760000000.000100",
        "user_id": "U1",
        "request_id": "T1:C1:1760000000.000100",
        "correlation_id": "turn-1",
        "clock": Clock(),
        "turn": 1,
        "step": 1,
        "call_id": "call_1",
    }
    return ToolContext(**(plain | given))


@dataclass(frozen=True)
class Entry:
    """A call that has ended."""

    call: LoggedCall
    result: ToolResult
    milliseconds: int = 0

    @property
    def status(self) -> ToolStatus:
        return self.result.status


class LossyLedger(ToolLedger):
    """Raises `lost` instead of recording the next result, as when a worker dies before."""

    def __init__(self, database: Database, rate: Rate | None = None) -> None:
        super().__init__(database, rate or Rate(10_000, 60.0))
        self.lost: Exception | None = None

    async def finish(
        self, tx: Transaction, call: LoggedCall, result: ToolResult, now: float, milliseconds: int
    ) -> ToolResult:
        if self.lost:
            lost = self.lost
            self.lost = None
            raise lost
        return await super().finish(tx, call, result, now, milliseconds)


class MemoryLedger(ToolLedger):
    """Admits `most` changes of each record, for ever.

    `lost` is raised instead of recording the next result, as when a worker dies before.
    """

    def __init__(self, most: int = 10_000) -> None:
        self.rate = None
        self.most = most
        self.intents: dict[str, float] = {}
        """The moments of changes that have no result, by operation key."""
        self.entries: list[Entry] = []
        self.open: set[Operation] = set()
        """Calls whose side effects may not have run."""
        self.changes: dict[tuple[str, str], list[str]] = {}
        """Operation keys by team and changed record."""
        self.lost: Exception | None = None
        self._answers: dict[str, tuple[Entry, float]] = {}

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Gives a tool no transaction: its changes elsewhere stay when the block raises."""
        intents = dict(self.intents)
        entries = list(self.entries)
        try:
            yield cast("Transaction", None)
        except BaseException:
            self.intents = intents
            self.entries = entries
            raise

    async def begin(
        self, tx: Transaction, call: LoggedCall, seconds: float | None = None
    ) -> ToolResult | OpenResult | EarlierIntent | CallIntent:
        if earlier := self._earlier(call):
            return earlier
        if self._is_recorded(call):
            return CallIntent(call.now)
        if result := self._refused_by_rate(call) or self._cached(call):
            self.entries.append(Entry(call, result))
            return result
        if call.changes:
            self.intents[call.operation.key] = call.now
        return CallIntent(call.now)

    async def refuse(
        self, tx: Transaction, call: LoggedCall, refusal: ToolResult
    ) -> ToolResult | OpenResult | EarlierIntent:
        if earlier := self._earlier(call):
            return earlier
        if not self._is_recorded(call):
            self.entries.append(Entry(call, refusal))
        return refusal

    def _is_recorded(self, call: LoggedCall) -> bool:
        return any(each.call.operation == call.operation for each in self.entries)

    def _earlier(self, call: LoggedCall) -> ToolResult | OpenResult | EarlierIntent | None:
        key = call.operation.key
        if same := [each for each in self.entries if each.call.operation == call.operation]:
            if same[0].call.fingerprint != call.fingerprint:
                raise CallIdReused("The operation stands for another call.")
            if same[0].call.operation in self.open:
                return OpenResult(same[0].result)
            if call.keep_result or not same[0].result.success:
                return same[0].result
            return None
        return EarlierIntent(self.intents[key]) if key in self.intents else None

    async def withdraw(
        self, tx: Transaction, call: LoggedCall, intent: CallIntent | EarlierIntent
    ) -> None:
        if self.intents.get(call.operation.key) == intent.at:
            del self.intents[call.operation.key]

    async def finish(
        self, tx: Transaction, call: LoggedCall, result: ToolResult, now: float, milliseconds: int
    ) -> ToolResult:
        if self.lost:
            lost = self.lost
            self.lost = None
            raise lost
        self.intents.pop(call.operation.key, None)
        if same := [each.result for each in self.entries if each.call.operation == call.operation]:
            return same[0]
        entry = Entry(call, result, milliseconds)
        self.entries.append(entry)
        if call.has_side_effects and result.made:
            self.open.add(call.operation)
        if call.voids_answers:
            self._answers = {
                name: kept
                for name, kept in self._answers.items()
                if not self._in_toolset(kept[0], call)
            }
        elif result.success and not call.changes:
            self._answers[call.fingerprint] = entry, now
        return result

    async def complete(
        self, tx: Transaction, call: LoggedCall, result: ToolResult, now: float
    ) -> None:
        self.open.discard(call.operation)
        self.entries = [
            replace(each, result=result) if each.call.operation == call.operation else each
            for each in self.entries
        ]

    def _refused_by_rate(self, call: LoggedCall) -> ToolResult | None:
        if not call.rate_key:
            return None
        keys = self.changes.setdefault((call.operation.thread.team, call.rate_key), [])
        if call.operation.key not in keys:
            keys.append(call.operation.key)
        return (
            None
            if keys.index(call.operation.key) < self.most
            else too_many_changes(call, Rate(self.most, 60.0))
        )

    def _cached(self, call: LoggedCall) -> ToolResult | None:
        if call.fingerprint not in self._answers:
            return None
        entry, at = self._answers[call.fingerprint]
        return (
            replace(entry.result, status=ToolStatus.CACHED)
            if at > call.now - call.cache_seconds
            else None
        )

    @staticmethod
    def _in_toolset(entry: Entry, call: LoggedCall) -> bool:
        return (entry.call.operation.thread.team, entry.call.toolset) == (
            call.operation.thread.team,
            call.toolset,
        )
