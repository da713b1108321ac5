"""`threadline replay`: would this code have taken the same decisions as the code that ran?"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadline.cli import telling
from threadline.cli.settings import adopt_running_stack

if TYPE_CHECKING:
    from temporalio.client import WorkflowHistory
    from temporalio.worker import Replayer

QUERY = "ExecutionStatus != 'Running'"


def replay(
    files: Annotated[
        list[Path] | None,
        typer.Argument(exists=True, dir_okay=False, help="Histories as JSON; without any, those at TEMPORAL_ADDRESS."),
    ] = None,
    query: Annotated[str, typer.Option(help="Which workflows at TEMPORAL_ADDRESS.")] = QUERY,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 100,
) -> None:
    """Replay recorded histories against this code; exit 1 when one would go another way."""
    from threadline.bootstrap import replayer

    adopt_running_stack()

    async def run() -> int:
        judge = replayer()
        histories = _read(files) if files else await _fetch(query, limit)
        failed = [history.workflow_id for history in histories if not await _same(judge, history)]
        telling.line(f"{len(histories) - len(failed)} of {len(histories)} histories replay as they were recorded.")
        return 1 if failed or not histories else 0

    raise typer.Exit(asyncio.run(run()))


def _read(files: list[Path]) -> "list[WorkflowHistory]":
    from temporalio.client import WorkflowHistory

    return [WorkflowHistory.from_json(file.stem, file.read_text(encoding="utf-8")) for file in files]


async def _fetch(query: str, limit: int) -> "list[WorkflowHistory]":
    from threadline.bootstrap import temporal_client

    client = await temporal_client()
    return [history async for history in client.list_workflows(query, limit=limit).map_histories()]


async def _same(replayer: "Replayer", history: "WorkflowHistory") -> bool:
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    if result.replay_failure is not None:
        telling.failed(f"{history.workflow_id}: {result.replay_failure}")
    return result.replay_failure is None
