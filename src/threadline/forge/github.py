"""GitHub's REST API: one account, one method to call it, and draft pull requests.

Pull requests: https://docs.github.com/en/rest/pulls/pulls. Statuses and limits:
https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import aiohttp
import structlog
from pydantic import SecretStr

from threadline.errors import NotDone, Permanent, Transient, parse_retry_after
from threadline.forge.model import RemoteState
from threadline.privacy.quotes import quote_refusal

T = TypeVar("T")
TIMEOUT = aiohttp.ClientTimeout(total=30)
GITHUB_API = "https://api.github.com"
_PAGE = 100
_MAX_PAGES = 20
"""Most pull requests in one answer, and most answers that are read."""
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError)
"""Exceptions of `read` for an answer of another shape."""


@dataclass(frozen=True)
class HostedPullRequest:
    """A pull request at GitHub. `draft`: GitHub does not allow merging it yet."""

    url: str
    number: int
    draft: bool


class DraftsUnsupported(Permanent):
    """The repository supports no drafts, like private ones of some plans and older servers."""


@dataclass(frozen=True)
class GitHubAdvice:
    """Advice in error messages: the names of settings, and the right that the token needs."""

    token: str
    repository: str
    api_url: str
    right: str


FOR_PULL_REQUESTS = GitHubAdvice(
    token="GITHUB_TOKEN",  # noqa: S106  the name of a setting
    repository="THREADLINE_REPO",
    api_url="GITHUB_API_URL",
    right="the token may not do this: give it the right to write contents and pull requests",
)


class GitHub:
    """One account at one GitHub.

    Args:
        api_url: `https://api.github.com` or, for example, `https://github.acme.example/api/v3` of
            a GitHub Enterprise.
        token: sent to this address only, and part of no message.
        advice: the settings that error messages name.
        timeout: that of each call.
    """

    def __init__(
        self,
        api_url: str,
        token: SecretStr,
        advice: GitHubAdvice = FOR_PULL_REQUESTS,
        timeout: aiohttp.ClientTimeout = TIMEOUT,
    ) -> None:
        self._api_url = api_url.rstrip("/")
        self._token = token
        self._advice = advice
        self._timeout = timeout

    async def ensure_draft(
        self, slug: str, branch: str, commit: str, into: str, title: str, body: str
    ) -> HostedPullRequest:
        """Open a draft pull request, or bring the existing one up to date.

        Only an open pull request from this branch of this repository into `into` is ever changed.
        Some servers ignore the filter for a branch, so each listed pull request is compared. A
        repository without drafts gets an ordinary pull request.

        Args:
            slug: the repository, as `owner/name`.
            commit: the full id of the newest commit on `branch`.
            into: the branch to merge into.
            body: Markdown.

        Raises:
            Permanent: GitHub refuses.
            Transient: GitHub cannot be reached or asks to wait.
        """
        about = f"The repository {slug}"
        pulls = f"/repos/{slug}/pulls"
        texts = {"title": title, "body": body}
        own = [
            pull for pull in await self._pulls_from(slug, branch) if _is_from(pull, branch, into)
        ]
        still_open = next((pull for pull in own if pull["state"] == "open"), None)
        if still_open is None:
            # A closed one at this very commit answers a late repetition of the request, so no
            # second one is opened.
            closed = next((pull for pull in own if pull["head"]["sha"] == commit), None)
            if closed is not None:
                return _hosted(closed)
            return await self._open(pulls, about, texts | {"head": branch, "base": into})
        if any(still_open.get(name) != value for name, value in texts.items()):
            path = f"{pulls}/{int(still_open['number'])}"
            return await self.call("PATCH", path, about, _hosted, body=texts)
        return _hosted(still_open)

    async def _pulls_from(self, slug: str, branch: str) -> list[Any]:
        """Return the pull requests that GitHub lists for a branch, newest first: all pages, since
        a server that ignores the branch lists those of the whole repository.
        """
        found: list[Any] = []
        asked = {
            "head": f"{slug.partition('/')[0]}:{branch}",
            "state": "all",
            "per_page": str(_PAGE),
        }
        for page in range(1, _MAX_PAGES + 1):
            params = asked | {"page": str(page)}
            listed = await self.call(
                "GET", f"/repos/{slug}/pulls", f"The repository {slug}", _pulls, params=params
            )
            found += listed
            if len(listed) < _PAGE:
                break
        return found

    async def _open(
        self, pulls: str, about: str, fields: Mapping[str, object]
    ) -> HostedPullRequest:
        try:
            return await self.call("POST", pulls, about, _hosted, body={**fields, "draft": True})
        except DraftsUnsupported:
            return await self.call("POST", pulls, about, _hosted, body={**fields, "draft": False})

    async def pull_request_state(self, slug: str, number: int) -> RemoteState:
        """Return the state of a pull request.

        Raises:
            Permanent: GitHub refuses.
            Transient: GitHub cannot be reached or asks to wait.
        """

        def read(pull: Any) -> RemoteState:
            if pull is None:
                return "gone"
            if pull.get("merged"):
                return "merged"
            return "open" if pull["state"] == "open" else "closed"

        about = f"Pull request {number} of {slug}"
        return await self.call("GET", f"/repos/{slug}/pulls/{number}", about, read, missing=(404,))

    async def call(
        self,
        method: str,
        path: str,
        about: str,
        read: Callable[[Any], T],
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        missing: tuple[int, ...] = (),
        follow: bool = True,
    ) -> T:
        """Call one endpoint, once: retries belong to Temporal.

        Args:
            path: appended to the address of the API; begins with a slash.
            about: the subject of error messages ("Run 12").
            read: converts the answer's JSON to the result; gets None where the answer is empty or
                of a `missing` status.
            missing: statuses that mean "there is none".
            follow: follow redirects; if not, `read` gets the redirect's address.

        Raises:
            Permanent: GitHub refuses, or the address is not that of its API.
            Transient: GitHub cannot be reached.
            NotDone: GitHub limits the rate of calls, and did nothing.
        """
        status: int | None = None
        cause = "refusal"
        try:
            async with (
                aiohttp.ClientSession(
                    headers=self._headers(), timeout=self._timeout, trust_env=True
                ) as session,
                session.request(
                    method, self._api_url + path, params=params, json=body, allow_redirects=follow
                ) as response,
            ):
                status = response.status
                if status in missing:
                    return read(None)
                if status >= 400:
                    failure: Exception = self._refusal(
                        status, response.headers, await response.text(), about
                    )
                elif status >= 300:
                    return read(response.headers["Location"])
                elif "html" in response.content_type:
                    failure = self._no_api("GitHub answered with a web page, perhaps a login page")
                else:
                    content = await response.read()
                    return read(json.loads(content) if content else None)
        except (aiohttp.ClientError, TimeoutError, *_UNREADABLE) as error:
            failure = self._failure(error)
            cause = type(error).__name__
        structlog.get_logger().info("github_call_failed", cause=cause, status=status)
        # without a cause, since the client's own text repeats addresses and headers
        raise failure

    def _headers(self) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self._token.get_secret_value()}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "threadline",
        }

    def _failure(self, error: Exception) -> Permanent | Transient:
        match error:
            case TimeoutError():
                return Transient("GitHub did not answer in time.")
            case aiohttp.ClientConnectionError():
                return Transient(
                    f"GitHub could not be reached: check the network and {self._advice.api_url}."
                )
            case aiohttp.ClientPayloadError() | json.JSONDecodeError() | UnicodeDecodeError():
                return Transient("GitHub's answer could not be read.")
            case aiohttp.ClientError():
                return Permanent(
                    f"No GitHub API was found at the address: check {self._advice.api_url}."
                )
            case _:
                return self._no_api("GitHub's answer does not have the form of its API")

    def _no_api(self, found: str) -> Permanent:
        return Permanent(
            f"{found}: check {self._advice.api_url}, and that the token may use the API."
        )

    def _refusal(
        self, status: int, headers: Mapping[str, str], text: str, about: str
    ) -> Permanent | Transient:
        spent = headers.get("X-RateLimit-Remaining") == "0"
        limited = spent or "Retry-After" in headers or "rate limit" in text.lower()
        if status == 429 or (status == 403 and limited):
            return NotDone("GitHub's rate limit is reached.", retry_after=_pause(headers, spent))
        if status in (408, 409, 425) or status >= 500:
            return Transient(
                f"GitHub failed or is overloaded (HTTP {status}).",
                retry_after=_pause(headers, False),
            )
        if status == 422 and "already exists" in text:
            return Transient(
                "GitHub knows the pull request, and does not list it yet.", retry_after=5
            )
        said = _quote(text)
        advice = self._advice
        if status == 422 and _refuses_drafts(text):
            return DraftsUnsupported(f"GitHub refused it (HTTP 422). {said}".strip())
        reasons = {
            401: f"GitHub does not accept the token: set a new one in {advice.token}.",
            403: f"GitHub does not allow it: {said or advice.right}",
            404: (
                f"{about} was not found at GitHub, or the token may not see it: check "
                f"{advice.repository}."
            ),
        }
        return Permanent(
            reasons.get(status) or f"GitHub refused it (HTTP {status}). {said}".strip()
        )


def _pulls(listed: Any) -> list[Any]:
    """Return the list, after checking the fields that `_is_from` and `_hosted` read."""
    for pull in listed:
        _hosted(pull)
        str(pull["state"])
        str(pull["head"]["sha"])
    return list(listed)


def _is_from(pull: Any, branch: str, into: str) -> bool:
    """Whether a pull request leads from this branch of its own repository into the branch `into`.
    The repositories are compared by their ids, since a renamed one differs from its name in the
    settings. A deleted fork is None.
    """
    head = pull["head"]
    base = pull["base"]
    if head.get("ref") != branch or base.get("ref") != into:
        return False
    source = head.get("repo")
    target = base.get("repo")
    return bool(
        source and target and source.get("id") is not None and source["id"] == target.get("id")
    )


def _hosted(pull: Any) -> HostedPullRequest:
    return HostedPullRequest(str(pull["html_url"]), int(pull["number"]), bool(pull.get("draft")))


def _refuses_drafts(text: str) -> bool:
    said = text.lower()
    return "draft" in said and "not supported" in said


def _quote(text: str) -> str:
    """Return GitHub's own text, as far as it is safe to repeat."""
    try:
        return quote_refusal(json.loads(text))
    except ValueError:
        return ""


def _pause(headers: Mapping[str, str], spent: bool) -> float | None:
    """Return the pause in seconds. Every answer has the reset, which only counts where the hour's
    calls are spent.
    """
    named = parse_retry_after(headers, datetime.now(UTC))
    reset = headers.get("X-RateLimit-Reset", "")
    if named is None and spent and reset.isdecimal():
        return max(float(reset) - time.time(), 1.0)
    return named
