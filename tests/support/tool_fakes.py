"""What stands in for the ports of the policies, and a context to call tools in."""

from datetime import UTC, datetime, timedelta
from typing import Any

from threadline.errors import Permanent
from threadline.tools.context import ToolContext
from threadline.tools.ledger import Entry, ExecutionLog, Intent
from threadline.tools.model import ToolResult
from threadline.tools.policies import CallKey, MutationLimit, ResultCache


class Clock:
    """Stands still until it is told to go on."""

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


class MemoryLog(ExecutionLog):
    """Keeps what is recorded; `lost` makes the next result get lost, as in a crash before it was written."""

    def __init__(self) -> None:
        self.intents: dict[str, float] = {}
        self.entries: list[Entry] = []
        self.lost: Exception | None = None

    async def recorded(self, entry: Entry) -> ToolResult | None:
        same = [each for each in self.entries if each.context.operation_key == entry.context.operation_key]
        if same and same[0].key != entry.key:
            raise Permanent("The key stands for another call.")
        return same[0].result if same else None

    async def intend(self, entry: Entry) -> Intent:
        key, now = entry.context.operation_key, entry.context.clock().timestamp()
        new = key not in self.intents
        return Intent(self.intents.setdefault(key, now), new)

    async def withdraw(self, entry: Entry, intent: Intent) -> None:
        if self.intents.get(entry.context.operation_key) == intent.at:
            del self.intents[entry.context.operation_key]

    async def record(self, entry: Entry) -> None:
        if self.lost:
            lost, self.lost = self.lost, None
            raise lost
        self.entries.append(entry)


class MemoryLimit(MutationLimit):
    """Admits `most` changes of a record for ever."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.seen: dict[tuple[str, str], list[str]] = {}

    async def admit(self, team: str, record: str, operation_key: str, now: float) -> bool:
        keys = self.seen.setdefault((team, record), [])
        if operation_key not in keys:
            keys.append(operation_key)
        return keys.index(operation_key) < self.most


class MemoryCache(ResultCache):
    def __init__(self) -> None:
        self.kept: dict[CallKey, tuple[ToolResult, float]] = {}

    async def get(self, key: CallKey, now: float) -> ToolResult | None:
        result, until = self.kept.get(key, (None, now))
        return result if now < until else None

    async def put(self, key: CallKey, result: ToolResult, until: float) -> None:
        self.kept[key] = (result, until)

    async def forget(self, team: str, toolset: str) -> None:
        void = [key for key in self.kept if key.toolset == toolset and key.scope.startswith(f"{team}/")]
        for key in void:
            del self.kept[key]


class OutOfOrder(MutationLimit, ResultCache):
    """Ports that cannot be reached."""

    async def admit(self, team: str, record: str, operation_key: str, now: float) -> bool:
        raise ConnectionError("postgres://u:p@db.internal:5432 refused")

    async def get(self, key: CallKey, now: float) -> ToolResult | None:
        raise ConnectionError("out of order")

    async def put(self, key: CallKey, result: ToolResult, until: float) -> None:
        raise ConnectionError("out of order")

    async def forget(self, team: str, toolset: str) -> None:
        raise ConnectionError("out of order")
