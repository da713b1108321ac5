"""Jira Cloud as one account sees it: the calls of its REST API, the searches, and the errors.

Version 2 of the API, whose texts are plain:
https://developer.atlassian.com/cloud/jira/platform/rest/v2/intro/.
"""

import base64
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import aiohttp
import structlog
from pydantic import BaseModel, Field, SecretStr, StringConstraints

from threadline.errors import NotDone, Permanent, Transient, before_a_change, parse_retry_after
from threadline.privacy.quotes import quotable, quote_refusal

Json = dict[str, Any]

PROPERTY = "threadline"
"""The entity property that holds the mark of an operation; people do not see it."""
TIMEOUT = 8.0
"""Seconds for one request; two of them fit into a tool's own limit."""
COMMENTS = 10
"""Newest comments that are read with a ticket."""
_MAX_ANSWER = 32 << 20
"""Bytes of an answer; a hundred comments of the greatest length need less."""
_CHUNK = 1 << 16
_LOOK_BACK_DAYS = 2
"""Days in which a created ticket is searched: longer than any retry lasts."""
_LOOK_AHEAD = 50
_MAX_GAP = 5
"""Most numbers after the newest ticket in the search that are read, and the count of consecutive
missing ones that ends the search.
"""
_COMMENTS_SEARCHED = 100
_PAGE_SIZE = 100
_SHOWN = ("summary", "issuetype", "status", "priority", "assignee", "updated")
_DETAILS = (*_SHOWN, "description", "reporter", "labels")


# ---- Tickets, as tools show them; times in Jira's form, ISO 8601 with an offset

MAX_FOUND = 25
MAX_TEXT = 30_000
"""Characters of a text; Jira's limit is 32,767."""


@dataclass(frozen=True)
class Ticket:
    """A ticket. `type` is the tracker's issue type. Fields that the tracker omits are empty."""

    key: str
    summary: str
    type: str = ""
    status: str = ""
    priority: str = ""
    assignee: str = ""
    updated: str = ""
    url: str = ""


@dataclass(frozen=True)
class TicketComment:
    """A comment. `ticket` is the key of its ticket."""

    ticket: str
    author: str
    created: str
    text: str


@dataclass(frozen=True)
class TicketDetails:
    """A ticket with its newest comments, the oldest of them first, and the statuses that its
    `transitions` lead to.
    """

    ticket: Ticket
    description: str
    reporter: str
    labels: tuple[str, ...]
    comments: tuple[TicketComment, ...]
    comment_count: int
    transitions: tuple[str, ...] = ()


ProjectKey = Annotated[
    str,
    StringConstraints(to_upper=True, pattern=r"^[A-Za-z][A-Za-z0-9_]{0,30}$"),
    Field(description="Its key, such as SHOP."),
]


class TicketQuery(BaseModel):
    """All that is given must hold."""

    words: Annotated[
        str, Field(max_length=500, description="Words in the summary, description or comments.")
    ] = ""
    project: ProjectKey | None = None
    status: Annotated[str, Field(max_length=100, description="Its name, such as In Progress.")] = (
        ""
    )
    type: Annotated[str, Field(max_length=100, description="Its name, such as Bug.")] = ""
    assignee: Annotated[str, Field(max_length=200, description="A name, or nobody.")] = ""
    open_only: Annotated[bool, Field(description="Without what is done.")] = False
    updated_within_days: Annotated[int, Field(ge=1, le=3650)] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] = 10


class NewTicket(BaseModel):
    project: ProjectKey
    type: Annotated[
        str, Field(min_length=1, max_length=100, description="Its name, such as Task or Bug.")
    ]
    summary: Annotated[str, Field(min_length=1, max_length=250, description="One line.")]
    description: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    priority: Annotated[str, Field(max_length=100, description="Its name, such as High.")] = ""
    labels: Annotated[
        list[Annotated[str, Field(pattern=r"^\S{1,100}$")]], Field(max_length=20)
    ] = []


class JiraClient:
    """A client of one Jira site.

    Sends each change once: retries belong to the caller. Cancelling a call ends its request at
    once. Only aiohttp repeats a request, namely a read whose connection the other side has closed.

    A `mark` names one operation permanently. The object that the operation creates carries it, so
    that it can be found again. Every method raises `Permanent` when Jira refuses, and `Transient`
    when Jira cannot be reached or asks to wait.

    Args:
        session: belongs to the caller, who closes it.
        url: of the site, such as `https://acme.atlassian.net`.
        email: of the account.
        token: sent to this site only, and part of no message.
        timeout: seconds for one request, until its answer is read.
    """

    setup_hint = (
        "Set THREADLINE_JIRA_URL, THREADLINE_JIRA_EMAIL and THREADLINE_JIRA_TOKEN (an API token "
        "of that account)."
    )

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        email: str,
        token: SecretStr,
        *,
        timeout: float = TIMEOUT,
    ) -> None:
        self._session = session
        self._url = url.rstrip("/")
        self._email = email
        self._token = token
        self._timeout = aiohttp.ClientTimeout(total=timeout)

    async def account(self) -> str:
        """Return the name of the account; this checks that Jira accepts it."""
        with translate_errors("The account"):
            return str((await self._get("myself"))["displayName"])

    async def search(self, query: TicketQuery) -> list[Ticket]:
        """Return the matching tickets, latest change first. Jira's search lags by seconds, rarely
        by minutes.
        """
        with translate_errors("What was searched for"):
            return await self._search(search_jql(query), query.limit)

    async def ticket(self, key: str) -> TicketDetails:
        with translate_errors(key):
            issue = await self._issue(key, _DETAILS)
            comments = await self._newest_comments(key, COMMENTS)
            fields = issue["fields"]
            return TicketDetails(
                self._ticket(issue),
                description=fields.get("description") or "",
                reporter=_name(fields.get("reporter")),
                labels=tuple(fields.get("labels") or ()),
                comments=tuple(
                    _comment(issue["key"], each) for each in reversed(comments["comments"])
                ),
                comment_count=int(comments["total"]),
                transitions=tuple(
                    dict.fromkeys(each["to"]["name"] for each in await self._transitions(key))
                ),
            )

    async def create(self, new: NewTicket, mark: str) -> Ticket:
        """Create a ticket that carries its mark from the start.

        https://developer.atlassian.com/cloud/jira/platform/rest/v2/api-group-issues/
        """
        fields: Json = {
            "project": {"key": new.project},
            "issuetype": {"name": new.type},
            "summary": new.summary,
        }
        if new.description:
            fields["description"] = new.description
        if new.priority:
            fields["priority"] = {"name": new.priority}
        if new.labels:
            fields["labels"] = new.labels
        with translate_errors(f"The project {new.project}"):
            created = await self._post(
                "issue", {"fields": fields, "properties": [_property(mark)]}
            )
            return self._ticket({"key": created["key"], "fields": fields})

    async def find_created(self, project: str, mark: str) -> Ticket | None:
        """Return the ticket that carries this mark. None proves nothing: the account may not see
        it.

        Jira's search lags, so the numbers after the newest ticket in the search are read one by
        one.
        """
        with translate_errors(f"The project {project}"):
            for candidates in (self._own_tickets(project), self._tickets_after_newest(project)):
                async for issue in candidates:
                    if (issue.get("properties") or {}).get(PROPERTY) == _property(mark)["value"]:
                        return self._ticket(issue)
            return None

    async def comment(self, key: str, text: str, mark: str) -> TicketComment:
        """Write a comment that carries its mark from the start.

        https://developer.atlassian.com/cloud/jira/platform/rest/v2/api-group-issue-comments/
        """
        with translate_errors(key):
            written = await self._post(
                f"issue/{key}/comment", {"body": text, "properties": [_property(mark)]}
            )
            return _comment(key, written)

    async def find_comment(self, key: str, mark: str) -> TicketComment | None:
        """Return the comment that carries this mark; None when it certainly does not exist."""
        with translate_errors(key):
            newest = (await self._newest_comments(key, _COMMENTS_SEARCHED))["comments"]
            ours = (
                each for each in newest if _property(mark) in list(each.get("properties") or ())
            )
            return next((_comment(key, each) for each in ours), None)

    async def move(self, key: str, status: str) -> Ticket:
        """Move a ticket to a status by the first transition that leads there; a ticket with that
        status stays.

        Raises:
            Permanent: no transition leads there; the message names the reachable statuses.
        """
        with before_a_change(), translate_errors(key):
            ticket = self._ticket(await self._issue(key, _SHOWN))
            wanted = status.strip().casefold()
            if ticket.status.casefold() == wanted:
                return ticket
            ids = {
                str(each["to"]["name"]): str(each["id"])
                for each in reversed(await self._transitions(key))
            }
        target = next((name for name in ids if name.casefold() == wanted), None)
        if target is None:
            reachable = ", ".join(sorted(ids)) or "no other status, at least not by this account"
            raise Permanent(
                f"{ticket.key} has the status {ticket.status}, and can be moved to: {reachable}."
            )
        with translate_errors(key):
            await self._post(f"issue/{key}/transitions", {"transition": {"id": ids[target]}})
        return replace(ticket, status=target)

    async def _search(self, jql: str, limit: int) -> list[Ticket]:
        page = await self._get("search/jql", jql=jql, maxResults=limit, fields=",".join(_SHOWN))
        return [self._ticket(each) for each in page["issues"]]

    async def _own_tickets(self, project: str) -> AsyncIterator[Json]:
        ours = (
            f"project = {quote(project)} AND creator = currentUser() AND created >= "
            f"-{_LOOK_BACK_DAYS}d"
        )
        query = {"jql": f"{ours} ORDER BY key DESC", "maxResults": str(_PAGE_SIZE)}
        query |= {"fields": ",".join(_SHOWN), "properties": PROPERTY}
        while True:
            page = await self._get("search/jql", **query)
            for issue in page["issues"]:
                yield issue
            if not page.get("nextPageToken"):
                return
            query["nextPageToken"] = str(page["nextPageToken"])

    async def _tickets_after_newest(self, project: str) -> AsyncIterator[Json]:
        newest = await self._search(f"project = {quote(project)} ORDER BY key DESC", 1)
        number = int(newest[0].key.rsplit("-", 1)[1]) if newest else 0
        missing = 0
        for ahead in range(number + 1, number + _LOOK_AHEAD + 1):
            try:
                issue = await self._issue(f"{project}-{ahead}", _SHOWN)
            except ErrorResponse as error:
                if error.status != 404:
                    raise
                missing += 1
                if missing == _MAX_GAP:
                    return
            else:
                missing = 0
                yield issue

    async def _issue(self, key: str, fields: tuple[str, ...]) -> Json:
        return dict(await self._get(f"issue/{key}", fields=",".join(fields), properties=PROPERTY))

    async def _newest_comments(self, key: str, count: int) -> Json:
        """Return the newest comments first, with their entity properties, and the `total`."""
        path = f"issue/{key}/comment"
        return dict(
            await self._get(path, orderBy="-created", maxResults=count, expand="properties")
        )

    async def _transitions(self, key: str) -> list[Json]:
        return list((await self._get(f"issue/{key}/transitions"))["transitions"])

    async def _get(self, path: str, **query: str | int) -> Any:
        return await self._request(
            "GET", path, params={name: str(value) for name, value in query.items()}
        )

    async def _post(self, path: str, body: Json) -> Any:
        return await self._request("POST", path, json=body)

    async def _request(self, method: str, path: str, **sent: Any) -> Any:
        """Send one request.

        Returns:
            The answer's JSON, or None for an empty answer.

        Raises:
            Permanent: the address is not that of Jira's API.
            ErrorResponse: Jira refused; `translate_errors` translates it.
            aiohttp.ClientError, TimeoutError, ValueError: translated likewise.
        """
        login = base64.b64encode(
            f"{self._email}:{self._token.get_secret_value()}".encode()
        ).decode()
        headers = {
            "Authorization": f"Basic {login}",
            "Accept": "application/json",
            "Cache-Control": "no-cache",
            "User-Agent": "threadline",
            # without it Jira refuses changes whose origin it doubts
            "X-Atlassian-Token": "no-check",
        }
        url = f"{self._url}/rest/api/2/{path}"
        content = bytearray()
        async with self._session.request(
            method, url, headers=headers, timeout=self._timeout, **sent
        ) as response:
            async for chunk in response.content.iter_chunked(_CHUNK):
                content += chunk
                if len(content) > _MAX_ANSWER:
                    raise ValueError("the answer is too large")
        if response.status >= 400:
            raise ErrorResponse(response.status, response.headers, _quote(response, content))
        if content and "html" in response.content_type:
            raise Permanent(_PAGE)
        # A redirect may lead nowhere, or have turned a change into a GET.
        if response.status >= 300 or response.method != method:
            raise Permanent(_ADDRESS)
        return json.loads(content) if content else None

    def _ticket(self, issue: Json) -> Ticket:
        fields = issue["fields"]
        return Ticket(
            key=issue["key"],
            summary=fields.get("summary") or "",
            type=_name(fields.get("issuetype")),
            status=_name(fields.get("status")),
            priority=_name(fields.get("priority")),
            assignee=_name(fields.get("assignee")),
            updated=fields.get("updated") or "",
            url=f"{self._url}/browse/{issue['key']}",
        )


def _property(mark: str) -> Json:
    return {"key": PROPERTY, "value": {"operation": mark}}


def _comment(key: str, comment: Json) -> TicketComment:
    return TicketComment(
        key, _name(comment.get("author")), comment.get("created") or "", comment.get("body") or ""
    )


def _name(thing: Any) -> str:
    """Return the name of a person, or of a status and its like."""
    return (
        str(thing.get("displayName") or thing.get("name") or "") if isinstance(thing, dict) else ""
    )


# ---- Searches
# The language:
# https://support.atlassian.com/jira-software-cloud/docs/what-is-advanced-search-in-jira-cloud/.

NOBODY = "nobody"
DEFAULT_DAYS = 30
"""Days of a search without any condition: Jira refuses one without a restriction."""
_WORD = re.compile(r"\w+")


def search_jql(query: TicketQuery) -> str:
    """Return the query in JQL, latest change first."""
    clauses = [
        f"{field} = {quote(value)}"
        for field, value in (
            ("project", query.project),
            ("status", query.status),
            ("issuetype", query.type),
        )
        if value and value.strip()
    ]
    # in capitals, AND, OR and NOT would be operators
    if words := " ".join(_WORD.findall(query.words)).lower():
        clauses.append(f"text ~ {quote(words)}")
    if query.assignee.strip():
        nobody = query.assignee.strip().lower() == NOBODY
        clauses.append("assignee is EMPTY" if nobody else f"assignee = {quote(query.assignee)}")
    if query.open_only:
        clauses.append("statusCategory != Done")
    days = query.updated_within_days or (0 if clauses else DEFAULT_DAYS)
    if days:
        clauses.append(f"updated >= -{days}d")
    return f"{' AND '.join(clauses)} ORDER BY updated DESC"


def quote(text: str) -> str:
    """Return the text as a string of JQL. No input can leave its quotes."""
    visible = "".join(sign if sign.isprintable() else " " for sign in text).strip()
    return '"' + visible.replace("\\", "\\\\").replace('"', '\\"') + '"'


# ---- Errors, in sentences that name no host and no token
# Statuses:
# https://developer.atlassian.com/cloud/jira/platform/rest/v2/intro/#status-codes.

_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError)
"""Exceptions while reading an answer of another shape than Jira's."""
_ACCOUNT = (
    "Jira does not accept the account: check THREADLINE_JIRA_EMAIL and THREADLINE_JIRA_TOKEN."
)
_ADDRESS = "No Jira was found at the address: check THREADLINE_JIRA_URL."
_PAGE = (
    "Jira answered with a web page, perhaps a login page: check THREADLINE_JIRA_URL, and that the "
    "account may use the API."
)


class ErrorResponse(Exception):
    """Jira answered with a status of 400 or more. `quoted`: its own text, as far as it is safe to
    repeat.
    """

    def __init__(self, status: int, headers: Mapping[str, str], quoted: str) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.quoted = quoted


@contextmanager
def translate_errors(about: str) -> Iterator[None]:
    """Translate the errors of requests to Jira, and of reading their answers.

    Args:
        about: the subject of error messages ("SHOP-12").

    Raises:
        Permanent: Jira refuses. Without a cause, since aiohttp's own text repeats addresses and
            headers.
        Transient: Jira cannot be reached or asks to wait; also without a cause.
    """
    try:
        yield
    except (ErrorResponse, aiohttp.ClientError, TimeoutError, *_UNREADABLE) as error:
        status = error.status if isinstance(error, ErrorResponse) else None
        structlog.get_logger().info("jira_call_failed", cause=type(error).__name__, status=status)
        raise _translate(error, about) from None


def _translate(error: Exception, about: str) -> Permanent | Transient:
    if isinstance(error, ErrorResponse):
        status = error.status
        pause = parse_retry_after(error.headers, datetime.now(UTC))
        if status == 429:
            return NotDone("Jira's rate limit is reached.", retry_after=pause)
        if status in (408, 409, 425) or status >= 500:
            return Transient(f"Jira failed or is overloaded (HTTP {status}).", retry_after=pause)
        known = {
            400: (
                "Jira refused it: "
                f"{error.quoted or 'check the project, the type and the other fields'}"
            ),
            401: _ACCOUNT,
            403: (
                "The account may not do this in Jira: "
                f"{error.quoted or 'ask for the permission in the project'}"
            ),
            404: f"{about} is not in Jira, or the account may not see it.",
        }
        return Permanent(
            known.get(status, f"Jira refused it (HTTP {status}). {error.quoted}".strip())
        )
    match error:
        case TimeoutError():
            return Transient("Jira did not answer in time.")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError() | aiohttp.TooManyRedirects():
            return Permanent(_ADDRESS)
        case aiohttp.ClientConnectionError() | aiohttp.ClientResponseError():
            return Transient(
                "Jira could not be reached: check the network and THREADLINE_JIRA_URL."
            )
        case _:
            return Transient("Jira's answer could not be read.")


def _quote(response: aiohttp.ClientResponse, content: bytearray) -> str:
    """Return Jira's own text about its refusal, as far as it is safe to repeat."""
    denied = response.headers.get("X-Authentication-Denied-Reason")
    if response.status == 403 and denied:
        return quotable(denied)
    text = content.decode("utf-8", "replace")
    try:
        return quote_refusal(json.loads(text))
    except ValueError:
        # the text of a web page is not meant for people
        return "" if "<" in text else quotable(text)
