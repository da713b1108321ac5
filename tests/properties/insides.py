"""What nobody outside may see, as errors carry it: places, keys, stack traces, objects as Python prints them."""

import string
from typing import Any

from hypothesis import strategies as st

from threadline.errors import Permanent, Transient

WORD = st.text(string.ascii_lowercase, min_size=3, max_size=8)
NUMBER = st.integers(1, 254).map(str)
PLACES = st.one_of(
    st.builds("/{}/{}/{}.py".format, WORD, WORD, WORD),
    st.builds("src/{}/{}.py".format, WORD, WORD),
    st.builds("C:\\{}\\{}".format, WORD, WORD),
    st.builds("{}.{}.internal".format, WORD, WORD),
    st.builds("https://{}.example.com/{}".format, WORD, WORD),
    st.builds("postgresql://{}:{}@{}:5432/x".format, WORD, WORD, WORD),
    st.builds("10.{}.{}.{}:5432".format, NUMBER, NUMBER, NUMBER),
    st.builds("localhost:{}".format, st.integers(1024, 65535)),
)
LETTERS = string.ascii_letters + string.digits
KEYS = st.text(LETTERS, min_size=36, max_size=36).map("ghp_{}".format)
TRACES = st.builds(
    'Traceback (most recent call last):\n  File "/{}/{}.py", line {}, in {}\n{}Error: {}'.format,
    *(WORD, WORD, NUMBER, WORD, WORD.map(str.title), WORD),
)
INSIDES = st.one_of(PLACES, KEYS, TRACES, st.builds("<{} object at 0x7f{}a0b1c2>".format, WORD.map(str.title), NUMBER))
RAISED = st.sampled_from(
    [ValueError, KeyError, OSError, RuntimeError, TypeError, ZeroDivisionError, Permanent, Transient]
)


def error_of(kind: type[Exception], before: str, inside: str, after: str, grouped: bool) -> Exception:
    error = kind(f"{before} {inside} {after}")
    error.__cause__ = RuntimeError(inside)
    return ExceptionGroup(before, [error]) if grouped else error


ERRORS = st.tuples(RAISED, WORD.map("zq{}".format), INSIDES, WORD, st.booleans())
"""The kind, a word that no sentence of ours has, what must not get out, another word, and whether it is in a group."""


def is_for_people(raised: tuple[Any, ...]) -> bool:
    """Whether its words may be shown, apart from what is inside: they were written for that."""
    return raised[0] in (Permanent, Transient) and not raised[4]
