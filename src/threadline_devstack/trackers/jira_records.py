"""The tickets of the stand-in for Jira: their workflow, what the search knows of them, and those that are there."""

from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

ACCOUNT = "Shop Bot"
PEOPLE = (ACCOUNT, "Ada Park", "Ben Okoye")
PROJECTS = {"SHOP": "Shop", "OPS": "Operations"}
TYPES = ("Task", "Bug", "Story")
PRIORITIES = ("Highest", "High", "Medium", "Low", "Lowest")
FIRST, LAST = "To Do", "Done"
MOVES = {
    "To Do": (("11", "Start", "In Progress"),),
    "In Progress": (("21", "Ask for a review", "In Review"), ("31", "Put back", "To Do")),
    "In Review": (("41", "Accept", "Done"), ("51", "Ask for changes", "In Progress")),
    "Done": (("61", "Reopen", "To Do"),),
}
"""The transitions from each status: id, name, and where it leads."""


def moment(at: datetime) -> str:
    """As Jira writes times."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.000%z")


@dataclass
class Comment:
    id: str
    author: str
    body: str
    created: datetime
    properties: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Issue:
    id: str
    key: str
    type: str
    summary: str
    created: datetime
    updated: datetime
    description: str = ""
    status: str = FIRST
    priority: str = "Medium"
    assignee: str = ""
    creator: str = ACCOUNT
    labels: list[str] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)
    comments: list[Comment] = field(default_factory=list)

    @property
    def project(self) -> str:
        return self.key.partition("-")[0]

    @property
    def number(self) -> int:
        return int(self.key.partition("-")[2])


class Site:
    """All issues by key. While `lagging`, the search does not learn of changes, as Jira's may not for minutes."""

    def __init__(self) -> None:
        self.issues: dict[str, Issue] = {}
        self.searchable: dict[str, Issue] = {}
        self.lagging = False
        self._ids = 10_000
        for given in SEED:
            self.add(**given)

    def next_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def add(self, project: str, days_ago: float = 0, comments: tuple[tuple[str, str], ...] = (), **given: Any) -> Issue:
        at = datetime.now(UTC) - timedelta(days=days_ago)
        numbers = [each.number for each in self.issues.values() if each.project == project]
        issue = Issue(
            id=self.next_id(), key=f"{project}-{max(numbers, default=0) + 1}", created=at, updated=at, **given
        )
        issue.comments += [Comment(self.next_id(), author, body, at) for author, body in comments]
        self.issues[issue.key] = issue
        self.changed(issue, at)
        return issue

    def changed(self, issue: Issue, at: datetime | None = None) -> None:
        issue.updated = at or datetime.now(UTC)
        if not self.lagging:
            self.searchable[issue.key] = deepcopy(issue)

    def caught_up(self) -> None:
        """The search knows everything again."""
        self.lagging = False
        self.searchable = deepcopy(self.issues)


SEED: tuple[dict[str, Any], ...] = (
    {
        "project": "SHOP",
        "type": "Bug",
        "summary": "A discount code loses the bulk price",
        "description": "With a code and ten pieces or more in the cart, the list prices are added up.",
        "status": "In Progress",
        "priority": "High",
        "assignee": "Ada Park",
        "creator": "Ben Okoye",
        "labels": ["checkout"],
        "days_ago": 3,
        "comments": (("Ben Okoye", "Two customers wrote about it."), ("Ada Park", "I have a test that shows it.")),
    },
    {
        "project": "SHOP",
        "type": "Story",
        "summary": "Show the shipping costs before the checkout",
        "priority": "Low",
        "creator": "Ben Okoye",
        "labels": ["checkout", "shipping"],
        "days_ago": 20,
    },
    {
        "project": "SHOP",
        "type": "Bug",
        "summary": "Invoices are off by cents",
        "description": "The tax of each price is rounded before the sum.",
        "creator": "Ada Park",
        "days_ago": 1,
    },
    {
        "project": "SHOP",
        "type": "Task",
        "summary": "Renew the certificate of the payment provider",
        "status": "Done",
        "assignee": "Ben Okoye",
        "creator": "Ben Okoye",
        "days_ago": 40,
    },
    {"project": "OPS", "type": "Task", "summary": "Move the nightly backup", "creator": "Ben Okoye", "days_ago": 9},
)
