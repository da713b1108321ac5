"""Classifies the failures of the Claude Agent SDK: another attempt may help, or it cannot."""

import re

from claude_agent_sdk import ClaudeSDKError, CLIConnectionError, ProcessError, ResultMessage

from threadline.errors import Permanent, Transient
from threadline.investigator.stream import TurnMonitor

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


class TurnFailed(Permanent):
    """The turn failed, and another attempt cannot help."""


class TurnInterrupted(Transient):
    """The turn was interrupted, and another attempt may help."""


class SessionNotFound(Exception):
    """The session to resume is not in the store: only a new one can be started."""


def raise_for_result(result: ResultMessage, monitor: TurnMonitor) -> None:
    """Raise when `result` is a failure. The order of the tests held over every kind of failure that was provoked.

    A result without structured output is no failure here: the model is asked once more. `subtype` alone tells nothing,
    since a failed API call ends as `success`, too.

    Raises:
        SessionNotFound, TurnFailed, TurnInterrupted
    """
    if not result.is_error:
        return
    if (result.terminal_reason or "").startswith("aborted"):
        raise TurnInterrupted("The agent was interrupted: the turn is tried again.")
    if result.subtype in _LIMITS:
        raise TurnFailed(_LIMITS[result.subtype])
    said = " ".join([*(result.errors or []), result.result or ""]).strip()
    if _is_unknown_session(said):
        raise SessionNotFound
    if monitor.last_error in _REFUSALS:
        raise TurnFailed(_REFUSALS[monitor.last_error])
    if _is_transient(result.api_error_status, monitor.last_error):
        status = f" (HTTP {result.api_error_status})" if result.api_error_status else ""
        raise TurnInterrupted(
            f"The model's API did not answer{status}: the turn is tried again.",
            retry_after=monitor.retry_after,
        )
    raise TurnFailed(f"The model's API refused the turn: {monitor.detail(said or result.subtype)}")


def classify(error: Exception, monitor: TurnMonitor) -> Exception | None:
    """Classify an exception from starting the CLI, writing to it or reading from it.

    Returns:
        TurnFailed, TurnInterrupted or SessionNotFound; None for an exception that is not the SDK's.
    """
    detail = monitor.detail(str(error))
    if isinstance(error, ProcessError):
        return _process_failure(error, detail)
    if isinstance(error, CLIConnectionError) and re.search(r"[Ww]rite to|not ready|Not connected", str(error)):
        return TurnInterrupted("The agent's process ended in mid-turn: the turn is tried again.")
    if isinstance(error, ClaudeSDKError):
        return TurnFailed(f"The agent could not be run; check its settings. It said: {detail}")
    if isinstance(error, RuntimeError) and "SessionStore." in str(error):
        return TurnInterrupted("The agent's earlier session could not be loaded: the turn is tried again.")
    if type(error) is Exception:  # what the SDK raises when its own protocol with the CLI breaks
        return TurnInterrupted(f"The agent's process broke its protocol: {detail}")
    return None


def _process_failure(error: ProcessError, detail: str) -> Exception:
    if _is_unknown_session(detail):
        return SessionNotFound()
    code = error.exit_code or 0
    if code < 0 or code in _KILLED:
        return TurnInterrupted(f"The agent's process was killed (exit code {code}): the turn is tried again.")
    return TurnFailed(f"The agent's process failed; check its settings. It said: {detail}")


def _is_transient(status: int | None, reason: str) -> bool:
    if status is not None:
        return status in _TRANSIENT_STATUS or status >= 500
    return reason in _TRANSIENT_REASONS


def _is_unknown_session(text: str) -> bool:
    return "No conversation found" in text
