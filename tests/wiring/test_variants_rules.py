"""The variants that the settings name, and what is said where they cannot be used."""

from pathlib import Path

import pytest

from threadline.decisions.confidence import Thresholds
from threadline.decisions.variant_settings import variants
from threadline.decisions.variants import Variant
from threadline.errors import Permanent
from threadline.settings import DecisionSettings

HOUSE = Thresholds(0.8, 0.4)


def named(monkeypatch: pytest.MonkeyPatch, value: str) -> tuple[Variant, ...]:
    monkeypatch.setenv("THREADLINE_DECISION_HIGH", "0.8")
    monkeypatch.setenv("THREADLINE_DECISION_LOW", "0.4")
    monkeypatch.setenv("THREADLINE_DECISION_VARIANTS", value)
    return variants(DecisionSettings.read())


def test_without_variants_all_threads_have_the_house_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named(monkeypatch, "") == named(monkeypatch, "[]") == (Variant(thresholds=HOUSE),)


def test_a_variant_has_what_it_names_and_the_rest_of_the_house(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prompt = tmp_path / "bold.md"
    prompt.write_text("Be bold.\n", encoding="utf-8")
    value = f'[{{"name": "calm"}}, {{"name": "bold", "share": 0.25, "high": 0.7, "prompt": "{prompt}"}}]'
    assert named(monkeypatch, value) == (
        Variant("calm", 1.0, HOUSE),
        Variant("bold", 0.25, Thresholds(0.7, 0.4), "Be bold."),
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("calm", "write it as a JSON list"),
        ('{"name": "calm"}', "write it as a JSON list"),
        ("[" * 100_000, "write it as a JSON list"),
        ('["calm"]', "THREADLINE_DECISION_VARIANTS is 'calm'"),
        ('[{"share": 1}]', "THREADLINE_DECISION_VARIANTS"),
        ('[{"name": "a b"}]', "THREADLINE_DECISION_VARIANTS is 'a b'"),
        ('[{"name": "a", "share": 0}]', "THREADLINE_DECISION_VARIANTS is 0: .*greater than 0"),
        ('[{"name": "a", "share": NaN}]', "THREADLINE_DECISION_VARIANTS is nan"),
        ('[{"name": "a", "high": 1.5}]', "THREADLINE_DECISION_VARIANTS is 1.5: .*less than or equal to 1"),
        ('[{"name": "a", "hihg": 0.5}]', "THREADLINE_DECISION_VARIANTS"),
        ('[{"name": "a"}, {"name": "a"}]', "each variant needs its own name"),
        ('[{"name": "a", "low": 0.9}]', "variant a: the thresholds must be .* 0.9 and 0.8"),
        ('[{"name": "a", "prompt": "/nowhere/at/all.md"}]', "the prompt of a cannot be read"),
    ],
)
def test_variants_that_make_no_sense_are_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    with pytest.raises(Permanent, match=said):
        named(monkeypatch, value)


@pytest.mark.parametrize(("content", "said"), [(b" \n", "is empty"), (b"\xff\xfe\x00", "cannot be read")])
def test_a_prompt_that_says_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes, said: str
) -> None:
    prompt = tmp_path / "prompt.md"
    prompt.write_bytes(content)
    with pytest.raises(Permanent, match=said):
        named(monkeypatch, f'[{{"name": "a", "prompt": "{prompt}"}}]')
