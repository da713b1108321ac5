"""Why a turn failed, and whether another attempt can help: the SDK's many ways to fail, put on one of two sides."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeSDKError,
    CLIConnectionError,
    ProcessError,
    ResultError,
    ResultMessage,
)

from threadline.domain.errors import Permanent, Transient

_TRANSIENT_STATUS = frozenset({408, 409, 429})
_PERMANENT_LIMITS = {
    "error_max_turns": "The agent used up its steps for one turn: look at the case, or raise the limit of steps.",
    "error_max_budget_usd": "The agent used up the money allotted to one turn: look at the case, or raise the budget.",
    "error_max_structured_output_retries": "The agent never gave an answer in the agreed form: look at the case yourself.",
}
_REASONS = {
    "authentication_failed": "The model's API refused the key: check the API key and what it may use.",
    "model_not_found": "The model's API does not know the model: check its name.",
    "billing_error": "The model's API refused for reasons of billing: check the account.",
    "max_output_tokens": "The model's answer did not fit its limit: look at the case yourself.",
}
_SECRETS = re.compile(r"sk-[\w-]{8,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|(?i:(?<=bearer )\S+)")


@dataclass(frozen=True)
class Spend:
    """What a turn has used, also a failed one."""

    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    api_turns: int = 0

    def after(self, result: ResultMessage) -> "Spend":
        """With the next result of the same process: its cost counts from the process's start, its tokens do not."""
        usage = result.usage or {}
        fresh = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        return Spend(
            cost_usd=result.total_cost_usd or self.cost_usd,
            input_tokens=self.input_tokens + sum(int(usage.get(name) or 0) for name in fresh),
            output_tokens=self.output_tokens + int(usage.get("output_tokens") or 0),
            api_turns=self.api_turns + result.num_turns,
        )


class TurnRefused(Permanent):
    """The turn failed for good; `spend` is what it cost all the same."""

    def __init__(self, message: str, spend: Spend | None = None) -> None:
        super().__init__(message)
        self.spend = spend or Spend()


class TurnBroken(Transient):
    """The turn broke off and may be tried again; `spend` is what it cost all the same."""

    def __init__(self, message: str, spend: Spend | None = None, *, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.spend = spend or Spend()


class SessionUnknown(Exception):
    """The session that was to be resumed is not in the store: only a new one can be started."""


def raise_for(result: ResultMessage, last: AssistantMessage | None, retry_after: float | None, spend: Spend) -> None:
    """Raise when `result` is a failure. A result without structured output is none: the model is asked once more.

    Args:
        result: what ended the exchange.
        last: the last reply in it; its `error` tells what the result does not.
        retry_after: seconds for which the CLI meant to wait when it last retried by itself.
        spend: what the turn has used.

    Raises:
        SessionUnknown, TurnRefused, TurnBroken: by the order that held over every kind of failure that was tried.
    """
    if not result.is_error:
        return
    detail = " ".join([*(result.errors or []), result.result or ""]).strip()
    if (result.terminal_reason or "").startswith("aborted"):
        raise TurnBroken("The agent was interrupted: the turn is tried again.", spend)
    if result.subtype in _PERMANENT_LIMITS:
        raise TurnRefused(_PERMANENT_LIMITS[result.subtype], spend)
    _raise_if_unknown(detail)
    reason = (last.error if last else None) or ""
    if reason in _REASONS:
        raise TurnRefused(_REASONS[reason], spend)
    if _may_pass(result.api_error_status, reason):
        status = f" (HTTP {result.api_error_status})" if result.api_error_status else ""
        raise TurnBroken(f"The model's API did not answer{status}: the turn is tried again.", spend, retry_after=retry_after)
    raise TurnRefused(f"The model's API refused the turn: {detail or reason or result.subtype}", spend)


def _may_pass(status: int | None, reason: str) -> bool:
    if status is not None:
        return status in _TRANSIENT_STATUS or status >= 500
    return reason in {"server_error", "rate_limit", "overloaded"}


def failure_of(error: Exception, stderr: Iterable[str], spend: Spend) -> Exception:
    """What an exception of the SDK means; one that is not the SDK's comes back as it is.

    Args:
        error: what was raised while the CLI was started, written to or read from.
        stderr: the CLI's last lines, often the only cause that is told.
        spend: what the turn has used.
    """
    detail = " ".join([str(error), *stderr])
    if isinstance(error, ProcessError | ResultError) and "No conversation found" in detail:
        return SessionUnknown()
    if isinstance(error, ProcessError):
        code = error.exit_code or 0
        if code < 0 or code in {137, 143}:
            return TurnBroken(f"The agent's process was killed (exit code {code}): the turn is tried again.", spend)
        return TurnRefused(f"The agent's process failed; check its settings. It said: {detail}", spend)
    if isinstance(error, CLIConnectionError) and re.search(r"rite to|not ready|Not connected", str(error)):
        return TurnBroken("The agent's process ended in mid-turn: the turn is tried again.", spend)
    if isinstance(error, ClaudeSDKError):
        return TurnRefused(f"The agent could not be run; check its settings. It said: {detail}", spend)
    if "SessionStore." in str(error):
        return TurnBroken("The agent's earlier session could not be loaded: the turn is tried again.", spend)
    if type(error) is Exception:  # how the SDK tells that its own conversation with the CLI broke
        return TurnBroken(f"The agent's process did not keep its protocol: {detail}", spend)
    return error


def redacted(text: str, secrets: Iterable[str]) -> str:
    """`text` without the given secrets and without what looks like a key, at most 2,000 characters of it."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "…")
    return _SECRETS.sub("…", text)[-2000:]


def _raise_if_unknown(detail: str) -> None:
    if "No conversation found" in detail:
        raise SessionUnknown
