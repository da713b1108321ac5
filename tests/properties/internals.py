"""Errors with content that users must not see: addresses, paths, keys, stack traces, objects as
Python prints them.
"""

import string
from typing import Any

from hypothesis import strategies as st

from threadline.errors import Permanent, Transient

WORD = st.text(string.ascii_lowercase, min_size=3, max_size=8)
NUMBER = st.integers(1, 254).map(str)
ADDRESSES = st.one_of(
    st.builds("/{0}/{1}/{0}.py".format, WORD, WORD),
    st.builds("src/{}/{}.py".format, WORD, WORD),
    st.builds("C:\\{}\\{}".format, WORD, WORD),
    st.builds("{}.{}.internal".format, WORD, WORD),
    st.builds("https://{}.example.com/{}".format, WORD, WORD),
    st.builds("postgresql://{}:{}@{}:5432/x".format, WORD, WORD, WORD),
    st.builds("10.{}.{}.{}:5432".format, NUMBER, NUMBER, NUMBER),
    st.builds("localhost:{}".format, st.integers(1024, 65535)),
)
KEYS = st.text(string.ascii_letters + string.digits, min_size=36, max_size=36).map("ghp_{}".format)
TRACES = st.builds(
    'Traceback (most recent call last):\n  File "/{}/{}.py", line {}, in f\n{}Error: {}'.format,
    *(WORD, WORD, NUMBER, WORD.map(str.title), WORD),
)
OBJECTS = st.builds("<{} object at 0x7f{}a0b1c2>".format, WORD.map(str.title), NUMBER)
INTERNALS = ADDRESSES | KEYS | TRACES | OBJECTS
RAISED = st.sampled_from(
    [ValueError, KeyError, OSError, RuntimeError, TypeError, ArithmeticError, Permanent, Transient]
)
ERRORS = st.tuples(RAISED, WORD.map("zq{}".format), INTERNALS, WORD, st.booleans())
"""Arguments of `error_of`. The second is a word that appears in no text of the product."""


def error_of(
    kind: type[Exception], before: str, internal: str, after: str, grouped: bool
) -> Exception:
    error = kind(f"{before} {internal} {after}")
    error.__cause__ = RuntimeError(internal)
    return ExceptionGroup(before, [error]) if grouped else error


def is_public(raised: tuple[Any, ...]) -> bool:
    """Return whether the error has words for users, apart from its internals."""
    return raised[0] in (Permanent, Transient) and not raised[4]


def assert_clean(text: str, internal: str) -> None:
    """Assert that the text holds no line of the internals and no exception's name."""
    assert internal not in text
    assert not [line for line in internal.splitlines() if len(line) > 8 and line.strip() in text]
    assert "Traceback" not in text
    assert "Error" not in text
