"""JSON documents: patched as RFC 7396 says, and bounded."""

import copy
import json

import pytest

from threadline.rfps.json_documents import DEEPEST, flaw, merged, same

EXAMPLES = [
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ('["a","b"]', '["c","d"]', '["c","d"]'),
    ('{"a":"b"}', '["c"]', '["c"]'),
    ('{"a":"foo"}', "null", "null"),
    ('{"a":"foo"}', '"bar"', '"bar"'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
]
"""https://www.rfc-editor.org/rfc/rfc7396#appendix-A"""


@pytest.mark.parametrize(("target", "patch", "result"), EXAMPLES)
def test_the_examples_of_the_rfc_come_out_as_it_says(target: str, patch: str, result: str) -> None:
    before, given = json.loads(target), json.loads(patch)
    kept = copy.deepcopy((before, given))
    assert merged(before, given) == json.loads(result)
    assert (before, given) == kept, "neither argument is changed"


def test_the_longer_example_of_the_rfc_comes_out_as_it_says() -> None:
    target = {
        "title": "Goodbye!",
        "author": {"givenName": "John", "familyName": "Doe"},
        "tags": ["example", "sample"],
        "content": "This will be unchanged",
    }
    patch = {"title": "Hello!", "phoneNumber": "+01-123-456-7890", "author": {"familyName": None}, "tags": ["example"]}
    assert merged(target, patch) == {
        "title": "Hello!",
        "author": {"givenName": "John"},
        "tags": ["example"],
        "content": "This will be unchanged",
        "phoneNumber": "+01-123-456-7890",
    }


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1], "must be a JSON object"),
        ("{}", "must be a JSON object"),
        (None, "must be a JSON object"),
        ({"a": "x" * 100}, "has 109 bytes, and the maximum is 100"),
        ({"a": "é" * 50}, "has 109 bytes"),
        (nested(DEEPEST + 1), "more than 20"),
        (nested(100_000), "more than 20"),
        ({"a": 1}, ""),
        ({"half": "\ud800"}, ""),
    ],
)
def test_what_is_kept_is_an_object_neither_too_large_nor_too_deep(value: object, says: str) -> None:
    assert says in flaw(value, 100)
    assert bool(flaw(value, 100)) == bool(says)


def test_the_deepest_that_is_kept_is_kept() -> None:
    assert flaw(nested(DEEPEST), 1_000) == ""


def test_numbers_and_booleans_that_python_takes_for_equal_are_told_apart() -> None:
    assert same({"a": 1, "b": [2]}, {"b": [2], "a": 1})
    assert not same({"a": 1}, {"a": True})
    assert not same({"a": 1}, {"a": 1.0})
