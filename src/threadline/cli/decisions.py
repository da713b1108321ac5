"""`threadline decisions`: report on the decision engine, and propose thresholds."""

import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threadline.cli import output
from threadline.cli.connections import transaction, use_running_stack
from threadline.cli.process import run_async
from threadline.errors import Permanent

if TYPE_CHECKING:
    from threadline.decisions.reports import (
        Calibration,
        DecisionStats,
        JudgedDecision,
        Report,
        ThresholdProposal,
    )

app = typer.Typer(
    help="Report on the decision engine, and propose thresholds.",
    no_args_is_help=True,
    callback=use_running_stack,
)

Days = Annotated[
    float, typer.Option(metavar="DAYS", min=0, max=36_500, help="How many days back to look.")
]
Team = Annotated[str, typer.Option(help="Id of the workspace. Without it, all workspaces.")]
_NOTHING = (
    "There are no decisions in this time. The engine decides when somebody asks the bot a "
    "question."
)
_LISTED = 20
"""Lines of each list, newest first; further ones are counted."""
_BAR = 20
_COLUMNS = (
    "",
    "made",
    "went on",
    "asked",
    "escalated",
    "👍",
    "👎",
    "right",
    "Brier",
    "ECE",
    "cost",
)
_ENDINGS = (".png", ".svg", ".pdf")


@app.command()
@run_async
async def report(
    since: Days = 30,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Also draw the calibration. Needs the extra plot."),
    ] = None,
    team: Team = "",
    as_json: output.Json = False,
) -> None:
    """Report how often each type was decided, its calibration, wrong escalations, and the
    variants.
    """
    from threadline.decisions import reports

    found = reports.report(await _outcomes(since, team))
    calibration = found.total.calibration if found else None
    if plot and calibration:
        draw_calibration(calibration, plot)
    drawn = plot if calibration else None
    output.show(
        _report_document(found, drawn), lambda: _print_report(found, plot), as_json=as_json
    )


def _report_document(found: "Report | None", drawn: Path | None) -> dict[str, Any]:
    """Return the report as JSON has it; `total` is None without any decision."""
    if found is None:
        return {
            "total": None,
            "types": [],
            "variants": [],
            "not_needed": [],
            "missed": [],
            "plot": None,
        }
    return {
        "total": _stats_document(found.total),
        "types": [{"type": type_, **_stats_document(stats)} for type_, stats in found.types],
        "variants": [
            {"variant": name, "prompt_version": version, **_stats_document(stats)}
            for name, version, stats in found.variants
        ],
        "not_needed": [_decision_document(each) for each in found.not_needed],
        "missed": [_decision_document(each) for each in found.missed],
        "plot": drawn,
    }


def _stats_document(stats: "DecisionStats") -> dict[str, Any]:
    return {
        "decisions": stats.decisions,
        "next_steps": stats.next_steps,
        "thumbs_up": stats.thumbs_up,
        "thumbs_down": stats.thumbs_down,
        "labelled": stats.labelled,
        "share_right": stats.share_right,
        "cost_usd": stats.cost_usd,
        "calibration": stats.calibration,
    }


def _decision_document(each: "JudgedDecision") -> dict[str, Any]:
    judgement = each.judgement
    return {
        "decision": each.key,
        "team": each.thread.team,
        "channel": each.thread.channel,
        "thread_ts": each.thread.ts,
        "turn": each.turn,
        "type": each.made.decision.type,
        "confidence": judgement.confidence if judgement else None,
        "reason": judgement.reason if judgement else None,
        "reasoning": each.made.decision.reasoning,
        "decided_at": each.decided_at,
    }


def _print_report(found: "Report | None", plot: Path | None) -> None:
    if found is None:
        output.print_line(_NOTHING)
        return
    _tallies(
        "Decisions",
        [*((type_.value, stats) for type_, stats in found.types), ("total", found.total)],
    )
    if found.total.calibration:
        _reliability(found.total.calibration)
    else:
        output.print_line(
            "There is no calibration yet: no answer has more thumbs one way than the other, and "
            "no escalation for low confidence was answered or closed by a person."
        )
    _listed("Escalated without need", found.not_needed)
    _listed("Answered, but should have been escalated", found.missed)
    if len(found.variants) > 1:
        variants = [
            (f"{name or '(none)'}, prompt {version}", tally)
            for name, version, tally in found.variants
        ]
        _tallies("Variants", variants)
    if plot and found.total.calibration:
        output.progress(f"{plot} shows the calibration.")
    elif plot:
        output.print_line("There is no plot, because there is no calibration yet.")


@app.command()
@run_async
async def tune(
    since: Days = 90,
    variant: Annotated[str, typer.Option(help="Use only the decisions of this variant.")] = "",
    team: Team = "",
    as_json: output.Json = False,
) -> None:
    """Propose thresholds from people's feedback, and show how many decisions would change. The
    settings stay as they are.
    """
    from threadline.decisions import reports

    outcomes = [
        each for each in await _outcomes(since, team) if variant in ("", each.made.variant)
    ]
    examples = len(reports.training_examples(outcomes))
    found = None
    if outcomes:
        found = reports.propose_thresholds(outcomes, outcomes[-1].made.thresholds)
    document = {
        "decisions": len(outcomes),
        "judged_by_confidence": examples,
        "needed": reports.MIN_EXAMPLES,
        "proposal": _proposal_document(found) if found else None,
    }
    nothing = f"There are no decisions of the variant {variant}." if variant else _NOTHING

    def print_text() -> None:
        if found:
            _print_proposal(found)
        elif outcomes:
            output.print_line(
                f"{_counted(examples)}; {reports.MIN_EXAMPLES - examples} more are needed before "
                "thresholds are proposed."
            )
        else:
            output.print_line(nothing)

    output.show(document, print_text, as_json=as_json)


def _proposal_document(found: "ThresholdProposal") -> dict[str, Any]:
    now = found.current
    then = found.proposed
    return {
        "current": {"high": now.high, "low": now.low, "cost": found.current_cost},
        "proposed": {"high": then.high, "low": then.low, "cost": found.proposed_cost},
        "judged": found.judged,
        "changed": found.changed,
        "changes": [
            {"from": before, "to": after, "decisions": count}
            for before, after, count in found.changes
        ],
    }


def _counted(examples: int) -> str:
    return f"Judged decisions by confidence: {examples}"


def _print_proposal(found: "ThresholdProposal") -> None:
    now = found.current
    then = found.proposed
    output.print_line(
        f"{_counted(found.examples)}. Now: high {now.high:g}, low {now.low:g} "
        f"(cost {found.current_cost:.3f})."
    )
    if then == now:
        output.print_line("No other thresholds have a lower cost.")
        return
    output.print_line(
        f"Proposed: high {then.high:g}, low {then.low:g} (cost {found.proposed_cost:.3f})."
    )
    output.print_line(f"Of {found.judged} decisions {found.changed} would change:")
    for before, after, count in found.changes:
        output.print_line(f"  {count}: {before.value} → {after.value}")
    output.print_line(
        f"Nothing was changed. To apply it, set THREADLINE_DECISION_HIGH={then.high:g} and "
        f"THREADLINE_DECISION_LOW={then.low:g}. To try it in a share of the threads, use "
        "THREADLINE_DECISION_VARIANTS."
    )


async def _outcomes(days: float, team: str) -> "list[JudgedDecision]":
    from threadline.conversations.store.judged_decisions import judged_since

    async with transaction() as tx:
        return await judged_since(tx, datetime.now(UTC) - timedelta(days=days), team)


def _tallies(title: str, rows: "Sequence[tuple[str, DecisionStats]]") -> None:
    from threadline.decisions.model import NextStep

    cells = []
    for name, tally in rows:
        steps = tally.next_steps
        scores = tally.calibration
        asked = steps[NextStep.CLARIFY] + steps[NextStep.RETRIEVE_MORE]
        went_on = steps[NextStep.PROCEED] + steps[NextStep.OPERATOR]
        counts = (tally.decisions, went_on, asked, steps[NextStep.ESCALATE])
        right = (
            "–" if tally.share_right is None else f"{tally.share_right:.0%} of {tally.labelled}"
        )
        errors = (f"{scores.brier:.3f}", f"{scores.ece:.3f}") if scores else ("–", "–")
        shown = map(str, (*counts, tally.thumbs_up, tally.thumbs_down))
        cells.append((name, *shown, right, *errors, output.cost_text(tally.cost_usd)))
    output.print_title(title)
    output.print_table(_COLUMNS, cells, fixed=_COLUMNS[1:])


def _reliability(calibration: "Calibration") -> None:
    cells = []
    for each in calibration.bins:
        filled = round(each.right * _BAR)
        figures = (str(each.count), f"{each.confidence:.2f}", f"{each.right:.2f}")
        bar = "█" * filled + "·" * (_BAR - filled)
        cells.append((f"{each.low:.1f} – {each.high:.1f}", *figures, bar))
    output.print_title("Reliability")
    output.print_table(("confidence", "judged", "mean", "right", ""), cells)
    output.print_line(
        f"{calibration.count} judged, Brier {calibration.brier:.3f}, ECE {calibration.ece:.3f}; "
        "0 is best"
    )


def _listed(title: str, outcomes: "Sequence[JudgedDecision]") -> None:
    output.print_line(f"{title}: {len(outcomes) or 'none'}")
    for each in outcomes[:_LISTED]:
        sure = f"{each.judgement.confidence:.2f}" if each.judgement else "–"
        why = (
            f", {each.judgement.reason.value}" if each.judgement and each.judgement.reason else ""
        )
        words = textwrap.shorten(each.made.decision.reasoning, 100, placeholder=" …")
        output.print_line(f"  {each.key}: {each.made.decision.type.value}, {sure}{why}. {words}")
    if len(outcomes) > _LISTED:
        output.print_line(f"  … and {len(outcomes) - _LISTED} more")


def draw_calibration(calibration: "Calibration", path: Path) -> None:
    """Write the picture in the format of the file's suffix. Raises `Permanent` if the drawing
    library is not installed, or the file cannot be written.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise Permanent(f"{path} must end in {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}.")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Permanent(
            "The plot needs matplotlib: install threadline[plot], or leave --plot out."
        ) from error
    figure = Figure(figsize=(6, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], linestyle="--", color="grey", label="perfect calibration")
    starts = [each.low for each in calibration.bins]
    right = [each.right for each in calibration.bins]
    widths = [each.high - each.low for each in calibration.bins]
    axes.bar(
        starts, right, width=widths, align="edge", alpha=0.5, edgecolor="black", label="right"
    )
    axes.plot([each.confidence for each in calibration.bins], right, "o")
    for each in calibration.bins:
        axes.annotate(
            str(each.count), ((each.low + each.high) / 2, each.right), ha="center", va="bottom"
        )
    axes.set(xlim=(0, 1), ylim=(0, 1.05), xlabel="confidence", ylabel="share correct")
    axes.set_title(
        f"{calibration.count} judged: Brier {calibration.brier:.3f}, ECE {calibration.ece:.3f}"
    )
    axes.legend(loc="upper left")
    try:
        figure.savefig(path)
    except OSError as error:
        raise Permanent(f"{path} cannot be written: {error}.") from error
