"""A search in Jira's query language; whatever people write stays inside its quotes.

The language: https://support.atlassian.com/jira-software-cloud/docs/what-is-advanced-search-in-jira-cloud/.
"""

import re

from threadline.trackers.model import TicketQuery

NOBODY = "nobody"
UNASKED_DAYS = 30
"""How far back a search goes that names nothing: Jira refuses one without any restriction."""
_WORD = re.compile(r"\w+")


def of_query(query: TicketQuery) -> str:
    """The query with the tickets that changed last in front."""
    clauses = [
        f"{field} = {quoted(value)}"
        for field, value in (("project", query.project), ("status", query.status), ("issuetype", query.kind))
        if value.strip()
    ]
    if words := " ".join(_WORD.findall(query.words)).lower():  # in capitals, AND, OR and NOT would be operators
        clauses.append(f"text ~ {quoted(words)}")
    if query.assignee.strip():
        nobody = query.assignee.strip().lower() == NOBODY
        clauses.append("assignee is EMPTY" if nobody else f"assignee = {quoted(query.assignee)}")
    if query.open_only:
        clauses.append("statusCategory != Done")
    days = query.updated_within_days or (0 if clauses else UNASKED_DAYS)
    if days:
        clauses.append(f"updated >= -{days}d")
    return f"{' AND '.join(clauses)} ORDER BY updated DESC"


def of_ours(project: str, days: int) -> str:
    """What this account made in a project in the last days."""
    return f"project = {quoted(project)} AND creator = currentUser() AND created >= -{days}d ORDER BY key DESC"


def of_newest(project: str) -> str:
    return f"project = {quoted(project)} ORDER BY key DESC"


def quoted(text: str) -> str:
    """The text as a string of the query language."""
    visible = "".join(sign if sign.isprintable() else " " for sign in text).strip()
    return '"' + visible.replace("\\", "\\\\").replace('"', '\\"') + '"'
