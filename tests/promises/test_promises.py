"""Every promise has a test, every test that names one names one that exists, and the documents say the same."""

import re
from pathlib import Path

import pytest

from tests.promises import document, manifest
from tests.promises.holders import ROOT, Holder, Misplaced, holders
from tests.promises.manifest import AREAS, PROMISES
from tests.promises.promise import Area, Promise


def test_every_promise_has_a_test() -> None:
    assert not sorted(set(PROMISES) - set(holders())), "these promises are held by no test"


def test_every_promise_that_a_test_names_exists() -> None:
    unknown = {name: tests for name, tests in holders().items() if name not in PROMISES}
    assert not unknown, "give it an entry in tests/promises/, or correct the name"


def test_a_name_and_a_sentence_are_used_once() -> None:
    promises = [promise for area in AREAS for promise in area.promises]
    for each in ("name", "sentence"):
        values = [getattr(promise, each) for promise in promises]
        assert len(values) == len(set(values)), sorted({value for value in values if values.count(value) > 1})
    assert len({area.name for area in AREAS}) == len(AREAS)


@pytest.mark.promise("operation:documents:true")
def test_the_document_follows_from_the_manifest() -> None:
    assert document.DOCUMENT.read_text("utf-8") == manifest.page(), "run: make guarantees"


def test_the_readme_guarantees_nothing_but_what_the_areas_say() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    section = re.search(r"^## What is guaranteed\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert section
    bullets = [" ".join(each.split()) for each in re.findall(r"^- ((?:.+\n(?:  .+\n)*))", section[1], re.MULTILINE)]
    sentences = [area.sentence for area in AREAS]
    assert bullets
    assert bullets == [sentence for sentence in sentences if sentence in bullets]


def module(folder: Path, source: str, name: str = "test_it.py") -> Path:
    tests = folder / "tests"
    tests.mkdir()
    (tests / name).write_text(f"import pytest\n\n{source}")
    return tests


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('@pytest.mark.promise("a:b:c", "a:b:d")\ndef test_it(): ...', {"a:b:c": ["test_it"], "a:b:d": ["test_it"]}),
        (
            '@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.promise("a:b:c"))])\n'
            "async def test_it(x): ...",
            {"a:b:c": ["test_it"]},
        ),
        (
            'pytestmark = [pytest.mark.journey, pytest.mark.promise("a:b:c")]\n'
            "def test_it(): ...\ndef test_that(): ...",
            {"a:b:c": ["test_it", "test_that"]},
        ),
        ("def test_it(): ...", {}),
    ],
)
def test_names_are_read_before_a_test_in_its_cases_and_for_a_file(
    tmp_path: Path, source: str, found: dict[str, list[str]]
) -> None:
    tests = holders(module(tmp_path, source))
    assert tests == {name: tuple(Holder("tests/test_it.py", test) for test in each) for name, each in found.items()}


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ('@pytest.mark.promise("a:b:c")\ndef scene(): ...', "on no test"),
        ('class TestIt:\n    @pytest.mark.promise("a:b:c")\n    def test_it(self): ...', "on no test"),
        ('pytestmark = pytest.mark.promise("a:b:c")', "on no test"),
        ("@pytest.mark.promise()\ndef test_it(): ...", "is named"),
        ("@pytest.mark.promise(NAME)\ndef test_it(): ...", "write the promise's name out"),
        ('@pytest.mark.skip\n@pytest.mark.promise("a:b:c")\ndef test_it(): ...', "does not run"),
        ('@pytest.mark.xfail(reason="")\n@pytest.mark.promise("a:b:c")\ndef test_it(): ...', "does not run"),
    ],
)
def test_a_marker_that_holds_nothing_is_refused(tmp_path: Path, source: str, why: str) -> None:
    with pytest.raises(Misplaced, match=why):
        holders(module(tmp_path, source))


def test_a_marker_outside_the_files_of_tests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misplaced, match="on no test"):
        holders(module(tmp_path, '@pytest.mark.promise("a:b:c")\ndef test_it(): ...', "conftest.py"))


@pytest.mark.parametrize(
    ("name", "sentence"), [("post", "It is."), ("post:once", "It is."), ("Post:a:b", "It is."), ("post:a:b", "it is")]
)
def test_a_promise_has_a_name_of_three_parts_and_says_sentences(name: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=name):
        Promise(name, sentence, "It.")


def test_a_promise_stands_in_its_own_area() -> None:
    with pytest.raises(ValueError, match="stands in the area"):
        Area("turn", "Turns", "They turn.", (Promise("post:a:b", "It is.", "It."),))


def test_what_no_test_holds_is_seen_in_the_document() -> None:
    area = Area("post", "Posts", "All.", (Promise("post:a:b", "It is posted.", "Luck.", ("Here.", "There.")),))
    text = document.render("# All", (area,), "## End", {})
    assert "**Held by** nothing yet." in text
    assert "- Here.\n- There.\n" in text
    held = document.render("# All", (area,), "## End", {"post:a:b": (Holder("tests/a.py", "test_a"),)})
    assert "**Held by** `tests/a.py`: `test_a`." in held
