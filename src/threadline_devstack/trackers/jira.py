"""Jira Cloud's REST API, version 2, as far as the product uses it: tickets are searched, read,
created, commented and moved. Data is in memory.

From https://developer.atlassian.com/cloud/jira/platform/rest/v2/intro/; not compared with the real
service. The search implements the part of the query language that the product uses. jira.yaml has
the initial tickets.
"""

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from threadline_devstack.server import Endpoint, Guard

EMAIL = "bot@shop.example"
TOKEN = "jira-sandbox-token"  # noqa: S105 - of the sandbox
ACCOUNT = "Shop Bot"
PEOPLE = (ACCOUNT, "Ada Park", "Ben Okoye")
PROJECTS = {"SHOP": "Shop", "OPS": "Operations"}
TYPES = ("Task", "Bug", "Story")
PRIORITIES = ("Highest", "High", "Medium", "Low", "Lowest")
FIRST = "To Do"
LAST = "Done"
MOVES = {
    "To Do": (("11", "Start", "In Progress"),),
    "In Progress": (("21", "Ask for a review", "In Review"), ("31", "Put back", "To Do")),
    "In Review": (("41", "Accept", "Done"), ("51", "Ask for changes", "In Progress")),
    "Done": (("61", "Reopen", "To Do"),),
}
"""The transitions from each status: id, name, and target status."""
_SEED = Path(__file__).with_name("jira.yaml")
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|!=|>=|=|~|-?[\w()]+)')
_ROOT = "/jira/rest/api/2"
_MISSING = "Issue does not exist or you do not have permission to see it."
_LONGEST_SUMMARY = 255

Json = dict[str, Any]


def moment(at: datetime) -> str:
    """Return a time in Jira's format."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.000%z")


@dataclass
class JiraComment:
    id: str
    author: str
    body: str
    created: datetime
    properties: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class JiraIssue:
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
    comments: list[JiraComment] = field(default_factory=list)

    @property
    def project(self) -> str:
        return self.key.partition("-")[0]

    @property
    def number(self) -> int:
        return int(self.key.partition("-")[2])


class JiraSite:
    """All issues by key. While `search_delayed`, the search does not see changes, as Jira's may
    not for minutes. `required`: names of further fields, such as `components`, that a new issue
    must have, with their labels.
    """

    def __init__(self) -> None:
        self.issues: dict[str, JiraIssue] = {}
        self.searchable: dict[str, JiraIssue] = {}
        self.search_delayed = False
        self.required: dict[str, str] = {}
        self._ids = 10_000
        for given in yaml.safe_load(_SEED.read_text("utf-8")):
            self.add(**given)

    def next_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def add(
        self,
        project: str,
        days_ago: float = 0,
        comments: Sequence[Sequence[str]] = (),
        **given: Any,
    ) -> JiraIssue:
        at = datetime.now(UTC) - timedelta(days=days_ago)
        numbers = [each.number for each in self.issues.values() if each.project == project]
        issue = JiraIssue(
            id=self.next_id(),
            key=f"{project}-{max(numbers, default=0) + 1}",
            created=at,
            updated=at,
            **given,
        )
        issue.comments += [
            JiraComment(self.next_id(), author, body, at) for author, body in comments
        ]
        self.issues[issue.key] = issue
        self.changed(issue, at)
        return issue

    def changed(self, issue: JiraIssue, at: datetime | None = None) -> None:
        issue.updated = at or datetime.now(UTC)
        if not self.search_delayed:
            self.searchable[issue.key] = deepcopy(issue)


class JiraApi:
    """The endpoints. `requests` lists authorised requests, by method and path."""

    def __init__(self, site: JiraSite, guard: Guard) -> None:
        self.site = site
        self._guard = guard
        self.requests: list[str] = []

    def routes(self) -> list[Route]:
        return [
            self._route("/myself", self._myself),
            self._route("/search/jql", self._search),
            self._route("/issue", self._create, "POST"),
            self._route("/issue/{key}", self._issue),
            self._route("/issue/{key}/comment", self._comments),
            self._route("/issue/{key}/comment", self._comment, "POST"),
            self._route("/issue/{key}/transitions", self._transitions),
            self._route("/issue/{key}/transitions", self._move, "POST"),
        ]

    def _route(self, path: str, endpoint: Endpoint, method: str = "GET") -> Route:
        return Route(_ROOT + path, self._guard("jira", self._let_in(endpoint)), methods=[method])

    def _let_in(self, endpoint: Endpoint) -> Endpoint:
        key = base64.b64encode(f"{EMAIL}:{TOKEN}".encode()).decode()

        async def entered(request: Request) -> Response:
            if request.headers.get("Authorization") != f"Basic {key}":
                return PlainTextResponse(
                    "Client must be authenticated to access this resource.", 401
                )
            self.requests.append(f"{request.method} {request.url.path.removeprefix(_ROOT)}")
            return await endpoint(request)

        return entered

    async def _myself(self, request: Request) -> Response:
        return JSONResponse({"accountId": "bot", "displayName": ACCOUNT, "active": True})

    async def _search(self, request: Request) -> Response:
        """Return a page of issues. `nextPageToken` is here the number of issues before the
        page.
        """
        asked = request.query_params
        try:
            issues = found(self.site.searchable.values(), asked.get("jql", ""))
        except BadQuery as refusal:
            return _refused(400, str(refusal))
        start = int(asked.get("nextPageToken", 0))
        size = min(int(asked.get("maxResults", 50)), 100)
        page = issues[start : start + size]
        answer: Json = {
            "issues": [_view(each, request) for each in page],
            "isLast": start + size >= len(issues),
        }
        if not answer["isLast"]:
            answer["nextPageToken"] = str(start + size)
        return JSONResponse(answer)

    async def _issue(self, request: Request) -> Response:
        issue = self._asked_for(request)
        return JSONResponse(_view(issue, request)) if issue else _refused(404, _MISSING)

    async def _create(self, request: Request) -> Response:
        given = await request.json()
        fields = given["fields"]
        missing = {
            name: f"{label} is required."
            for name, label in self.site.required.items()
            if not fields.get(name)
        }
        if wrong := _faults_of(fields) | missing:
            return JSONResponse({"errorMessages": [], "errors": wrong}, 400)
        issue = self.site.add(
            fields["project"]["key"],
            type=fields["issuetype"]["name"],
            summary=fields["summary"],
            description=fields.get("description", ""),
            priority=fields.get("priority", {}).get("name", "Medium"),
            labels=fields.get("labels", []),
            properties={each["key"]: each["value"] for each in given.get("properties", ())},
        )
        return JSONResponse({"id": issue.id, "key": issue.key, "self": _self(request, issue)}, 201)

    async def _comments(self, request: Request) -> Response:
        issue = self._asked_for(request)
        if issue is None:
            return _refused(404, _MISSING)
        newest_first = request.query_params.get("orderBy") == "-created"
        shown = list(reversed(issue.comments)) if newest_first else issue.comments
        size = int(request.query_params.get("maxResults", 100))
        with_properties = "properties" in request.query_params.get("expand", "")
        page = [_comment(each, with_properties) for each in shown[:size]]
        return JSONResponse(
            {"startAt": 0, "maxResults": size, "total": len(issue.comments), "comments": page}
        )

    async def _comment(self, request: Request) -> Response:
        issue = self._asked_for(request)
        given = await request.json()
        if issue is None:
            return _refused(404, _MISSING)
        at = datetime.now(UTC)
        comment = JiraComment(
            self.site.next_id(), ACCOUNT, given["body"], at, given.get("properties", [])
        )
        issue.comments.append(comment)
        self.site.changed(issue, at)
        return JSONResponse(_comment(comment, with_properties=False), 201)

    async def _transitions(self, request: Request) -> Response:
        issue = self._asked_for(request)
        if issue is None:
            return _refused(404, _MISSING)
        moves = [
            {"id": id_, "name": name, "to": _status(to)} for id_, name, to in MOVES[issue.status]
        ]
        return JSONResponse({"expand": "transitions", "transitions": moves})

    async def _move(self, request: Request) -> Response:
        issue = self._asked_for(request)
        given = await request.json()
        if issue is None:
            return _refused(404, _MISSING)
        wanted = str(given["transition"]["id"])
        to = next((to for id_, _, to in MOVES[issue.status] if id_ == wanted), None)
        if to is None:
            return _refused(400, f"Transition id '{wanted}' is not valid for this issue.")
        issue.status = to
        self.site.changed(issue)
        return Response(status_code=204)

    def _asked_for(self, request: Request) -> JiraIssue | None:
        return self.site.issues.get(request.path_params["key"].upper())


def _faults_of(fields: Json) -> dict[str, str]:
    """Return by field Jira's reasons for which an issue cannot be created."""
    wrong = {}
    if fields.get("project", {}).get("key") not in PROJECTS:
        wrong["project"] = "valid project is required"
    if fields.get("issuetype", {}).get("name") not in TYPES:
        wrong["issuetype"] = "Specify a valid issue type"
    if fields.get("priority", {"name": PRIORITIES[0]}).get("name") not in PRIORITIES:
        wrong["priority"] = "Specify a valid priority name"
    summary = fields.get("summary", "")
    if not summary.strip():
        wrong["summary"] = "You must specify a summary of the issue."
    if len(summary) > _LONGEST_SUMMARY:
        wrong["summary"] = f"Summary must be less than {_LONGEST_SUMMARY} characters."
    return wrong


def _view(issue: JiraIssue, request: Request) -> Json:
    fields: Json = {
        "summary": issue.summary,
        "description": issue.description or None,
        "issuetype": {"name": issue.type},
        "project": {"key": issue.project, "name": PROJECTS[issue.project]},
        "status": _status(issue.status),
        "priority": {"name": issue.priority},
        "assignee": _person(issue.assignee),
        "reporter": _person(issue.creator),
        "creator": _person(issue.creator),
        "labels": issue.labels,
        "created": moment(issue.created),
        "updated": moment(issue.updated),
    }
    asked = _names(request.query_params.getlist("fields")) or set(fields)
    shown: Json = {
        "id": issue.id,
        "key": issue.key,
        "self": _self(request, issue),
        "fields": {name: value for name, value in fields.items() if name in asked},
    }
    if wanted := _names(request.query_params.getlist("properties")):
        shown["properties"] = {
            name: value for name, value in issue.properties.items() if name in wanted
        }
    return shown


def _names(listed: Iterable[str]) -> set[str]:
    return {name for each in listed for name in each.split(",") if name}


def _self(request: Request, issue: JiraIssue) -> str:
    return f"{request.base_url}{_ROOT.removeprefix('/')}/issue/{issue.id}"


def _status(name: str) -> Json:
    category = {LAST: "done", "To Do": "new"}.get(name, "indeterminate")
    return {"name": name, "statusCategory": {"key": category}}


def _person(name: str) -> Json | None:
    return {"displayName": name, "accountId": name.lower().replace(" ", "-")} if name else None


def _comment(comment: JiraComment, with_properties: bool) -> Json:
    shown: Json = {
        "id": comment.id,
        "author": _person(comment.author),
        "body": comment.body,
        "created": moment(comment.created),
        "updated": moment(comment.created),
    }
    return shown | ({"properties": comment.properties} if with_properties else {})


def _refused(status: int, words: str) -> JSONResponse:
    return JSONResponse({"errorMessages": [words], "errors": {}}, status)


class BadQuery(Exception):
    """Jira's sentence on an invalid query."""


def found(issues: Iterable[JiraIssue], jql: str) -> list[JiraIssue]:
    """Return matching issues, in the order of the query.

    Raises:
        BadQuery: as Jira refuses it, a query without any restriction included.
    """
    where, _, order = jql.partition("ORDER BY")
    tokens = _tokens(where)
    if not tokens:
        raise BadQuery(
            "Unbounded JQL queries are not allowed here. Please add a search restriction to "
            "your query."
        )
    kept = list(issues)
    while tokens:
        (field, sign, value) = tokens[:3]
        tokens = tokens[3:]
        kept = [each for each in kept if _fits(each, field, sign, value)]
        if tokens and tokens.pop(0) != "AND":
            raise BadQuery("Error in the JQL Query: expecting AND.")
    name, _, direction = order.strip().partition(" ")
    return sorted(kept, key=_ORDERS.get(name, _ORDERS["key"]), reverse=direction == "DESC")


def _tokens(text: str) -> list[str]:
    tokens = []
    at = 0
    while match := _TOKEN.match(text, at):
        tokens.append(match[1])
        at = match.end()
    if text[at:].strip() or (tokens and len(tokens) % 4 != 3):
        raise BadQuery("Error in the JQL Query: it ends or breaks off in the wrong place.")
    return tokens


def _fits(issue: JiraIssue, field: str, sign: str, value: str) -> bool:
    plain = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
    if (field, sign) not in _CHECKS:
        raise BadQuery(f"Error in the JQL Query: the field {field} is not known with {sign}.")
    return _CHECKS[field, sign](issue, plain)


def _in_project(issue: JiraIssue, key: str) -> bool:
    if key not in PROJECTS:
        raise BadQuery(f"The value '{key}' does not exist for the field 'project'.")
    return issue.project == key


def _has_words(issue: JiraIssue, words: str) -> bool:
    texts = (issue.summary, issue.description, *(each.body for each in issue.comments))
    return set(words.split()) <= set(re.findall(r"\w+", " ".join(texts).lower()))


def _is_person(name: str, wanted: str) -> bool:
    wanted = ACCOUNT if wanted == "currentUser()" else wanted
    if wanted.casefold() not in map(str.casefold, PEOPLE):
        raise BadQuery(f"The value '{wanted}' does not exist for the field 'assignee'.")
    return name.casefold() == wanted.casefold()


def _since(at: datetime, days: str) -> bool:
    return at >= datetime.now(UTC) + timedelta(days=int(days.removesuffix("d")))


_CHECKS: dict[tuple[str, str], Callable[[JiraIssue, str], bool]] = {
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


_ORDERS: dict[str, Callable[[JiraIssue], Any]] = {
    "updated": lambda issue: issue.updated,
    "key": lambda issue: (issue.project, issue.number),
}
