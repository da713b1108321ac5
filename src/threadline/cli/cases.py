"""`threadline cases`: show bug cases, and resolve one by hand."""

import asyncio
from typing import Annotated

import typer

from threadline.cli import output as telling
from threadline.cli.running_stack import adopt_running_stack

app = typer.Typer(help="Show bug cases, and resolve one by hand.", no_args_is_help=True)

Case = Annotated[str, typer.Argument(metavar="CASE", help="Number of the case, such as BUG-12.")]


@app.callback()
def _group() -> None:
    adopt_running_stack()


@app.command("list")
def list_cases(
    everything: Annotated[bool, typer.Option("--all", help="Include resolved cases.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.")] = 50,
) -> None:
    """List the open cases, newest first."""

    async def run() -> None:
        from threadline.wiring.case_desk import case_desk

        async with case_desk() as desk:
            telling.cases(await desk.list_cases(open_only=not everything, limit=limit))

    asyncio.run(run())


@app.command()
def show(case: Case) -> None:
    """Show one case: its transitions, its conversation as stored, its turns and their cost."""

    async def run() -> None:
        from threadline.wiring.case_desk import case_desk

        async with case_desk() as desk:
            telling.case(await desk.show(case))

    asyncio.run(run())


@app.command()
def quarantine(limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.")] = 50) -> None:
    """List messages that could not be read. They are kept, and were not answered."""

    async def run() -> None:
        from threadline.wiring.case_desk import case_desk

        async with case_desk() as desk:
            telling.quarantine(await desk.quarantine(limit))

    asyncio.run(run())


@app.command()
def resolve(
    case: Case, reason: Annotated[str, typer.Option(help="Reason. It is stored, and posted in the threads.")]
) -> None:
    """Resolve a case by hand. A message in its thread reopens it."""

    async def run() -> None:
        from threadline.wiring.case_desk import case_desk

        async with case_desk() as desk:
            await desk.resolve(case, reason)
        telling.line(f"{case} is being resolved: {reason}")

    asyncio.run(run())
