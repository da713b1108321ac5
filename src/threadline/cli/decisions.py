"""`threadline decisions`: what the decision engine has decided, how well, and which thresholds would serve better."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadline.cli import decision_tables
from threadline.cli import output as telling
from threadline.cli.running_stack import adopt_running_stack

if TYPE_CHECKING:
    from threadline.decisions.outcomes import Outcome

app = typer.Typer(help="What the decision engine has decided, and how well.", no_args_is_help=True)

Days = Annotated[float, typer.Option(metavar="DAYS", min=0, max=36_500, help="Decisions of so many days.")]
Team = Annotated[str, typer.Option(help="The workspace's id; without it, all of the database's.")]
_NOTHING = "Nothing was decided in this time: the engine decides once somebody asks the bot something."


@app.callback()
def _group() -> None:
    adopt_running_stack()


@app.command()
def report(
    since: Days = 30,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the calibration, too.")] = None,
    team: Team = "",
) -> None:
    """How often each decision, how well calibrated, what should have been otherwise, and what the variants came to."""
    from threadline.cli import decision_plot
    from threadline.decisions import reports

    found = reports.report(_outcomes(since, team))
    if found is None:
        telling.line(_NOTHING)
        return
    decision_tables.report(found)
    if plot and found.whole.calibration is None:
        telling.line("There is no picture: there is no calibration yet.")
    elif plot and found.whole.calibration:
        decision_plot.draw(found.whole.calibration, plot)
        telling.progress(f"{plot} shows the calibration.")


@app.command()
def tune(
    since: Days = 90,
    variant: Annotated[str, typer.Option(help="Learn from this variant's decisions alone.")] = "",
    team: Team = "",
) -> None:
    """Propose thresholds from what people have judged, and show what would change; nothing changes by itself."""
    from threadline.decisions import tuning

    outcomes = [each for each in _outcomes(since, team) if variant in ("", each.variant)]
    if not outcomes:
        telling.line(f"No decision of the variant {variant} is there." if variant else _NOTHING)
        return
    decision_tables.proposal(tuning.proposal(outcomes, outcomes[-1].thresholds))


def _outcomes(days: float, team: str) -> "list[Outcome]":
    async def read() -> "list[Outcome]":
        from threadline.wiring.decision_reports import decision_desk

        async with decision_desk() as desk:
            return await desk.outcomes(days, team)

    return asyncio.run(read())
