"""Pull requests over GitHub's REST API: https://docs.github.com/en/rest/pulls/pulls."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from pydantic import SecretStr

from threadline.errors import Permanent, Transient

_TIMEOUT = aiohttp.ClientTimeout(total=30)
_ADVICE = {
    401: "the token is not valid: set a new GITHUB_TOKEN",
    403: "the token may not do this: give it the right to write contents and pull requests",
    404: "the repository was not found, or the token may not see it: check THREADLINE_REPO and GITHUB_TOKEN",
    422: "GitHub does not accept the pull request",
}


@dataclass(frozen=True)
class Draft:
    """A draft pull request: `branch` at `commit` of the repository `slug` (`owner/name`), into its branch `into`."""

    slug: str
    branch: str
    commit: str
    into: str
    title: str
    body: str


class GitHub:
    """One account at one GitHub, such as `https://api.github.com`."""

    def __init__(self, api_url: str, token: SecretStr) -> None:
        self._api_url, self._token = api_url.rstrip("/"), token

    async def ensure(self, draft: Draft) -> tuple[str, int]:
        """Open a draft pull request, or bring the one that is there up to date; returns its URL and number.

        Raises:
            Permanent: GitHub refuses.
            Transient: GitHub is away or asks to wait.
        """
        pulls = f"/repos/{draft.slug}/pulls"
        head = f"{draft.slug.partition('/')[0]}:{draft.branch}"
        listed = await self._call("GET", pulls, params={"head": head, "state": "all", "per_page": "50"})
        # A closed one at this very commit is the answer to a request that is repeated late, not a reason for a second.
        found = next((pull for pull in listed if pull["state"] == "open"), None) or next(
            (pull for pull in listed if pull["head"]["sha"] == draft.commit), None
        )
        words = {"title": draft.title, "body": draft.body}
        if found is None:
            new = words | {"head": draft.branch, "base": draft.into, "draft": True}
            found = await self._call("POST", pulls, json=new)
        elif found["state"] == "open" and any(found.get(name) != value for name, value in words.items()):
            found = await self._call("PATCH", f"{pulls}/{found['number']}", json=words)
        return str(found["html_url"]), int(found["number"])

    async def state(self, slug: str, number: int) -> str:
        """`open`, `merged`, `closed`, or `gone` when there is no such pull request."""
        pull = await self._call("GET", f"/repos/{slug}/pulls/{number}", missing=True)
        if pull is None:
            return "gone"
        return "merged" if pull.get("merged") else str(pull["state"])

    async def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Mapping[str, object] | None = None,
        missing: bool = False,
    ) -> Any:
        headers = {
            "Authorization": f"Bearer {self._token.get_secret_value()}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "threadline",
        }
        try:
            async with (
                aiohttp.ClientSession(headers=headers, timeout=_TIMEOUT, trust_env=True) as session,
                session.request(method, self._api_url + path, params=params, json=json) as response,
            ):
                if response.status == 404 and missing:
                    return None
                if response.status >= 400:
                    raise _error(response.status, response.headers, await response.text())
                return await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
            raise Transient(f"GitHub could not be reached: {type(exc).__name__}") from exc


def _error(status: int, headers: Mapping[str, str], body: str) -> Permanent | Transient:
    asked_to_wait = "Retry-After" in headers or headers.get("X-RateLimit-Remaining") == "0" or "rate limit" in body
    limited = status == 429 or (status == 403 and asked_to_wait)
    if limited or status >= 500:
        return Transient(f"GitHub answered {status}: try again later", retry_after=_wait(headers))
    if status == 422 and "already exists" in body:
        return Transient("GitHub knows the pull request but does not list it yet", retry_after=5)
    advice = _ADVICE.get(status, "look up what this status means at docs.github.com/rest")
    return Permanent(f"GitHub answered {status}: {advice} ({' '.join(body.split())[:300]})")


def _wait(headers: Mapping[str, str]) -> float | None:
    """Seconds, from either header that GitHub uses."""
    after, reset = headers.get("Retry-After", ""), headers.get("X-RateLimit-Reset", "")
    if after.isdigit():
        return float(after)
    return max(float(reset) - time.time(), 1.0) if reset.isdigit() else None
