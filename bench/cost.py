"""Counts the costs of each kind of turn: `python -m bench.cost`, which `make cost` calls.

The product runs as in production: both workers, the real Claude Code CLI, Temporal and Postgres.
Models and Slack answer at once. The model's decisions are scripted, so that the counts are exact.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.service import RPCError

from bench.ground import ROOT, Ground, ground
from bench.parts import quiet_slack
from bench.parts.quiet_slack import QuietSlack
from bench.path import Clock, Product, said
from bench.report import replace_block
from bench.rows.turn import answer_at_once
from bench.scale import FULL
from bench.talk import OPERATE, PLAIN, WORK, SwiftModel, Talks, by_temporal
from threadline.cases.model import bug_workflow_id
from threadline.cases.store.messages import CaseMessageStore
from threadline.conversations.model.conversation import conversation_workflow_id
from threadline.slack.model import Thread
from threadline.threads.model import MessageKind
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack import identity
from threadline_devstack.trackers.app import TrackerSandbox
from threadline_devstack.trackers.jira import PROJECTS

PAGE = ROOT / "docs" / "performance.md"
BEGIN = "<!-- counted -->"
END = "<!-- /counted -->"
CASES = 20
"""Number of cases for `cases.search`."""
SEARCH_CASES = "Which cases are open?"
ADD_ITEM = "Please add a work item to {project}."
CREATE_TICKET = "Please open a ticket in Jira."
_SILENCE = 1.0
"""Seconds without a finished activity after which the background work of a turn has ended as
well.
"""
_TASK = "EVENT_TYPE_WORKFLOW_TASK"
_PROJECT = re.compile(r"PRJ-\d+")


@dataclass(frozen=True)
class Cost:
    """The additional cost of a turn.

    Events of workflow tasks and their bytes do not count: concurrent results share one task.
    """

    activities: int
    local_activities: int
    transactions: int
    statements: int
    row_locks: int
    slack_calls: int
    model_calls: int
    history_events: int
    history_bytes: int


@dataclass(frozen=True)
class ToolCost:
    """The additional cost of one tool call, from its arguments to its record; and the statements
    of the tool's own function.
    """

    transactions: int
    statements: int
    own_statements: int


@dataclass(repr=False)
class _Model(SwiftModel):
    """Calls one tool for each sentence of this module."""

    async def converse(self, turn: ScriptTurn) -> None:
        if SEARCH_CASES in turn.prompt:
            await turn.call(
                "cases_search", words=None, status=None, component=None, open_only=True
            )
        elif "add a work item" in turn.prompt and (project := _PROJECT.search(turn.prompt)):
            items = [{"title": "Export", "role": "developer", "days": 2}]
            await turn.call("estimates_createWbsItems", project_id=project[0], items=items)
        elif CREATE_TICKET in turn.prompt:
            new = {
                "project": next(iter(PROJECTS)),
                "type": "Bug",
                "summary": "A ticket",
                "description": "",
            }
            await turn.call("jira_create", **new, priority=None, labels=[])
        else:
            await super().converse(turn)
            return
        await turn.text_only("I have done what you asked for.")


@dataclass
class Meter:
    """Counts the costs of a turn, once it has ended."""

    ground: Ground
    model: SwiftModel
    slack: QuietSlack
    file: Path
    """The workers append a line for each activity here."""

    async def cost(self, workflow_id: str, turn: Callable[[], Awaitable[object]]) -> Cost:
        """Play `turn`, and count. All concurrent work counts as the turn's."""
        before = await self._history(workflow_id)
        done = await self._silent()
        slack = self.slack.calls
        model = self._model_calls
        await turn()
        lines = (await self._silent())[len(done) :]
        after = await self._history(workflow_id)
        local = sum(line["cost"]["is_local"] for line in lines)
        added = {
            name: sum(line["cost"][name] for line in lines)
            for name in ("transactions", "statements", "row_locks")
        }
        return Cost(
            activities=len(lines) - local,
            local_activities=local,
            **added,
            slack_calls=self.slack.calls - slack,
            model_calls=self._model_calls - model,
            history_events=after[0] - before[0],
            history_bytes=after[1] - before[1],
        )

    async def tool(self, name: str, turn: Callable[[], Awaitable[object]]) -> ToolCost:
        """Play a turn in which the model calls one tool, and count that call."""
        done = await self._silent()
        await turn()
        calls = [
            line["cost"]
            for line in (await self._silent())[len(done) :]
            if name in line["cost"]["tools"]
        ]
        if len(calls) != 1:
            raise RuntimeError(f"{name} was called by {len(calls)} activities, not by one")
        return ToolCost(**calls[0]["acting"], own_statements=calls[0]["tools"][name])

    @property
    def _model_calls(self) -> int:
        return len(self.model.log) + len(self.model.structured_requests)

    async def _silent(self) -> list[dict[str, Any]]:
        """Return all finished activities, once no other follows."""
        before = None
        while before != (lines := self._lines()):
            before = lines
            await asyncio.sleep(_SILENCE)
        return lines

    def _lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]

    async def _history(self, workflow_id: str) -> tuple[int, int]:
        try:
            history = await self.ground.client.get_workflow_handle(workflow_id).fetch_history()
        except RPCError:  # no workflow yet
            return 0, 0
        events = [
            event
            for event in history.events
            if not EventType.Name(event.event_type).startswith(_TASK)
        ]
        return len(events), sum(event.ByteSize() for event in events)


async def count(here: Ground) -> tuple[dict[str, Cost], dict[str, ToolCost]]:
    """Play each kind of turn once, and return its costs."""
    async with _running(here) as (meter, talks, cases):
        costs = await _of_cases(meter, cases) | await _of_conversations(meter, talks)
        return costs, await _of_tools(meter, talks)


@asynccontextmanager
async def _running(here: Ground) -> AsyncIterator[tuple[Meter, Talks, Product]]:
    async with (
        _Model.running() as model,
        quiet_slack.serving() as slack,
        TrackerSandbox.running() as services,
    ):
        model.script(model.converse)
        model.script(answer_at_once, when=lambda request: request.api == "messages")
        file = here.folder / "activities.jsonl"
        file.touch()
        given = {
            "SLACK_API_URL": slack.api_url,
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
            **services.settings,
        }
        module = "bench.parts.counting_worker"
        async with (
            here.product("core", "core", str(file), module=module, **given),
            here.product("agents", "agents", str(file), module=module, **given),
        ):
            talks = Talks(here, model, slack, Clock(), (), by_temporal(here))
            yield Meter(here, model, slack, file), talks, Product(here, ())


async def _of_cases(meter: Meter, cases: Product) -> dict[str, Cost]:
    thread = Thread(identity.TEAM, identity.REPORTS, cases.clock.next())

    async def say(kind: MessageKind) -> None:
        await cases.say(thread, kind)
        await cases.rest()

    named = {"bug report to findings": MessageKind.REPORT, "reply in a case": MessageKind.MESSAGE}
    workflow_id = bug_workflow_id(thread)
    return {
        name: await meter.cost(workflow_id, partial(say, kind)) for name, kind in named.items()
    }


async def _of_conversations(meter: Meter, talks: Talks) -> dict[str, Cost]:
    (thread,) = await talks.open_rfps(1)
    named = {
        "conversation, no tool": PLAIN,
        "conversation with a decision and two tools": WORK,
        "operator: load, patch, journal, answer": OPERATE,
    }
    workflow_id = conversation_workflow_id(thread)
    return {
        name: await meter.cost(workflow_id, partial(talks.turn, thread, words))
        for name, words in named.items()
    }


async def _of_tools(meter: Meter, talks: Talks) -> dict[str, ToolCost]:
    for _ in range(CASES):
        case = Thread(identity.TEAM, identity.REPORTS, talks.clock.next())
        async with meter.ground.database.begin() as tx:
            await CaseMessageStore(tx).flush(case, [said(case, case.ts, MessageKind.REPORT)])
    (thread,) = await talks.open(1)
    named = {
        "cases.search": SEARCH_CASES,
        "estimates.createWbsItems": ADD_ITEM,
        "jira.create": CREATE_TICKET,
    }
    return {
        name: await meter.tool(name, partial(talks.turn, thread, words))
        for name, words in named.items()
    }


def markdown(costs: Mapping[str, Cost], tools: Mapping[str, ToolCost]) -> str:
    """Return the two tables of docs/performance.md."""
    return f"{_table('turn', Cost, costs)}\n\n{_table('one call of a tool', ToolCost, tools)}"


def _table(
    what: str, kind: type[Cost] | type[ToolCost], rows: Mapping[str, Cost | ToolCost]
) -> str:
    names = [field.name for field in fields(kind)]
    head = [
        f"| {' | '.join((what, *(name.replace('_', ' ') for name in names)))} |",
        f"|---|{'--:|' * len(names)}",
    ]
    body = [
        f"| {row} | {' | '.join(str(getattr(cost, name)) for name in names)} |"
        for row, cost in rows.items()
    ]
    return "\n".join((*head, *body))


EXACT = frozenset({"activities", "local activities", "transactions"})
"""Counts that change only with the steps of a turn."""
CEILINGS = frozenset(
    {"statements", "own statements", "row locks", "history events", "history bytes"}
)
"""Counts that may grow by `MOST_GROWTH` without a new page. The calls of Slack and of models
depend on the time that a turn takes, so they are not compared.
"""
MOST_GROWTH = 0.15


def differences(page: Path, shown: str) -> list[str]:
    """Return the differences between the tables of a page and these, one sentence each."""
    before = counts_of(page)
    found = []
    for (row, name), count in _counts(shown).items():
        known = before.get((row, name), 0)
        differs = name in EXACT and count != known
        exceeds = name in CEILINGS and count > known * (1 + MOST_GROWTH)
        if differs or exceeds:
            found.append(
                f"{row}, {name}: {known} on the page, {count} now: "
                f"`make cost PAGE=docs/{page.name}` writes the new count."
            )
    return found


def counts_of(page: Path) -> dict[tuple[str, str], int]:
    """Return the counts on a page, by the name of the row and of the column."""
    _, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    return _counts(rest.partition(END)[0])


def _counts(tables: str) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    head: list[str] = []
    for line in tables.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 1 and all(cell.isdecimal() for cell in cells[1:]):
            found |= {
                (cells[0], name): int(cell) for name, cell in zip(head[1:], cells[1:], strict=True)
            }
        elif not line.startswith("|--"):
            head = cells
    return found


async def _main(page: Path | None) -> None:
    with tempfile.TemporaryDirectory(
        prefix="threadline-cost-", ignore_cleanup_errors=True
    ) as folder:
        async with ground(FULL, Path(folder)) as here:
            shown = markdown(*await count(here))
    sys.stdout.write(f"{shown}\n")
    if page:
        replace_block(page, BEGIN, END, shown)
    else:
        sys.stdout.writelines(f"{each}\n" for each in differences(PAGE, shown))
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description=__doc__)
    parser.add_argument(
        "--page", type=Path, help="a Markdown page whose tables are replaced by this run's"
    )
    asyncio.run(_main(parser.parse_args().page))
    os._exit(0)  # Temporal's core sometimes aborts in the interpreter's teardown
