"""One Jira Cloud site, asked as one account."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from jira.exceptions import JIRAError
from pydantic import SecretStr

from threadline.errors import Permanent, before_a_change
from threadline.trackers import jql
from threadline.trackers.errors import asking, is_missing
from threadline.trackers.jira_wire import Json, Wire
from threadline.trackers.model import NewTicket, Ticket, TicketComment, TicketDetails, TicketQuery

T = TypeVar("T")

PROPERTY = "threadline"
"""The entity property by which what we made is known again; people do not see it."""
TIMEOUT = 8.0
"""Seconds; two such requests fit into a tool's own limit."""
COMMENTS = 10
"""Newest comments that are read with a ticket."""
_THREADS = 8
"""Requests at once. A Jira that hangs holds these threads, and no other part's."""
_DAYS = 2
"""How far back a ticket of ours is looked for: longer than anything is tried again."""
_AHEAD, _GAP = 50, 5
"""Numbers behind the newest ticket that the search knows, and how many missing ones in a row end the look."""
_COMMENTS_LOOKED_AT = 100
_SHOWN = ("summary", "issuetype", "status", "priority", "assignee", "updated")
_DETAILS = (*_SHOWN, "description", "reporter", "labels")


class Jira:
    """A `mark` names one operation for ever, so that what it made can be found again.

    Every method raises `Permanent` when Jira refuses, and `Transient` when it is away or asks to wait.

    Args:
        url: of the site, such as `https://acme.atlassian.net`.
        timeout: see `Wire`.
    """

    def __init__(self, url: str, email: str, token: SecretStr, *, timeout: float = TIMEOUT) -> None:
        self._url = url.rstrip("/")
        self._wire = Wire(self._url, email, token.get_secret_value(), timeout)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="jira")

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._wire.shut()

    async def account(self) -> str:
        """The name of the account, as a look whether Jira accepts it."""
        return await self._ask("The account", lambda: str(self._wire.myself()["displayName"]))

    async def search(self, query: TicketQuery, limit: int) -> list[Ticket]:
        """The tickets that changed last in front. Jira's search lags behind changes by seconds, rarely minutes."""
        return await self._ask("What was searched for", lambda: self._found(jql.of_query(query), limit))

    async def ticket(self, key: str) -> TicketDetails:
        return await self._ask(key, lambda: self._details(key))

    async def create(self, new: NewTicket, mark: str) -> Ticket:
        return await self._ask(f"The project {new.project}", lambda: self._create(new, mark))

    async def created(self, project: str, mark: str) -> Ticket | None:
        """The ticket that was created under this mark; None when it was not found, as a hidden one is not."""
        return await self._ask(f"The project {project}", lambda: self._created(project, mark))

    async def comment(self, key: str, text: str, mark: str) -> TicketComment:
        return await self._ask(
            key, lambda: _comment(key, self._wire.comment_with(key, text, {PROPERTY: {"operation": mark}}))
        )

    async def commented(self, key: str, mark: str) -> TicketComment | None:
        """The comment that was written under this mark; None when there certainly is none."""

        def look() -> TicketComment | None:
            newest = self._wire.newest_comments(key, _COMMENTS_LOOKED_AT)["comments"]
            ours = (each for each in newest if {"key": PROPERTY, "value": {"operation": mark}} in _marks(each))
            return next((_comment(key, each) for each in ours), None)

        return await self._ask(key, look)

    async def move(self, key: str, status: str) -> Ticket:
        """Move a ticket to a status by the first transition that leads there; one that is there already stays.

        Raises:
            Permanent: none does; the sentence names the statuses that can be reached.
        """
        return await self._ask(key, lambda: self._move(key, status))

    async def _ask(self, about: str, question: Callable[[], T]) -> T:
        def asked() -> T:
            with asking(about):
                return question()

        return await asyncio.get_running_loop().run_in_executor(self._threads, asked)

    def _found(self, query: str, limit: int) -> list[Ticket]:
        page = self._wire.enhanced_search_issues(query, maxResults=limit, fields=list(_SHOWN), json_result=True)
        return [self._ticket(each) for each in page["issues"]]

    def _details(self, key: str) -> TicketDetails:
        issue = self._issue(key, _DETAILS)
        comments = self._wire.newest_comments(key, COMMENTS)
        fields = issue["fields"]
        return TicketDetails(
            self._ticket(issue),
            description=fields.get("description") or "",
            reporter=_name(fields.get("reporter")),
            labels=tuple(fields.get("labels") or ()),
            comments=tuple(_comment(issue["key"], each) for each in reversed(comments["comments"])),
            comment_count=int(comments["total"]),
            moves_to=tuple(dict.fromkeys(each["to"]["name"] for each in self._wire.transitions(key))),
        )

    def _create(self, new: NewTicket, mark: str) -> Ticket:
        fields: Json = {"project": {"key": new.project}, "issuetype": {"name": new.kind}, "summary": new.summary}
        if new.description:
            fields["description"] = new.description
        if new.priority:
            fields["priority"] = {"name": new.priority}
        if new.labels:
            fields["labels"] = list(new.labels)
        made = self._wire.create_with(fields, {PROPERTY: {"operation": mark}})
        return self._ticket({"key": made["key"], "fields": fields})

    def _created(self, project: str, mark: str) -> Ticket | None:
        """First by the search, then, because that lags, one by one behind the newest that it knows."""
        ours = self._wire.enhanced_search_issues(
            jql.of_ours(project, _DAYS), maxResults=0, fields=list(_SHOWN), properties=PROPERTY
        )
        candidates = chain((dict(each.raw) for each in ours), self._behind_the_newest(project))
        return next((self._ticket(each) for each in candidates if _is_marked(each, mark)), None)

    def _behind_the_newest(self, project: str) -> Iterator[Json]:
        newest = self._found(jql.of_newest(project), 1)
        number = int(newest[0].key.rsplit("-", 1)[1]) if newest else 0
        missing = 0
        for ahead in range(number + 1, number + _AHEAD + 1):
            try:
                yield self._issue(f"{project}-{ahead}", _SHOWN)
            except JIRAError as error:
                if not is_missing(error):
                    raise
                missing += 1
                if missing == _GAP:
                    return
            else:
                missing = 0

    def _move(self, key: str, status: str) -> Ticket:
        with before_a_change(), asking(key):
            ticket = self._ticket(self._issue(key, _SHOWN))
            wanted = status.strip().casefold()
            if ticket.status.casefold() == wanted:
                return ticket
            moves = {str(each["to"]["name"]): str(each["id"]) for each in reversed(self._wire.transitions(key))}
        there = next((name for name in moves if name.casefold() == wanted), None)
        if there is None:
            reachable = ", ".join(sorted(moves)) or "no other status, at least not by this account"
            raise Permanent(f"{ticket.key} has the status {ticket.status}, and can be moved to: {reachable}.")
        self._wire.transition_issue(key, moves[there])
        return replace(ticket, status=there)

    def _issue(self, key: str, fields: tuple[str, ...]) -> Json:
        return dict(self._wire.issue(key, fields=",".join(fields), properties=PROPERTY).raw)

    def _ticket(self, issue: Json) -> Ticket:
        fields = issue["fields"]
        return Ticket(
            key=issue["key"],
            summary=fields.get("summary") or "",
            kind=_name(fields.get("issuetype")),
            status=_name(fields.get("status")),
            priority=_name(fields.get("priority")),
            assignee=_name(fields.get("assignee")),
            updated=fields.get("updated") or "",
            url=f"{self._url}/browse/{issue['key']}",
        )


def _comment(key: str, comment: Json) -> TicketComment:
    return TicketComment(key, _name(comment.get("author")), comment.get("created") or "", comment.get("body") or "")


def _name(thing: Any) -> str:
    """Of a person, or of a status and its like."""
    return str(thing.get("displayName") or thing.get("name") or "") if isinstance(thing, dict) else ""


def _marks(comment: Json) -> list[Any]:
    return list(comment.get("properties") or ())


def _is_marked(issue: Json, mark: str) -> bool:
    return bool((issue.get("properties") or {}).get(PROPERTY) == {"operation": mark})
