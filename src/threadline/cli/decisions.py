"""`threadline decisions`: report on the decision engine, and propose thresholds."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadline.cli import decision_tables
from threadline.cli import output as telling
from threadline.cli.running_stack import use_running_stack

if TYPE_CHECKING:
    from threadline.decisions.reports import JudgedDecision

app = typer.Typer(help="Report on the decision engine, and propose thresholds.", no_args_is_help=True)

Days = Annotated[float, typer.Option(metavar="DAYS", min=0, max=36_500, help="How many days back to look.")]
Team = Annotated[str, typer.Option(help="Id of the workspace. Without it, all workspaces.")]
_NOTHING = "There are no decisions in this time. The engine decides when somebody asks the bot a question."


@app.callback()
def _group() -> None:
    use_running_stack()


@app.command()
def report(
    since: Days = 30,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Also draw the calibration. Needs the extra plot.")
    ] = None,
    team: Team = "",
) -> None:
    """Report how often each type was decided, its calibration, wrong escalations, and the variants."""
    from threadline.cli import decision_plot
    from threadline.decisions import reports

    found = reports.report(_outcomes(since, team))
    if found is None:
        telling.line(_NOTHING)
        return
    decision_tables.report(found)
    if plot and found.total.calibration is None:
        telling.line("There is no plot, because there is no calibration yet.")
    elif plot and found.total.calibration:
        decision_plot.draw(found.total.calibration, plot)
        telling.progress(f"{plot} shows the calibration.")


@app.command()
def tune(
    since: Days = 90,
    variant: Annotated[str, typer.Option(help="Use only the decisions of this variant.")] = "",
    team: Team = "",
) -> None:
    """Propose thresholds from people's feedback, and show what would change. Nothing is changed."""
    from threadline.decisions import tuning
    from threadline.decisions.reports import training_examples

    outcomes = [each for each in _outcomes(since, team) if variant in ("", each.variant)]
    if not outcomes:
        telling.line(f"There are no decisions of the variant {variant}." if variant else _NOTHING)
        return
    proposal = tuning.propose_thresholds(outcomes, outcomes[-1].thresholds)
    decision_tables.proposal(proposal, len(training_examples(outcomes)))


def _outcomes(days: float, team: str) -> "list[JudgedDecision]":
    async def read() -> "list[JudgedDecision]":
        from threadline.handovers.store import judged_since
        from threadline.wiring.cli_services import open_database

        async with open_database() as database, database.begin() as work:
            return await judged_since(work.tx, datetime.now(UTC) - timedelta(days=days), team)

    return asyncio.run(read())
