"""What went wrong at Jira, as one of the two sides an error can be on, in sentences that name no host and no token.

Statuses: https://developer.atlassian.com/cloud/jira/platform/rest/v2/intro/#status-codes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import structlog
from jira.exceptions import JIRAError
from requests.exceptions import ConnectionError as Unreachable
from requests.exceptions import JSONDecodeError, RequestException, Timeout

from threadline.errors import NotDone, Permanent, Transient, parse_retry_after
from threadline.privacy.quoting import quotable

_ACCOUNT = "Jira does not accept the account: check THREADLINE_JIRA_EMAIL and THREADLINE_JIRA_TOKEN."
_ADDRESS = "No Jira was found at the address: check THREADLINE_JIRA_URL."
_PAGE = (
    "Jira answered with a web page, perhaps a login page: check THREADLINE_JIRA_URL, and that the "
    "account may use the API."
)
_UNREADABLE = "Jira's answer could not be read."


class PageForPeople(Exception):
    """HTML came as a success."""


@contextmanager
def asking(about: str) -> Iterator[None]:
    """Around what is asked of Jira and the reading of its answers.

    Args:
        about: what it is about, as a sentence begins with it ("SHOP-12").

    Raises:
        Permanent | Transient: without a cause, since the client's own text repeats the answer and its headers.
    """
    try:
        yield
    except (JIRAError, RequestException, PageForPeople, ValueError, LookupError, TypeError, AttributeError) as error:
        status = error.status_code if isinstance(error, JIRAError) else None
        structlog.get_logger().info("jira_request_failed", error=type(error).__name__, status=status)
        translated = _translated(error, about)
    else:
        return
    raise translated


def is_missing(error: JIRAError) -> bool:
    return error.status_code == 404


def _translated(error: Exception, about: str) -> Permanent | Transient:
    match error:
        case JIRAError():
            return _answered(error, about)
        case PageForPeople():
            return Permanent(_PAGE)
        case JSONDecodeError():
            return Transient(_UNREADABLE)
        case Timeout():
            return Transient("Jira did not answer in time.")
        case Unreachable():
            return Transient("Jira could not be reached: check the network and THREADLINE_JIRA_URL.")
        case RequestException():
            return Permanent(_ADDRESS)
        case _:
            return Transient(_UNREADABLE)


def _answered(error: JIRAError, about: str) -> Permanent | Transient:
    status = error.status_code or 0
    pause = parse_retry_after(error.response.headers, datetime.now(UTC)) if error.response is not None else None
    if status == 429:
        return NotDone("Jira's rate limit is reached.", retry_after=pause)
    if status in (0, 408, 409, 425) or status >= 500:
        return Transient(f"Jira failed or is overloaded (HTTP {status}).", retry_after=pause)
    return Permanent(_refused(status, quotable(error.text), about))


def _refused(status: int, said: str, about: str) -> str:
    if status == 401:
        return _ACCOUNT
    if status == 403:
        return f"The account may not do this in Jira: {said or 'ask for the permission in the project'}"
    if status == 404:
        return f"{about} is not in Jira, or the account may not see it."
    if status == 400:
        return f"Jira refused it: {said or 'check the project, the type and the other fields'}"
    return f"Jira refused it (HTTP {status}). {said}".strip()
