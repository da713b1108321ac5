"""The product's worker, which counts the costs of each activity: `python -m
bench.parts.counting_worker QUEUE FILE`.

Each line of FILE is one activity as JSON: its name, its workflow's id, and an `ActivityCost`.
"""

import json
import re
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event
from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from threadline.cli import process
from threadline.cli.main import exit_now
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.contract import ActRequest, ConversationActivities
from threadline.threads.activity import ErrorInterceptor
from threadline.tools.registry import Tool
from threadline.wiring import workers

_LOCKS = re.compile(r"\bFOR (UPDATE|NO KEY UPDATE|SHARE|KEY SHARE)\b", re.IGNORECASE)
_BEGINS = re.compile(r"\s*BEGIN\b", re.IGNORECASE)
_BY_THE_CLOCK = re.compile("append_entries|renew_lease")
"""Statements that do not count: the CLI stores its session in batches, and a lease is renewed
every few seconds.
"""
_ENDS = re.compile(r"\s*(COMMIT|ROLLBACK)\b", re.IGNORECASE)


@dataclass
class ActivityCost:
    """The work of one attempt of an activity.

    `row_locks` are statements with `FOR UPDATE` or the like. `tools` are the statements of each
    tool's own function; `acting` are all transactions and statements for running tools.
    """

    is_local: bool = False
    transactions: int = 0
    statements: int = 0
    row_locks: int = 0
    tools: dict[str, int] = field(default_factory=dict)
    acting: dict[str, int] = field(default_factory=dict)


_current: ContextVar[ActivityCost | None] = ContextVar("cost", default=None)
"""None outside activities, whose work does not count."""
_file: Path


class _CountingErrors(ErrorInterceptor):
    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's name
    ) -> ActivityInboundInterceptor:
        return _Counting(super().intercept_activity(next))


class _Counting(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's
        info = activity.info()
        cost = ActivityCost(is_local=info.is_local)
        token = _current.set(cost)
        try:
            return await super().execute_activity(input)
        finally:
            _current.reset(token)
            line = {
                "activity": info.activity_type,
                "workflow_id": info.workflow_id,
                "cost": asdict(cost),
            }
            with _file.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(line)}\n")


def _add(name: str) -> None:
    if cost := _current.get():
        setattr(cost, name, getattr(cost, name) + 1)


def _add_statement(statement: str) -> None:
    _add("statements")
    if _LOCKS.search(statement):
        _add("row_locks")


def _with_statements(call: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    @wraps(call)
    async def counting(tool: Tool, *given: Any) -> object:
        cost = _current.get()
        before = cost.statements if cost else 0
        try:
            return await call(tool, *given)
        finally:
            if cost:
                cost.tools[tool.name] = cost.tools.get(tool.name, 0) + cost.statements - before

    return counting


def _acting(act: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    @wraps(act)
    async def counting(activities: ConversationActivities, request: ActRequest) -> object:
        cost = _current.get()
        before = asdict(cost) if cost else {}
        try:
            return await act(activities, request)
        finally:
            if cost:
                cost.acting = {
                    name: getattr(cost, name) - before[name]
                    for name in ("transactions", "statements")
                }

    return counting


def _is_autocommit(connection: Connection) -> bool:
    """Return whether each statement is a transaction of its own, as in the agents' worker."""
    return connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"


def main(queue: str, file: str) -> None:
    global _file
    _file = Path(file)

    @event.listens_for(Engine, "begin")
    def begins(connection: Connection) -> None:
        if not _is_autocommit(connection):
            _add("transactions")

    @event.listens_for(Engine, "before_cursor_execute")
    def executes(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if _is_autocommit(connection):
            if _BY_THE_CLOCK.search(statement):
                return
            _add("transactions")
        _add_statement(statement)

    vars(workers).update(ErrorInterceptor=_CountingErrors)
    counted: list[tuple[type, str, Callable[..., Any]]] = [
        (Tool, "call", _with_statements),
        (LiveConversationActivities, "act", _acting),
    ]
    for owner, method, counting in counted:
        setattr(owner, method, counting(getattr(owner, method)))
    process.run_service(partial(workers.run_worker, queue), fast=queue == "core")
    exit_now(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
