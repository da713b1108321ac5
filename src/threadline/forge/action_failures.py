"""What went wrong at GitHub Actions, as one of the two sides an error can be on, naming no host and no token.

Statuses and limits: https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from json import JSONDecodeError

import structlog
from github.GithubException import GithubException, RateLimitExceededException
from requests.exceptions import ConnectionError as Unreachable
from requests.exceptions import RequestException, Timeout

from threadline.errors import NotDone, Permanent, Transient, parse_retry_after
from threadline.privacy.quoting import quotable

_ACCOUNT = "GitHub does not accept the token: set a new one in THREADLINE_GITHUB_TOKEN, or GITHUB_TOKEN."
_ADDRESS = "No GitHub API was found at the address: check THREADLINE_GITHUB_API_URL."
_PAGE = (
    "GitHub answered with a web page, perhaps a login page: check THREADLINE_GITHUB_API_URL, and that "
    "the token may use the API."
)


@contextmanager
def asking(about: str) -> Iterator[None]:
    """Around what is asked of GitHub and the reading of its answers.

    Args:
        about: what it is about, as a sentence begins with it ("Run 12").

    Raises:
        Permanent | Transient: without a cause, since the client's own text repeats the answer and its headers.
    """
    try:
        yield
    except (GithubException, RequestException, *_UNREADABLE) as error:
        status = error.status if isinstance(error, GithubException) else None
        structlog.get_logger().info("github_request_failed", error=type(error).__name__, status=status)
        translated = _translated(error, about)
    else:
        return
    raise translated


_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, AssertionError, RuntimeError)
"""What the client raises at an answer of another form, or one that leads to another host."""


def _translated(error: Exception, about: str) -> Permanent | Transient:
    match error:
        case GithubException():
            return _answered(error, about)
        case Timeout():
            return Transient("GitHub did not answer in time.")
        case Unreachable():
            return Transient("GitHub could not be reached: check the network and THREADLINE_GITHUB_API_URL.")
        case RequestException():
            return Permanent(_ADDRESS)
        case JSONDecodeError():
            return Transient("GitHub's answer could not be read.")
        case _:
            return Permanent(_PAGE)


def _answered(error: GithubException, about: str) -> Permanent | Transient:
    status = error.status
    headers = {name.lower(): str(value) for name, value in (error.headers or {}).items()}
    spent = headers.get("x-ratelimit-remaining") == "0"
    limited = spent or "retry-after" in headers or isinstance(error, RateLimitExceededException)
    if status == 429 or (status == 403 and limited):
        return NotDone("GitHub's rate limit is reached.", retry_after=_pause(headers, spent))
    if status in (408, 409, 425) or status >= 500:
        return Transient(f"GitHub failed or is overloaded (HTTP {status}).", retry_after=_pause(headers, False))
    said = quotable(error.data.get("message")) if isinstance(error.data, Mapping) else ""
    return Permanent(_refused(status, said, about))


def _refused(status: int, said: str, about: str) -> str:
    if status == 401:
        return _ACCOUNT
    if status == 403:
        return f"GitHub does not allow it: {said or 'the token may not use the actions of this repository'}"
    if status == 404:
        return f"{about} was not found at GitHub, or the token may not see it: check THREADLINE_GITHUB_REPOSITORY."
    return f"GitHub refused it (HTTP {status}). {said}".strip()


def _pause(headers: Mapping[str, str], spent: bool) -> float | None:
    """Seconds; the reset is on every answer, and counts where the hour's calls are spent."""
    named, reset = parse_retry_after(headers, datetime.now(UTC)), headers.get("x-ratelimit-reset", "")
    if named is None and spent and reset.isdecimal():
        return max(float(reset) - time.time(), 1.0)
    return named
