"""Cleans error messages of details that only the admin should see."""

import re
from collections.abc import Callable

from threadline.privacy.redaction import redact

MAX_SENTENCE = 500
"""Characters of one sentence of an error; a longer one is cut at a word."""
_LOOKED_AT = 8_000
"""Characters that are searched, more than are shown, since marks shorten a text."""
_PYTHON = (
    r"Traceback|File \"[^\"\n]*\", line \d|\bline \d+, in |\[Errno|<class '|<[\w.]+ "
    r"object|<[\w.]+ at |"
    r"\b[A-Z]\w*(?:Error|Exception|Warning|ExceptionGroup|Interrupt)\b|"
    r"\b[A-Z][a-z]\w*\((?:'|\"|\)|\d)"
)
_STACKS = (
    r"0x[0-9a-fA-F]{6,}|^\s*at .{1,200}:\d+|\bstack ?trace(?:back)?:|\bcore "
    r"dumped\b|\bsegmentation fault\b|"
    r"\bpanic: |\bpanicked at |\bgoroutine \d+ \[|\+0x[0-9a-f]+\b|"  # Go, Rust
    r"\battempt to (?:index|call|perform arithmetic on|compare|concatenate) |"  # Lua
    r"\w\.\w{1,4}:\d+:in [`']|\bundefined (?:local variable or )?method [`']|"  # Ruby
    r"\bon line \d+\b|\bat \S+ line \d+\.|\bPHP (?:Fatal|Parse) |"  # PHP, Perl
    r"\bCaused by: |\bException in thread |\bUnhandled exception\b|\bat "
    r"[\w.$<>]+\([\w.]*(?::\d+)?\)|"  # Java, .NET
    r"\bnode:internal/|\bis not a function\b|\bCannot read propert(?:y|ies) of |"  # JavaScript
    r"\*\* \(\w+|\b\w+\.(?:go|rs|rb|lua|php|js|ts|java|cs|ex|exs|erl|c|cc|cpp|py|pl):\d+"
)
_DATABASES = (
    r"\[SQL:|\bSQLSTATE\b|\b(?:psycopg|asyncpg|sqlalchemy)\b|violates [\w -]+ constraint|"
    r"(?:relation|column|table|function|type) \"[^\"]*\" (?:of relation \"[^\"]*\" )?does not|"
    r"\bKey \([^()]*\)=\(|\bsyntax error at or near\b|\bconstraint failed: |"  # Postgres, SQLite
    r"\bDuplicate entry '|\bORA-\d{5}\b|\bE11000 duplicate key\b"  # MySQL, Oracle, MongoDB
)
_INSIDES = re.compile(f"{_PYTHON}|{_STACKS}|{_DATABASES}", re.MULTILINE)
"""A stack trace, a memory address, a Python exception or object, or a database error: such a text
is not for people.
"""
_TOP = (
    "com|org|net|io|dev|app|ai|cloud|info|biz|edu|gov|local|localdomain|internal|intranet|lan|"
    "corp|home|arpa|example|invalid|test|onion|svc|cluster|[a-z]{2}"
)
_PLACES = (
    (re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>)\]]+", re.IGNORECASE), "[address]"),
    (
        re.compile(r"(?<![\w/])(?:~|\.{1,2})?/[\w.@+-]+/[^\s\"'<>)\],;]*|(?<!\w)~/[\w./@+-]+"),
        "[path]",
    ),
    (re.compile(r"(?<![\w/])[\w.@+-]+(?:/[\w.@+-]+)+\.\w{1,5}\b"), "[path]"),
    (re.compile(r"\b[A-Za-z]:\\[^\s\"'<>]*|\\\\[\w.-]+\\[^\s\"'<>]*"), "[path]"),
    (
        re.compile(
            rf"(?<![\w.-])(?:[a-z0-9_-]{{1,63}}\.)+(?:{_TOP})(?::\d{{1,5}})?(?![\w-])",
            re.IGNORECASE,
        ),
        "[host]",
    ),
    (re.compile(r"\b(?:host|hostaddr|dbname)=[^\s,;]+"), "[host]"),
    (re.compile(r"\blocalhost\b(?::\d{1,5})?", re.IGNORECASE), "[host]"),
    (re.compile(r"(?<![\w.-])[a-z][a-z0-9.-]{0,60}:\d{4,5}(?![\w:])", re.IGNORECASE), "[host]"),
    (re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w.]*\w)"), "[host]"),
    (
        re.compile(r"(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])", re.IGNORECASE),
        "[host]",
    ),
)


_SETTING = (
    r"\b(?:THREADLINE_[A-Z0-9_]+|(?:ANTHROPIC|OPENAI)_(?:API_KEY|BASE_URL)|"
    r"(?:AGENT_)?DATABASE_URL|TEMPORAL_[A-Z0-9_]+|GITHUB_(?:API_URL|TOKEN)|"
    r"SLACK_(?:API_URL|APP_TOKEN|BOT_TOKEN|SIGNING_SECRET))\b"
)
_NAMED = re.compile(_SETTING)
_IN_BRACKETS = re.compile(rf" ?\([^()\n]{{0,200}}{_SETTING}[^()\n]{{0,200}}\)")
_CLAUSE = re.compile(
    rf"(?P<before>[:;]\s{{1,9}})?[^:;.!?\n]{{0,200}}{_SETTING}(?:[^.;!?\n]|\.(?!\s|$))*"
)
"""A clause about settings: up to the next semicolon or the end of the sentence, with the preceding
colon.
"""
_ASK = "ask the admin to check the settings"
_ASK_TWICE = re.compile(rf"{_ASK}(?:[.;:]\s{{1,9}}{_ASK})+", re.IGNORECASE)


def public_sentence(text: str, otherwise: str) -> str:
    """Return the text as one line for people: places and secrets become marks such as `[path]`,
    and a clause that names a setting becomes a referral to the admin. `otherwise` replaces a blank
    text or a program's output.
    """
    return admin_sentence(_without_settings(text[:_LOOKED_AT]), otherwise)


def admin_sentence(text: str, otherwise: str) -> str:
    """Return the text as one line for the admin, who may also see the names of settings."""
    looked_at = redact(text[:_LOOKED_AT])
    if _INSIDES.search(looked_at):
        return otherwise
    for pattern, mark in _PLACES:
        looked_at = pattern.sub(mark, looked_at)
    visible = "".join(sign if sign.isprintable() else " " for sign in looked_at)
    line = " ".join(visible.split())
    if len(line) > MAX_SENTENCE:
        line = line[: MAX_SENTENCE - 1].rsplit(" ", 1)[0] + "…"
    return line or otherwise


def public_lines(text: str, otherwise: str) -> str:
    """Clean a text of several lines that may quote others, each line as in `public_sentence`.
    `otherwise` also replaces a blank text.
    """
    return _each_line(text, otherwise, public_sentence)


def admin_lines(text: str, otherwise: str) -> str:
    """Clean a text for the admin, otherwise as `public_lines`."""
    return _each_line(text, otherwise, admin_sentence)


def _each_line(text: str, otherwise: str, shown: Callable[[str, str], str]) -> str:
    kept = (shown(line, otherwise) if line.strip() else "" for line in text.splitlines())
    return "\n".join(kept).strip() or otherwise


def _without_settings(text: str) -> str:
    def asked(clause: re.Match[str]) -> str:
        if clause["before"]:
            return clause["before"] + _ASK
        blank = " " if clause[0].startswith(" ") else ""
        return blank + _ASK[0].upper() + _ASK[1:]

    if not _NAMED.search(text):
        return text
    plain = _CLAUSE.sub(asked, _IN_BRACKETS.sub("", text))
    return _ASK_TWICE.sub(lambda found: found[0][: len(_ASK)], plain)
