"""Results of any kind and size become small, valid and free of secrets."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.support.examples import examples
from threadline.tools.model import ErrorCode, ToolResult, error_result
from threadline.tools.output import MODEL_LIMIT, fit_json, render_result

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.decimals()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=300), inner, max_size=30)
    ),
    max_leaves=60,
)
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


class Colour(Enum):
    RED = "red"


class Role(BaseModel):
    name: str
    rate: Decimal


@dataclass
class Project:
    title: str
    roles: list[Role]


def _bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


@examples(3)
@given(JSON, st.integers(256, 5_000))
def test_any_value_fits_into_its_limit_as_json_for_postgres(value: Any, limit: int) -> None:
    fits = fit_json(value, limit)
    text = json.dumps(fits.value, ensure_ascii=False, allow_nan=False)
    assert len(text.encode()) <= limit
    assert "\\u0000" not in text.replace("\\\\", "")


@examples(2)
@given(JSON, st.text(), st.lists(st.text()), st.integers(3_000, 12_000))
def test_model_is_shown_json_within_its_limit(
    data: Any, text: str, notes: list[str], limit: int
) -> None:
    for result in (
        ToolResult(data=data, display_text=text * 500, notes=tuple(notes * 200)),
        error_result(ErrorCode.REFUSED, text * 100, text * 100),
    ):
        shown = render_result(result, limit)
        assert len(shown.encode()) <= (limit if result.success else max(limit, 4_300))
        assert json.loads(shown)["success"] is result.success


@pytest.mark.parametrize("kind", ["control", "mapping", "rows"])
def test_50_mb_are_cut_with_a_note(kind: str) -> None:
    big = {
        "control": "\x01" * 50_000_000,
        "mapping": {f"key {n}": "z" * 500 for n in range(100_000)},
        "rows": {"rows": [{"id": n, "note": "n" * 100} for n in range(300_000)]},
    }[kind]
    shown = render_result(ToolResult(data=big))
    assert MODEL_LIMIT // 3 < len(shown.encode()) <= MODEL_LIMIT
    assert "shown" in json.loads(shown)["data_cut"]


def test_only_the_shown_part_is_read() -> None:
    class Endless(Mapping[str, int]):
        read = 0

        def __len__(self) -> int:
            return 10**9

        def __getitem__(self, key: str) -> int:
            raise AssertionError(key)

        def __iter__(self) -> Iterator[str]:
            while True:
                self.read += 1
                yield f"key {self.read}"

        def items(self) -> Any:
            return ((key, 1) for key in self)

    endless = Endless()
    (cut,) = fit_json(endless, 1_000).cuts
    assert "75 of 1,000,000,000" in cut
    assert endless.read < 100


def test_long_value_leaves_room_for_later_ones() -> None:
    run = {
        "log": "l" * 100_000,
        "steps": [{"out": "o" * 9_000, "name": str(n)} for n in range(3)],
        "state": "failed",
    }
    fits = fit_json(run, 4_000)
    assert fits.value["state"] == "failed"
    assert [step["name"] for step in fits.value["steps"]] == ["0", "1", "2"]
    assert fits.cuts[0].startswith("log: ")
    assert "100,000" in fits.cuts[0]
    assert len(fits.cuts) == 4


def test_small_value_stays_whole() -> None:
    whole = {"a": [1, 2.5, None, True, "ä\n"], "b": {"c": []}}
    assert fit_json(whole, 256).value == whole
    assert fit_json(whole, 256).cuts == []


def test_python_values_become_json() -> None:
    given = {
        "at": datetime(2026, 3, 1, 9, tzinfo=UTC),
        "day": date(2026, 3, 1),
        "sum": Decimal("10.10"),
        "colour": Colour.RED,
        "project": Project("P", [Role(name="dev", rate=Decimal("800.00"))]),
        "raw": b"\xff" * 1_500,
        "nan": float("nan"),
        "huge": 10**400,
        "large": 10**20,
        "other": object(),
        7: ("a", frozenset({1})),
    }
    assert fit_json(given, 4_000).value == {
        "at": "2026-03-01T09:00:00Z",
        "day": "2026-03-01",
        "sum": "10.10",
        "colour": "red",
        "project": {"title": "P", "roles": [{"name": "dev", "rate": "800.00"}]},
        "raw": "[1,500 bytes]",
        "nan": "[not a number]",
        "huge": "[a number too long to show]",
        "large": "1" + "0" * 20,
        "other": "[object]",
        "7": ["a", [1]],
    }


def test_value_within_itself_is_cut() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert "what lies deeper was left out" in fit_json(circle, 1_000).cuts[0]


def test_no_secret_is_shown_where_a_text_is_cut() -> None:
    for limit in range(256, 400, 7):
        fits = fit_json(
            {"note": "w " * (limit // 4) + TOKEN + " w" * 40_000, "bot_token": "abcdef", TOKEN: 1},
            limit,
        )
        text = json.dumps(fits.value)
        assert "ghp_a1B2" not in text
        assert "abcdef" not in text


def test_no_half_secret_is_shown_after_many_redactions() -> None:
    """Marks are shorter than secrets, so the end of the text, where a secret may be cut in half,
    comes near the shown part.
    """
    body = "\n".join(["A1b2" * 16] * 320)
    shown = []
    for length in range(18_000, 20_800, 61):
        key = f"-----BEGIN PRIVATE KEY-----\n{body[:length]}\n-----END PRIVATE KEY-----\n"
        shown.append(fit_json(key + (TOKEN + " ") * 5_000, 800).value)
    assert not [text for text in shown if "ghp_" in text]
    assert shown[0].startswith("[redacted: private key]")
