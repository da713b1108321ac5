"""Translation of Slack's failures into `Permanent` and `Transient`, with messages for people."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError

from threadline.errors import Mendable, NotDone, Permanent, Transient
from threadline.slack.model import ACCESS, ACCESS_FAULT, CHANNEL_FAULT

RATE_LIMIT_PAUSE = 30.0
"""Seconds to wait when Slack limits the rate without naming a time."""
_RATE_LIMITED = frozenset({"ratelimited", "rate_limited"})
_OUTCOME_UNKNOWN = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)
"""Errors after which, by Slack's documentation, part of the work may have been done."""

_REINSTALL = (
    "Slack does not accept the bot token ({name}): install the app again and put its new token "
    "into the settings."
)
_TOO_LONG = (
    "The message for {where} is too long for Slack ({name}): shorten it, or post it in several "
    "parts."
)
_NO_BLOCKS = (
    "Slack cannot display the blocks of the message for {where}: report this with the message's "
    "key."
)
TOKEN_REFUSED = frozenset(
    {
        "account_inactive",
        "invalid_auth",
        "not_allowed_token_type",
        "not_authed",
        "token_expired",
        "token_revoked",
    }
)
"""Errors of a token that will not recover by itself:
https://docs.slack.dev/reference/methods/auth.test
"""
_UNSHOWABLE = frozenset(
    {"invalid_attachments", "invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"}
)
"""Slack also answers `invalid_attachments` to a second table anywhere in a message."""
ACCESS_REFUSED = TOKEN_REFUSED | {
    *("access_denied", "accesslimited", "app_access_restricted", "ekm_access_denied"),
    *("enterprise_is_restricted", "missing_scope", "no_permission", "org_login_required"),
    *(
        "team_access_not_granted",
        "team_added_to_org",
        "team_not_found",
        "two_factor_setup_required",
    ),
}
"""Errors by which Slack refuses the app as a whole; an admin of Slack or of Threadline can mend
them.
"""
CHANNEL_REFUSED = frozenset(
    {
        *(
            "channel_not_found",
            "channel_type_not_supported",
            "is_archived",
            "message_limit_exceeded",
        ),
        *("messages_tab_disabled", "not_in_channel", "restricted_action"),
        *("restricted_action_non_threadable_channel", "restricted_action_read_only_channel"),
        *("restricted_action_thread_locked", "restricted_action_thread_only_channel"),
    }
)
"""Errors by which Slack refuses the app one channel; an admin of Slack or of Threadline can mend
them. All other refusals concern the message itself:
https://docs.slack.dev/reference/methods/chat.postMessage
"""
_ADMIN_OF_SLACK = (
    "Slack does not let the app do this in {where} ({name}): ask an admin of the workspace to "
    "allow it."
)
_ADVICE = {
    **dict.fromkeys(ACCESS_REFUSED | CHANNEL_REFUSED, _ADMIN_OF_SLACK),
    **dict.fromkeys(TOKEN_REFUSED - {"not_allowed_token_type"}, _REINSTALL),
    **dict.fromkeys(_UNSHOWABLE, _NO_BLOCKS),
    "not_in_channel": (
        "The bot is not a member of {where}: type `/invite` and the bot's name there."
    ),
    "channel_not_found": (
        "Slack does not show the bot {where}: check the channel's id in the settings, "
        "and if it is private, invite the bot there."
    ),
    "is_archived": (
        "Slack has archived {where}: unarchive it, or put another channel into the settings."
    ),
    "missing_scope": (
        "The bot token lacks the scope {needed} for {where}: "
        "add it under OAuth & Permissions in the app's settings, and install the app again."
    ),
    "restricted_action": (
        "A rule of the workspace does not let the bot post in {where}: ask an admin to allow it."
    ),
    "msg_too_long": _TOO_LONG,
    "msg_blocks_too_long": _TOO_LONG,
    "no_text": "The message for {where} is empty: report this with the message's key.",
    "thread_not_found": "The thread in {where} is gone: somebody deleted its first message.",
    "message_not_found": "The message in {where} is gone: somebody deleted it.",
    "file_not_found": (
        "Slack does not show the bot {where}: it was deleted, or it is in a channel without the "
        "bot."
    ),
    "file_deleted": "Somebody deleted {where}: ask for it again.",
}


class BlocksRefused(Permanent):
    """Slack refused the blocks of a message and did nothing; it may accept the text alone."""


@asynccontextmanager
async def translated(where: str) -> AsyncIterator[None]:
    """Raise every error of the block as `translate` returns it; wraps each call to Slack.

    Args:
        where: the subject of the call, as a sentence names it ("channel C1").
    """
    try:
        yield
    except (SlackClientError, aiohttp.ClientError, OSError) as exc:  # a TimeoutError is an OSError
        raise translate(exc, where) from exc


def translate(exc: Exception, where: str) -> Permanent | Transient:
    """Return the error to raise for an error of the SDK or the connection.

    The names are those of https://docs.slack.dev/reference/methods.

    Returns:
        `Permanent` if Slack refused for good, `Mendable` if it refuses until an admin mends it,
        `NotDone` if it did nothing but may do so later, and a plain `Transient` if it may have
        done it.
    """
    if isinstance(exc, SlackApiError):
        return _answered(exc, where)
    if isinstance(exc, (SlackClientError, aiohttp.InvalidURL)):
        return Permanent(
            f"The call to Slack for {where} could not be made ({exc}): check Slack's address "
            "in the settings."
        )
    if isinstance(exc, aiohttp.ClientConnectorError):
        return NotDone(f"Slack could not be reached for {where}: check the network.")
    return Transient(f"Slack did not answer for {where} ({type(exc).__name__}).")


def error_name(exc: SlackApiError) -> str:
    """Return Slack's own name of the error; empty if the answer did not come from Slack."""
    name = _data(exc).get("error")
    return name if isinstance(name, str) else ""


def _answered(exc: SlackApiError, where: str) -> Permanent | Transient:
    name = error_name(exc)
    response = exc.response
    status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0))
    wait = (getattr(response, "headers", None) or {}).get("Retry-After", "")
    pause = float(wait) if str(wait).isdecimal() else None
    if status == 429 or name in _RATE_LIMITED:
        pause = RATE_LIMIT_PAUSE if pause is None else pause
        return NotDone(f"Slack's rate limit is reached for {where}.", retry_after=pause)
    if status >= 500 or name in _OUTCOME_UNKNOWN:
        return Transient(
            f"Slack failed for {where} ({name or f'HTTP {status}'}).", retry_after=pause
        )
    if name:
        needed = _data(exc).get("needed") or "that this call needs"
        unknown = (
            "Slack refused the call for {where}: {name}. "
            "Slack's API reference explains this error."
        )
        said = _ADVICE.get(name, unknown).format(where=where, name=name, needed=needed)
        if name in ACCESS_REFUSED:
            subject = str(_data(exc).get("needed") or name) if name == "missing_scope" else ACCESS
            return Mendable(said, kind=ACCESS_FAULT, subject=subject)
        if name in CHANNEL_REFUSED:
            return Mendable(said, kind=CHANNEL_FAULT, subject=where.removeprefix("channel "))
        return BlocksRefused(said) if name in _UNSHOWABLE else Permanent(said)
    if status in (401, 403):
        said = _REINSTALL.format(name=f"HTTP {status}")
        return Mendable(said, kind=ACCESS_FAULT, subject=ACCESS)
    if status < 300:
        return Transient(f"Slack's answer for {where} could not be read.")
    return Permanent(
        f"The answer for {where} (HTTP {status}) is not Slack's: check Slack's address and "
        "the proxy in the settings."
    )


def _data(exc: SlackApiError) -> Mapping[str, Any]:
    # the SDK passes on aiohttp's response when it could not read the body
    data = getattr(exc.response, "data", None)
    return data if isinstance(data, Mapping) else {}
