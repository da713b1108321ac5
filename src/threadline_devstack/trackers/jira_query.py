"""As much of Jira's query language as is asked for: comparisons joined by AND, and one order."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from threadline_devstack.trackers.jira_records import ACCOUNT, LAST, PEOPLE, PROJECTS, Issue

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|!=|>=|=|~|-?[\w()]+)')
_ORDERS: dict[str, Callable[[Issue], Any]] = {
    "updated": lambda issue: issue.updated,
    "key": lambda issue: (issue.project, issue.number),
}


class BadQuery(Exception):
    """Jira's sentence on what it does not understand."""


def found(issues: Iterable[Issue], jql: str) -> list[Issue]:
    """The issues that fit, in the order that is asked for.

    Raises:
        BadQuery: as Jira refuses it, a query without any restriction included.
    """
    where, _, order = jql.partition("ORDER BY")
    tokens = _tokens(where)
    if not tokens:
        raise BadQuery("Unbounded JQL queries are not allowed here. Please add a search restriction to your query.")
    kept = list(issues)
    while tokens:
        (field, sign, value), tokens = tokens[:3], tokens[3:]
        kept = [each for each in kept if _fits(each, field, sign, value)]
        if tokens and tokens.pop(0) != "AND":
            raise BadQuery("Error in the JQL Query: expecting AND.")
    name, _, direction = order.strip().partition(" ")
    return sorted(kept, key=_ORDERS.get(name, _ORDERS["key"]), reverse=direction == "DESC")


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while match := _TOKEN.match(text, at):
        tokens.append(match[1])
        at = match.end()
    if text[at:].strip() or (tokens and len(tokens) % 4 != 3):
        raise BadQuery("Error in the JQL Query: it ends or breaks off in the wrong place.")
    return tokens


def _fits(issue: Issue, field: str, sign: str, value: str) -> bool:
    plain = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
    if (field, sign) not in _CHECKS:
        raise BadQuery(f"Error in the JQL Query: the field {field} is not known with {sign}.")
    return _CHECKS[field, sign](issue, plain)


def _in_project(issue: Issue, key: str) -> bool:
    if key not in PROJECTS:
        raise BadQuery(f"The value '{key}' does not exist for the field 'project'.")
    return issue.project == key


def _has_words(issue: Issue, words: str) -> bool:
    texts = (issue.summary, issue.description, *(each.body for each in issue.comments))
    return set(words.split()) <= set(re.findall(r"\w+", " ".join(texts).lower()))


def _is_person(name: str, wanted: str) -> bool:
    wanted = ACCOUNT if wanted == "currentUser()" else wanted
    if wanted.casefold() not in map(str.casefold, PEOPLE):
        raise BadQuery(f"The value '{wanted}' does not exist for the field 'assignee'.")
    return name.casefold() == wanted.casefold()


def _since(at: datetime, days: str) -> bool:
    return at >= datetime.now(UTC) + timedelta(days=int(days.removesuffix("d")))


_CHECKS: dict[tuple[str, str], Callable[[Issue, str], bool]] = {
    ("project", "="): _in_project,
    ("status", "="): lambda issue, name: issue.status.casefold() == name.casefold(),
    ("issuetype", "="): lambda issue, name: issue.type.casefold() == name.casefold(),
    ("statusCategory", "!="): lambda issue, _: issue.status != LAST,
    ("text", "~"): _has_words,
    ("assignee", "is"): lambda issue, _: not issue.assignee,
    ("assignee", "="): lambda issue, name: _is_person(issue.assignee, name),
    ("creator", "="): lambda issue, name: _is_person(issue.creator, name),
    ("updated", ">="): lambda issue, days: _since(issue.updated, days),
    ("created", ">="): lambda issue, days: _since(issue.created, days),
}
