"""The measurements as tables on a terminal."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.evals import metrics
from tests.evals.deciding import Judge, Made
from tests.evals.labelled import Kind
from tests.evals.metrics import Place
from tests.evals.retrieving import Answered, Measured
from tests.evals.silence import Judged, share_decided, share_right, share_right_by_model
from threadline.decisions.model import DecisionType

_PLUMBING = (
    "OPENAI_API_KEY is not set, so the devstack's script has decided, by a few words. This "
    "checks the plumbing alone: that each query yields a valid decision, which is kept as it "
    "was made. How well a model decides it does not say."
)


def retrieval(console: Console, measured: Measured) -> None:
    """Print recall and mean reciprocal rank for each kind of question, and the questions that both
    searches missed.
    """
    table = _table(f"Retrieval: the right section ({measured.model or 'no model of embeddings'})")
    for column in ("questions", "of", "found by", "recall@1", "recall@5", "MRR"):
        table.add_column(column)
    for kind, answered in _kinds(measured.answered):
        table.add_row(
            kind,
            str(len(answered)),
            "words",
            *_figures([each.place_by_words for each in answered]),
        )
        if measured.model:
            table.add_row(
                "", "", "words and meaning", *_figures([each.place_fused for each in answered])
            )
    console.print(table)
    missed = [
        each.question
        for each in measured.answered
        if each.place_by_words is each.place_fused is None
    ]
    _line(console, f"Not among the first five: {len(missed)}")
    for each in missed:
        _line(console, f"  {each.kind}: {each.text} ({each.document}, {each.section})")


def decisions(console: Console, judge: Judge, made: Sequence[Made]) -> None:
    """Print the decisions made for each right one, the share of right ones, and the errors of the
    others.
    """
    if judge.scripted:
        _line(console, _PLUMBING)
    console.print(
        _confusion(
            f"Decisions by {judge.name}: a line for what is right", [each.pair for each in made]
        )
    )
    if not judge.scripted:
        _misses(console, made)
    invalid = [each for each in made if not each.valid]
    _line(console, f"Valid, and kept as they were made: {len(made) - len(invalid)} of {len(made)}")
    for each in invalid:
        _line(
            console,
            f"  {each.example.situation.query}: {'; '.join(each.problems) or 'kept otherwise'}",
        )


def silence(console: Console, judge: Judge, judged: Sequence[Judged]) -> None:
    """Print the shares of threads that the rules decide, and decide right, and the wrong ones."""
    _line(
        console,
        f"Silence: the rules decide {share_decided(judged):.2f} of {len(judged)} threads, "
        f"{share_right(judged):.2f} of them right",
    )
    if not judge.scripted:
        _line(
            console, f"Right by {judge.name} among the others: {share_right_by_model(judged):.2f}"
        )
    for each in judged:
        if each.right is False or each.by_model is (not each.example.answers):
            wanted = "answer" if each.example.answers else "silence"
            _line(console, f"  {wanted} was right: {each.example.lines[-1]} ({each.example.mode})")


def _confusion(title: str, pairs: Sequence[tuple[DecisionType, DecisionType]]) -> Table:
    table = _table(title)
    counts = metrics.confusion(pairs)
    for column in ("right", "of", "share", *DecisionType):
        table.add_column(column, no_wrap=True)
    for right in DecisionType:
        of_right = [pair for pair in pairs if pair[0] is right]
        share = f"{metrics.share_right(of_right):.2f}" if of_right else "–"
        table.add_row(
            right,
            str(len(of_right)),
            share,
            *(str(counts[right, given] or "") for given in DecisionType),
        )
    table.add_row("all", str(len(pairs)), f"{metrics.share_right(pairs):.2f}")
    return table


def _misses(console: Console, made: Sequence[Made]) -> None:
    for each in made:
        right, given = each.pair
        if right is not given:
            about = f" ({each.example.about})" if each.example.about else ""
            _line(console, f"  {right}, and not {given}: {each.example.situation.query}{about}")


def _kinds(answered: Sequence[Answered]) -> Iterator[tuple[str, Sequence[Answered]]]:
    yield "all", answered
    for kind in Kind:
        if of_kind := [each for each in answered if each.question.kind is kind]:
            yield kind.value, of_kind


def _figures(places: Sequence[Place]) -> Iterator[str]:
    yield from (f"{metrics.recall(places, k):.2f}" for k in (1, 5))
    yield f"{metrics.mean_reciprocal_rank(places):.2f}"


def _table(title: str) -> Table:
    """Return a table that fits into eighty columns."""
    return Table(
        title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False
    )


def _line(console: Console, text: str) -> None:
    console.print(escape(text), soft_wrap=True)
