"""The parts of docs/operator.md that follow from the rules: each answer in them was got by asking the code."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.operator_page.examples import FLOWS, MORE, Example
from tests.tools_page.page import filled, row
from threadline.operator.model.scope import (
    MEANING,
    PHRASES,
    QUERIES,
    REMOVED,
    WAYS,
    Phrase,
    Requirement,
    Step,
    branch,
    decide,
    operations_requiring_scope,
    which_rfp,
)
from threadline.operator.model.thread_commands import Link, ThreadCommand, thread_command
from threadline.rfps.rfp_ids import scope_of

PAGE = Path(__file__).parents[2] / "docs" / "operator.md"
ID = "rfp_abc123"
SAID = {True: "yes", False: "no", None: "unclear"}


def renewed(text: str) -> str:
    """The page with its parts as the code has them now."""
    tree = "\n".join(_tree())
    parts = {
        "tree": f"```text\n{tree}\n```",
        "phrases": _table(("step", "phrase", "needs an RFP", "with an id", "in a general question"), _phrases()),
        "removed": _table(("not in step 3", "why", "needs an RFP"), _removed()),
        "branches": _table(("an id", "needs an RFP", "branch", "what happens"), _branches()),
        "question": f"> {which_rfp('threadline')}",
        "flows": _table(_EXAMPLE, map(_example, FLOWS)),
        "examples": _table(_EXAMPLE, map(_example, MORE)),
    }
    for part, content in parts.items():
        text = filled(text, part, content)
    return text


def example(phrase: str) -> str:
    """A text in which a phrase of the table stands."""
    return phrase.replace("rfp_…", ID).replace("…", "a thing as")


def of_step(step: Step) -> list[Phrase]:
    """The phrases of a step; the last step has none."""
    return [each for each in PHRASES if each.step is step]


_EXAMPLE = ("message", "thread bound to", "about", "decided by", "needs an RFP", "branch")


def _tree() -> Iterator[str]:
    yield "the whole message is `link rfp_…`, `bind rfp_…` or `where`?  → done, without a model"
    yield "what is it about?  → the first id in the message, else the id that the thread is bound to, else nothing"
    yield "does it need an RFP?"
    for step in Step:
        texts = [example(each.text) for each in of_step(step)] or ["hello"]
        yield f"{'└─' if step is Step.DEFAULT else '├─'} {step}. {MEANING[step]}  → {_answer(texts)}"
        line = "  " if step is Step.DEFAULT else "│ "
        if step is Step.JOB:
            yield f"{line}   └─ with an id in the message  → {_answer([f'{each} {ID}' for each in texts])}"
        if step is Step.RELATED:
            asked = [f"{query.text} {each}" for query in QUERIES for each in texts]
            general = ", ".join(f'"{query.text}"' for query in QUERIES)
            yield f"{line}   └─ in a general question: with {general}  → {_answer(asked)}"
    yield "which way?"
    ways = list(_ways())
    for number, (told, needs, way, does) in enumerate(ways, 1):
        yield f"{'└─' if number == len(ways) else '├─'} {told}, {needs}  → {way}: {does}"


def _answer(texts: Iterable[str]) -> str:
    """What the code says of all these texts alike.

    Raises:
        ValueError: it says one thing of some and another of others.
    """
    answers = {operations_requiring_scope(each) for each in texts}
    if len(answers) != 1:
        raise ValueError("one step of the tree has more than one answer")
    return SAID[answers.pop()]


def _ways() -> Iterator[tuple[str, str, str, str]]:
    for required, said in ((False, "needs none"), (None, "unclear"), (True, "needs one")):
        way = branch("", required)
        yield "no id", said, way, WAYS[way]
    (way,) = {branch(ID, required) for required in SAID}
    yield "an id", "whatever it needs", way, WAYS[way]


def _phrases() -> Iterator[tuple[str, ...]]:
    for each in PHRASES:
        text = example(each.text)
        told = (text, f"{text} {ID}", f"show me {text}")
        answers = (SAID[operations_requiring_scope(said)] for said in told)
        yield str(int(each.step)), ", ".join(_code(form) for form in (each.text, *each.forms)), *answers


def _removed() -> Iterator[tuple[str, ...]]:
    for phrase, why in REMOVED.items():
        yield _code(phrase), why, SAID[operations_requiring_scope(phrase)]


def _branches() -> Iterator[tuple[str, ...]]:
    for rfp_id in ("", ID):
        for required, said in SAID.items():
            way = branch(rfp_id, required)
            yield "yes" if rfp_id else "no", said, way, WAYS[way]


def _example(each: Example) -> tuple[str, ...]:
    bound = _code(each.bound) if each.bound else ""
    if command := thread_command(each.text):
        return _code(each.text), bound, _done(command), "", "", "none"
    about, needs = scope_of(each.text, each.bound), decide(each.text)
    others = f" (not {', '.join(_code(other) for other in about.others)})" if about.others else ""
    named = f"{_code(about.rfp_id)}{others}" if about.rfp_id else "nothing"
    return _code(each.text), bound, named, _why(needs), SAID[needs.required], branch(about.rfp_id, needs.required)


def _done(command: ThreadCommand) -> str:
    if isinstance(command, Link):
        return f"binds the thread to {_code(command.rfp_id)}" if command.rfp_id else "asks for an id"
    return "tells what the thread is bound to"


def _why(needs: Requirement) -> str:
    words = [f"step {needs.step:d}", *([_code(needs.phrase)] if needs.phrase else [])]
    return ", ".join([*words, *([f"with {_code(needs.exception)}"] if needs.exception else [])])


def _code(text: str) -> str:
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{text}{ticks}".replace("|", "\\|")


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(row(each) for each in (columns, ["---"] * len(columns), *rows))
