"""`threadline replay`: check that this code can continue every open workflow."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadline.cli import output as telling
from threadline.cli.running_stack import use_running_stack

if TYPE_CHECKING:
    from threadline.wiring.replay import ReplayRequest

_TOLD = 100
"""Histories between two signs of life."""


def replay(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            exists=True, dir_okay=False, help="Saved histories as JSON, instead of those at TEMPORAL_ADDRESS."
        ),
    ] = None,
    workflow: Annotated[str, typer.Option(help="Id of one workflow. Its newest run is replayed, open or not.")] = "",
    query: Annotated[str, typer.Option(help="Visibility query. Without it, all open workflows.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of workflows.")] = None,
) -> None:
    """Replay all open workflows with this code. The exit code is 1 when one diverges. Run it before a deploy."""
    from threadline.wiring.replay import OPEN, ReplayRequest

    use_running_stack()
    request = ReplayRequest(tuple(files or ()), workflow, query or OPEN, limit)
    raise typer.Exit(asyncio.run(_judge(request)))


async def _judge(request: "ReplayRequest") -> int:
    from threadline.wiring.replay import replay_histories

    count, failed = 0, 0
    async for verdict in replay_histories(request):
        count += 1
        if verdict.divergence:
            failed += 1
            telling.failed(f"{verdict.workflow_id}, {verdict.divergence}")
        if count % _TOLD == 0:
            telling.line(f"{count} histories replayed so far, {failed} of them in another way.")
    if not count:
        telling.line(f"No workflow matches {request.query}: there is nothing to replay.")
        return 0
    telling.line(f"{count - failed} of {count} histories replay as they were recorded.")
    if count == request.limit:
        telling.line(f"That were the newest {count}: more may be open, since --limit was given.")
    return 1 if failed else 0
