"""JSON documents: patched as RFC 7396 says, and bounded."""

import copy
import json

import pytest

from threadline.rfps.model import MAX_DEPTH, json_problem, merge_patch, same_json

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
def test_rfc_examples_are_merged(target: str, patch: str, result: str) -> None:
    before = json.loads(target)
    given = json.loads(patch)
    kept = copy.deepcopy((before, given))
    assert merge_patch(before, given) == json.loads(result)
    assert (before, given) == kept, "neither argument is changed"


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1], "must be a JSON object"),
        ({"a": "x" * 192}, "201 bytes, and the maximum is 200"),
        ({"a": "é" * 96}, "201 bytes"),
        (nested(MAX_DEPTH), ""),
        (nested(MAX_DEPTH + 1), "more than 20"),
        (nested(100_000), "more than 20"),
        ({"half": "\ud800"}, ""),
    ],
)
def test_flaw_describes_the_error_in_a_document(value: object, says: str) -> None:
    assert says in json_problem(value, 200)
    assert bool(json_problem(value, 200)) == bool(says)


def test_numbers_and_booleans_differ() -> None:
    assert same_json({"a": 1, "b": [2]}, {"b": [2], "a": 1})
    assert not same_json({"a": 1}, {"a": True})
    assert not same_json({"a": 1}, {"a": 1.0})
