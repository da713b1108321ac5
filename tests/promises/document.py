"""docs/guarantees.md, as it follows from the manifest and from the tests that name its promises."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from tests.promises.holders import ROOT, Holder
from tests.promises.promise import Area, Promise

DOCUMENT = ROOT / "docs" / "guarantees.md"

_WIDTH = 120


def render(preface: str, areas: Iterable[Area], appendix: str, tests: Mapping[str, tuple[Holder, ...]]) -> str:
    """The whole document; a promise without tests says so, for the test of the manifest to find."""
    areas = tuple(areas)
    return "\n".join(
        (
            preface.strip(),
            "",
            *(f"- [{area.title}](#{_anchor(area.title)}): {_count(area)}" for area in areas),
            "",
            *(line for area in areas for line in _area(area, tests)),
            appendix.strip(),
            "",
        )
    )


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _count(area: Area) -> str:
    return f"{len(area.promises)} promise{'' if len(area.promises) == 1 else 's'}"


def _anchor(title: str) -> str:
    return "".join(sign for sign in title.lower().replace(" ", "-") if sign.isalnum() or sign in "-_")


def _area(area: Area, tests: Mapping[str, tuple[Holder, ...]]) -> Iterator[str]:
    yield from (f"## {area.title}", "")
    yield from (*_wrapped(area.sentence), "")
    for promise in area.promises:
        yield from _promise(promise, tests.get(promise.name, ()))
    if area.ends:
        yield from ("**All of this ends** here:", "", *_items(area.ends), "")


def _promise(promise: Promise, tests: tuple[Holder, ...]) -> Iterator[str]:
    yield from (f"### {promise.name}", "")
    yield from (*_wrapped(promise.sentence), "")
    yield from (*_wrapped(f"**Rests on** {promise.rests_on}"), "")
    if len(promise.ends) == 1:
        yield from (*_wrapped(f"**Ends** here: {promise.ends[0]}"), "")
    elif promise.ends:
        yield from ("**Ends** here:", "", *_items(promise.ends), "")
    yield from (*_wrapped(f"**Held by** {_listed(tests)}."), "")


def _listed(tests: tuple[Holder, ...]) -> str:
    """`file`: `test`, `test`; `file`: … as the tests of the documents read it."""
    files = groupby(tests, key=lambda each: each.file)
    named = (f"`{file}`: " + ", ".join(f"`{each.test}`" for each in group) for file, group in files)
    return "; ".join(named) or "nothing yet"


def _items(sentences: Iterable[str]) -> Iterator[str]:
    for sentence in sentences:
        yield from _wrapped(f"- {sentence}", "  ")


def _wrapped(text: str, hanging: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)
