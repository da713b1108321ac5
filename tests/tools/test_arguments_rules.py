"""Arguments are read strictly, and errors are named by field."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from threadline.tools.arguments import (
    MAX_LENGTH,
    InvalidArguments,
    canonical_json,
    loggable_arguments,
    parse_arguments,
)
from threadline.tools.model import ErrorCode, ToolError


class Person(BaseModel):
    name: str
    age: int | None = Field(default=None, ge=0, le=150)


class Team(BaseModel):
    size: int


class Asked(BaseModel):
    title: str = Field(min_length=2)
    days: Decimal = Decimal(1)
    limit: int = Field(default=20, ge=1, le=100)
    kind: Literal["a", "b"] = "a"
    start: datetime | None = None
    people: list[Person] = Field(default_factory=list, max_length=3)
    owner: Person | Team | None = None
    note: str | None = "none"

    @field_validator("title")
    @classmethod
    def _spoken(cls, title: str) -> str:
        if title.startswith("#"):
            raise ValueError("titles begin with a word")
        return title


NO_JSON = "not JSON"


def _read(text: str) -> Asked:
    return parse_arguments(Asked, text)


def _told(text: str) -> str:
    with pytest.raises(InvalidArguments) as refused:
        _read(text)
    return ToolError(ErrorCode.INVALID_ARGUMENTS, str(refused.value)).message


@pytest.mark.parametrize(
    ("fields", "place", "fact"),
    [
        ('"title": "x"', "`title`", "at least 2"),
        ('"title": null', "`title`", "missing"),
        ('"title": "#1"', "`title`", "titles begin with a word"),
        ('"limit": "5"', "`limit`", "a valid integer"),
        ('"kind": "c"', "`kind`", "'a' or 'b'"),
        ('"start": "tomorrow"', "`start`", "a valid datetime"),
        ('"people": {}', "`people`", "a valid array"),
        ('"people": [{"name": "a"}, {"age": 200}]', "`people/1/name`", "missing"),
        ('"people": [{"name": "a", "age": 200}]', "`people/0/age`", "less than or equal to 150"),
        (
            '"people": [{"name": "a", "colour": 1}]',
            "`people/0/colour` is unknown",
            "only name, age",
        ),
        (
            '"colour": "SECRET"',
            "`colour` is unknown",
            "only title, days, limit, kind, start, people, owner, note",
        ),
        ('"owner": {"name": 3}', "`owner/name`", "a valid string"),
    ],
)
def test_error_names_the_field_and_its_expected_value(fields: str, place: str, fact: str) -> None:
    told = _told('{"title": "ok", ' + fields + "}")
    assert place in told
    assert fact in told
    for hidden in ("SECRET", "Person"):
        assert hidden not in told


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "`title` is missing"),
        ("{title: 1}", NO_JSON),
        ('{"title": "ok", "days": NaN}', NO_JSON),
        ('{"title": "ok", "limit": ' + "9" * 5_000 + "}", NO_JSON),
        ("[" * 100_000, NO_JSON),
        ('{"title": "ok", "people": ' + "[" * 900 + "]" * 900 + "}", "nested too deeply"),
        ("[]", "not an object"),
        (" " * (MAX_LENGTH + 1), "longer than 1,000,000 characters"),
        (r'{"title": "a\u0000b"}', "cannot be stored"),
        (r'{"title": "a\ud800b"}', "cannot be stored"),
    ],
)
def test_malformed_arguments_are_refused(text: str, fact: str) -> None:
    assert fact in _told(text)


def test_first_faults_are_named_and_the_others_counted() -> None:
    told = _told(json.dumps({"title": "ok"} | {f"x{n}": n for n in range(10)}))
    assert told.count("is unknown") >= 2
    assert len(told) <= 500


def test_long_unknown_name_is_cut() -> None:
    assert len(_told(json.dumps({"title": "ok", "n" * 10_000: 1}))) < 250


def test_null_is_an_omitted_optional_field_at_any_depth() -> None:
    asked = _read(
        '{"title": "ok", "days": null, "limit": null, "kind": null, "start": null, "note": null,'
        ' "people": [{"name": "a", "age": null}], "owner": {"name": "b", "age": null}}'
    )
    assert (asked.days, asked.limit, asked.kind, asked.start) == (Decimal(1), 20, "a", None)
    assert asked.note is None, "a field that takes null is given it"
    assert asked.people == [Person(name="a")]
    assert asked.owner == Person(name="b")


def test_values_arrive_typed_and_exact() -> None:
    asked = _read(r'{"title": "a\\u0000", "days": "0.10", "start": "2026-03-01T09:00:00Z"}')
    assert asked.title == r"a\u0000"
    assert str(asked.days) == "0.10"
    assert asked.start == datetime(2026, 3, 1, 9, tzinfo=UTC)


def test_equal_arguments_have_one_canonical_form() -> None:
    one = _read('{"title": "ok", "limit": 20, "people": [{"age": 3, "name": "ä"}]}')
    other = _read(
        ' {"people":[{"name":"\\u00e4","age":3}],\n"title":"ok","limit":null,"kind":"a"}'
    )
    assert canonical_json(one) == canonical_json(other)
    assert canonical_json(one) != canonical_json(
        _read('{"title": "ok", "limit": 21, "people": [{"age": 3, "name": "ä"}]}')
    )


@given(st.text(max_size=200) | st.binary(max_size=50).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    loggable_arguments(text)
    with pytest.raises(InvalidArguments):
        _read(text)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_any_json_is_read_or_refused_with_words(value: Any) -> None:
    text = json.dumps({"title": "ok", "people": value, "owner": value})
    try:
        asked = _read(text)
    except InvalidArguments as refused:
        said = str(refused)
    else:
        said = canonical_json(asked)
        assert parse_arguments(Asked, said) == asked
    assert said
