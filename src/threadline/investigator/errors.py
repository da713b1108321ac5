"""Why a turn failed, and whether another attempt can help: the SDK's many ways to fail, put on one of two sides."""

import re

from claude_agent_sdk import ClaudeSDKError, CLIConnectionError, ProcessError, ResultMessage

from threadline.errors import Permanent, Transient
from threadline.investigator.stream import Watch

_TRANSIENT_STATUS = frozenset({408, 409, 429})
_TRANSIENT_REASONS = frozenset({"server_error", "rate_limit", "overloaded"})
_KILLED = frozenset({137, 143})
_LIMITS = {
    "error_max_turns": "The agent used up its steps for one turn: look at the case, or raise the limit of steps.",
    "error_max_budget_usd": "The agent used up its budget for one turn: look at the case, or raise the budget.",
    "error_max_structured_output_retries": "The agent did not answer in the required form: look at the case yourself.",
}
_REFUSALS = {
    "authentication_failed": "The model's API refused the key: check the API key and what it may use.",
    "model_not_found": "The model's API does not know the model: check its name.",
    "billing_error": "The model's API refused the request because of billing: check the account.",
    "max_output_tokens": "The model's answer exceeded its length limit: look at the case yourself.",
}


class TurnRefused(Permanent):
    """The turn failed for good."""


class TurnBroken(Transient):
    """The turn broke off and may be tried again."""


class SessionUnknown(Exception):
    """The session that was to be resumed is not in the store: only a new one can be started."""


def raise_for(result: ResultMessage, watch: Watch) -> None:
    """Raise when `result` is a failure, in the order that held over every kind of failure that was provoked.

    A result without structured output is not one here: the model is asked once more. `subtype` alone tells nothing: a
    failed API call ends as `success` too.

    Raises:
        SessionUnknown, TurnRefused, TurnBroken
    """
    if not result.is_error:
        return
    if (result.terminal_reason or "").startswith("aborted"):
        raise TurnBroken("The agent was interrupted: the turn is tried again.")
    if result.subtype in _LIMITS:
        raise TurnRefused(_LIMITS[result.subtype])
    said = " ".join([*(result.errors or []), result.result or ""]).strip()
    if _is_unknown_session(said):
        raise SessionUnknown
    if watch.last_error in _REFUSALS:
        raise TurnRefused(_REFUSALS[watch.last_error])
    if _may_pass(result.api_error_status, watch.last_error):
        status = f" (HTTP {result.api_error_status})" if result.api_error_status else ""
        raise TurnBroken(
            f"The model's API did not answer{status}: the turn is tried again.",
            retry_after=watch.retry_after,
        )
    raise TurnRefused(f"The model's API refused the turn: {watch.detail(said or result.subtype)}")


def failure_of(error: Exception, watch: Watch) -> Exception | None:
    """What an exception means that came out of starting the CLI, writing to it or reading from it.

    Returns:
        TurnRefused, TurnBroken or SessionUnknown; None for an exception that is not the SDK's.
    """
    detail = watch.detail(str(error))
    if isinstance(error, ProcessError):
        return _process_failure(error, detail)
    if isinstance(error, CLIConnectionError) and re.search(r"[Ww]rite to|not ready|Not connected", str(error)):
        return TurnBroken("The agent's process ended in mid-turn: the turn is tried again.")
    if isinstance(error, ClaudeSDKError):
        return TurnRefused(f"The agent could not be run; check its settings. It said: {detail}")
    if isinstance(error, RuntimeError) and "SessionStore." in str(error):
        return TurnBroken("The agent's earlier session could not be loaded: the turn is tried again.")
    if type(error) is Exception:  # how the SDK tells that its own conversation with the CLI broke
        return TurnBroken(f"The agent's process broke its protocol: {detail}")
    return None


def _process_failure(error: ProcessError, detail: str) -> Exception:
    if _is_unknown_session(detail):
        return SessionUnknown()
    code = error.exit_code or 0
    if code < 0 or code in _KILLED:
        return TurnBroken(f"The agent's process was killed (exit code {code}): the turn is tried again.")
    return TurnRefused(f"The agent's process failed; check its settings. It said: {detail}")


def _may_pass(status: int | None, reason: str) -> bool:
    if status is not None:
        return status in _TRANSIENT_STATUS or status >= 500
    return reason in _TRANSIENT_REASONS


def _is_unknown_session(text: str) -> bool:
    return "No conversation found" in text
