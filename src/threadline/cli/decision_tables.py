"""Reports on decisions as tables in the terminal."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from threadline.cli import output as telling
from threadline.decisions.model import NextStep

if TYPE_CHECKING:
    from threadline.decisions.reports import Calibration, DecisionStats, JudgedDecision, Report
    from threadline.decisions.tuning import ThresholdProposal

_LISTED = 20
"""Of each list; the newest, and how many more there are."""
_BAR = 20
_COLUMNS = ("", "decisions", "went on", "asked", "escalated", "👍", "👎", "right", "Brier", "ECE", "cost")


def report(found: "Report") -> None:
    rows = [(type_.value, stats) for type_, stats in found.types]
    _tallies("Decisions", [*rows, ("total", found.total)])
    if found.total.calibration:
        _reliability(found.total.calibration)
    else:
        telling.line(
            "There is no calibration yet: no answer has more thumbs one way than the other, and no escalation for low "
            "confidence was answered or closed by a person."
        )
    _listed("Escalated without need", found.not_needed)
    _listed("Answered, but should have been escalated", found.missed)
    if len(found.variants) > 1:
        _tallies(
            "Variants", [(f"{name or '(none)'}, prompt {version}", tally) for name, version, tally in found.variants]
        )


def proposal(found: "ThresholdProposal | None", examples: int) -> None:
    """Args: `examples`: how many judged decisions there are to propose by."""
    from threadline.decisions.tuning import MIN_EXAMPLES

    if found is None:
        counted = f"Judged decisions by confidence: {examples}"
        telling.line(f"{counted}; {MIN_EXAMPLES - examples} more are needed before thresholds are proposed.")
        return
    now, then = found.current, found.proposed
    present = f"Now: high {now.high:g}, low {now.low:g} (cost {found.current_cost:.3f})."
    telling.line(f"Judged decisions by confidence: {examples}. {present}")
    if then == now:
        telling.line("No other thresholds have a lower cost.")
        return
    telling.line(f"Proposed: high {then.high:g}, low {then.low:g} (cost {found.proposed_cost:.3f}).")
    telling.line(f"Of {found.judged} decisions {found.changed} would change:")
    for before, after, count in found.changes:
        telling.line(f"  {count}: {before.value} → {after.value}")
    telling.line(
        f"Nothing was changed. To apply it, set THREADLINE_DECISION_HIGH={then.high:g} and "
        f"THREADLINE_DECISION_LOW={then.low:g}. To try it in a share of the threads, use THREADLINE_DECISION_VARIANTS."
    )


def _tallies(title: str, rows: "Sequence[tuple[str, DecisionStats]]") -> None:
    table = Table(*_COLUMNS, title=title, title_justify="left")
    for name, tally in rows:
        asked = tally.next_steps[NextStep.CLARIFY] + tally.next_steps[NextStep.RETRIEVE_MORE]
        scores = tally.calibration
        table.add_row(
            escape(name),
            str(tally.decisions),
            *(str(count) for count in (tally.next_steps[NextStep.PROCEED], asked, tally.next_steps[NextStep.ESCALATE])),
            *(str(tally.thumbs_up), str(tally.thumbs_down)),
            "–" if tally.share_right is None else f"{tally.share_right:.0%} of {tally.labelled}",
            f"{scores.brier:.3f}" if scores else "–",
            f"{scores.ece:.3f}" if scores else "–",
            f"${tally.cost_usd:.4f}",
        )
    telling.console.print(table)


def _reliability(calibration: "Calibration") -> None:
    table = Table("confidence", "judged", "mean", "right", "", title="Reliability", title_justify="left")
    for each in calibration.bins:
        filled = round(each.right * _BAR)
        table.add_row(
            f"{each.low:.1f} – {each.high:.1f}",
            str(each.count),
            f"{each.confidence:.2f}",
            f"{each.right:.2f}",
            "█" * filled + "·" * (_BAR - filled),
        )
    table.caption = f"{calibration.count} judged, Brier {calibration.brier:.3f}, ECE {calibration.ece:.3f}; 0 is best"
    telling.console.print(table)


def _listed(title: str, outcomes: "Sequence[JudgedDecision]") -> None:
    telling.line(f"{title}: {len(outcomes) or 'none'}")
    for each in outcomes[:_LISTED]:
        sure = f"{each.judgement.confidence:.2f}" if each.judgement else "–"
        why = f", {each.judgement.reason.value}" if each.judgement and each.judgement.reason else ""
        words = textwrap.shorten(each.decision.reasoning, 100, placeholder=" …")
        telling.line(f"  {each.key}: {each.decision.type.value}, {sure}{why}. {words}")
    if len(outcomes) > _LISTED:
        telling.line(f"  … and {len(outcomes) - _LISTED} more")
