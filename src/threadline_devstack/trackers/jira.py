"""Jira Cloud's REST API, version 2, as far as tickets are searched, read, created, commented and moved.

From https://developer.atlassian.com/cloud/jira/platform/rest/v2/intro/; not run beside the service.
"""

import base64
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from threadline_devstack.trackers.faults import Endpoint, Faults
from threadline_devstack.trackers.jira_query import BadQuery, found
from threadline_devstack.trackers.jira_records import (
    ACCOUNT,
    LAST,
    MOVES,
    PRIORITIES,
    PROJECTS,
    TYPES,
    Comment,
    Issue,
    Site,
    moment,
)

EMAIL, TOKEN = "bot@shop.example", "jira-sandbox-token"
_ROOT = "/jira/rest/api/2"
_MISSING = "Issue does not exist or you do not have permission to see it."
_LONGEST_SUMMARY = 255

Json = dict[str, Any]


class JiraApi:
    """`requests` counts those that were let in, by method and path."""

    def __init__(self, site: Site, faults: Faults) -> None:
        self.site, self._faults = site, faults
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
            Route("/jira/browse/{key}", self._browse),
        ]

    def _route(self, path: str, endpoint: Endpoint, method: str = "GET") -> Route:
        return Route(_ROOT + path, self._faults.guarding("jira", self._let_in(endpoint)), methods=[method])

    def _let_in(self, endpoint: Endpoint) -> Endpoint:
        key = base64.b64encode(f"{EMAIL}:{TOKEN}".encode()).decode()

        async def entered(request: Request) -> Response:
            if request.headers.get("Authorization") != f"Basic {key}":
                return PlainTextResponse("Client must be authenticated to access this resource.", 401)
            self.requests.append(f"{request.method} {request.url.path.removeprefix(_ROOT)}")
            return await endpoint(request)

        return entered

    async def _myself(self, request: Request) -> Response:
        return JSONResponse({"accountId": "bot", "displayName": ACCOUNT, "active": True})

    async def _search(self, request: Request) -> Response:
        """Pages by `nextPageToken`, which is here the number of issues before the page."""
        asked = request.query_params
        try:
            issues = found(self.site.searchable.values(), asked.get("jql", ""))
        except BadQuery as refusal:
            return _refused(400, str(refusal))
        start, size = int(asked.get("nextPageToken", 0)), min(int(asked.get("maxResults", 50)), 100)
        page = issues[start : start + size]
        answer: Json = {"issues": [_view(each, request) for each in page], "isLast": start + size >= len(issues)}
        if not answer["isLast"]:
            answer["nextPageToken"] = str(start + size)
        return JSONResponse(answer)

    async def _issue(self, request: Request) -> Response:
        issue = self._asked_for(request)
        return JSONResponse(_view(issue, request)) if issue else _refused(404, _MISSING)

    async def _create(self, request: Request) -> Response:
        given = await request.json()
        fields = given["fields"]
        if wrong := _faults_of(fields):
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
        return JSONResponse({"startAt": 0, "maxResults": size, "total": len(issue.comments), "comments": page})

    async def _comment(self, request: Request) -> Response:
        issue, given = self._asked_for(request), await request.json()
        if issue is None:
            return _refused(404, _MISSING)
        at = datetime.now(UTC)
        comment = Comment(self.site.next_id(), ACCOUNT, given["body"], at, given.get("properties", []))
        issue.comments.append(comment)
        self.site.changed(issue, at)
        return JSONResponse(_comment(comment, with_properties=False), 201)

    async def _transitions(self, request: Request) -> Response:
        issue = self._asked_for(request)
        if issue is None:
            return _refused(404, _MISSING)
        moves = [{"id": id_, "name": name, "to": _status(to)} for id_, name, to in MOVES[issue.status]]
        return JSONResponse({"expand": "transitions", "transitions": moves})

    async def _move(self, request: Request) -> Response:
        issue, given = self._asked_for(request), await request.json()
        if issue is None:
            return _refused(404, _MISSING)
        wanted = str(given["transition"]["id"])
        to = next((to for id_, _, to in MOVES[issue.status] if id_ == wanted), None)
        if to is None:
            return _refused(400, f"Transition id '{wanted}' is not valid for this issue.")
        issue.status = to
        self.site.changed(issue)
        return Response(status_code=204)

    async def _browse(self, request: Request) -> Response:
        """What a person sees who follows a ticket's link."""
        issue = self._asked_for(request)
        if issue is None:
            return PlainTextResponse(_MISSING, 404)
        comments = [_comment(each, with_properties=False) for each in issue.comments]
        return PlainTextResponse(json.dumps(_view(issue, request) | {"comments": comments}, indent=2))

    def _asked_for(self, request: Request) -> Issue | None:
        return self.site.issues.get(request.path_params["key"].upper())


def _faults_of(fields: Json) -> dict[str, str]:
    """By field, as Jira tells what keeps an issue from being created."""
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


def _view(issue: Issue, request: Request) -> Json:
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
        shown["properties"] = {name: value for name, value in issue.properties.items() if name in wanted}
    return shown


def _names(listed: Iterable[str]) -> set[str]:
    return {name for each in listed for name in each.split(",") if name}


def _self(request: Request, issue: Issue) -> str:
    return f"{request.base_url}{_ROOT.removeprefix('/')}/issue/{issue.id}"


def _status(name: str) -> Json:
    category = "done" if name == LAST else "new" if name == "To Do" else "indeterminate"
    return {"name": name, "statusCategory": {"key": category}}


def _person(name: str) -> Json | None:
    return {"displayName": name, "accountId": name.lower().replace(" ", "-")} if name else None


def _comment(comment: Comment, with_properties: bool) -> Json:
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
