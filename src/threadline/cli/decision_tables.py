"""Reports on decisions as tables in the terminal."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from threadline.cli import output as telling
from threadline.decisions.model import Course
from threadline.decisions.outcomes import Label

if TYPE_CHECKING:
    from threadline.decisions.calibration import Calibration
    from threadline.decisions.outcomes import Outcome
    from threadline.decisions.reports import Report, Tally
    from threadline.decisions.tuning import Proposal, TooFew

_LISTED = 20
"""Of each list; the newest, and how many more there are."""
_BAR = 20
_COLUMNS = ("", "decisions", "went on", "asked", "escalated", "👍", "👎", "right", "Brier", "ECE", "cost")


def report(found: "Report") -> None:
    rows = [(action.value, tally) for action, tally in found.actions]
    _tallies("Decisions", [*rows, ("total", found.whole)])
    if found.whole.calibration:
        _reliability(found.whole.calibration)
    else:
        telling.line(
            "There is no calibration yet: no answer has more thumbs one way than the other, and no escalation for low "
            "confidence was answered or closed by a person."
        )
    _listed("Escalated without need", found.needless)
    _listed("Answered, but should have been escalated", found.missed)
    if len(found.variants) > 1:
        _tallies(
            "Variants", [(f"{name or '(none)'}, prompt {version}", tally) for name, version, tally in found.variants]
        )


def proposal(found: "Proposal | TooFew") -> None:
    from threadline.decisions.tuning import TooFew

    if isinstance(found, TooFew):
        counted = f"Judged decisions by confidence: {found.count}"
        telling.line(f"{counted}; {found.missing} more are needed before thresholds are proposed.")
        return
    now, then = found.now, found.then
    present = f"Now: high {now.high:g}, low {now.low:g} (cost {found.cost_now:.3f})."
    telling.line(f"Judged decisions by confidence: {found.lessons}. {present}")
    if then == now:
        telling.line("No other thresholds have a lower cost.")
        return
    telling.line(f"Proposed: high {then.high:g}, low {then.low:g} (cost {found.cost_then:.3f}).")
    telling.line(f"Of {found.weighed} decisions {found.changed} would change:")
    for before, after, count in found.moves:
        telling.line(f"  {count}: {before.value} → {after.value}")
    telling.line(
        f"Nothing was changed. To apply it, set THREADLINE_DECISION_HIGH={then.high:g} and "
        f"THREADLINE_DECISION_LOW={then.low:g}. To try it in a share of the threads, use THREADLINE_DECISION_VARIANTS."
    )


def _tallies(title: str, rows: "Sequence[tuple[str, Tally]]") -> None:
    table = Table(*_COLUMNS, title=title, title_justify="left")
    for name, tally in rows:
        asked = tally.courses[Course.CLARIFY] + tally.courses[Course.RETRIEVE_MORE]
        scores = tally.calibration
        table.add_row(
            escape(name),
            str(tally.decisions),
            *(str(count) for count in (tally.courses[Course.PROCEED], asked, tally.courses[Course.ESCALATE])),
            *(str(tally.ups), str(tally.downs)),
            "–" if tally.share_right is None else f"{tally.share_right:.0%} of {_labelled(tally)}",
            f"{scores.brier:.3f}" if scores else "–",
            f"{scores.ece:.3f}" if scores else "–",
            f"${tally.cost_usd:.4f}",
        )
    telling.console.print(table)


def _labelled(tally: "Tally") -> int:
    return sum(count for label, count in tally.labels.items() if label is not Label.UNLABELLED)


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


def _listed(title: str, outcomes: "Sequence[Outcome]") -> None:
    telling.line(f"{title}: {len(outcomes) or 'none'}")
    for each in outcomes[:_LISTED]:
        sure = f"{each.verdict.confidence:.2f}" if each.verdict else "–"
        why = f", {each.verdict.reason.value}" if each.verdict and each.verdict.reason else ""
        words = textwrap.shorten(each.decided.reasoning, 100, placeholder=" …")
        telling.line(f"  {each.key}: {each.decided.action.value}, {sure}{why}. {words}")
    if len(outcomes) > _LISTED:
        telling.line(f"  … and {len(outcomes) - _LISTED} more")
