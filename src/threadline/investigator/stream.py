"""Observes a turn while it streams: signs of life, usage, the messages that were read, and the
result. Classifies failures of the Claude Agent SDK: another attempt may help, or it cannot.
"""

import re
import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeSDKError,
    CLIConnectionError,
    CLINotFoundError,
    Message,
    ModelUsage,
    ProcessError,
    ResultMessage,
    SystemMessage,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from threadline.errors import INVESTIGATION, Mendable, Permanent, Transient
from threadline.investigator.fences import MessagePart, parts_in
from threadline.models.prices import PriceList

READING_TOOL = "mcp__bug__get_bug_conversations"
_KEYS = re.compile(r"sk-[\w-]{8,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|(?i:(?<=bearer )\S+)")
_STDERR_LINES = 20
_LONGEST_DETAIL = 2000
_TRANSIENT_STATUS = frozenset({408, 409, 429})
_TRANSIENT_REASONS = frozenset({"server_error", "rate_limit", "overloaded"})
_KILLED = frozenset({137, 143})
_LIMITS = {
    "error_max_turns": (
        "The agent used up its steps for one turn: look at the case, or raise the limit of steps."
    ),
    "error_max_budget_usd": (
        "The agent used up its budget for one turn: look at the case, or raise the budget."
    ),
    "error_max_structured_output_retries": (
        "The agent did not answer in the required form: look at the case yourself."
    ),
}
_KEY_REFUSED = (
    "model key",
    "The model's API refused the key: check the API key and what it may use.",
)
_NO_CREDIT = (
    "model credit",
    "The model's API refused the request because of billing: check the account.",
)
_MENDABLE = {
    "authentication_failed": _KEY_REFUSED,
    "oauth_org_not_allowed": _KEY_REFUSED,
    "model_not_found": ("model name", "The model's API does not know the model: check its name."),
    "billing_error": _NO_CREDIT,
}
"""Kinds of API errors that the admin can mend: the fault's subject, and advice to the admin."""
_MENDABLE_STATUS = {401: _KEY_REFUSED, 402: _NO_CREDIT, 403: _KEY_REFUSED}
_NO_CREDIT_WORDS = re.compile(
    r"credit balance is too low|insufficient (?:credit|quota)", re.IGNORECASE
)
_CLAUDE = re.compile(r"(?:^|[./])claude-(?:\d|opus|sonnet|haiku)")
"""Names of the models whose prices the CLI knows, also as Bedrock and Vertex write them."""
_log = structlog.get_logger(__name__)
_TOO_LONG = "The model's answer exceeded its length limit: look at the case yourself."


@dataclass
class SessionUsage:
    """The usage of an attempt, counted while it runs, so that it is known however the attempt
    ends.

    Tokens that were read from or written to a cache count as input. `cost_usd` counts for the
    budgets. Where a model's price is unknown, it is the CLI's estimate by another model's price,
    and `cost_known` is false.
    """

    cost_usd: float = 0.0
    cost_known: bool = True
    input_tokens: int = 0
    output_tokens: int = 0


class ReadTracker:
    """The messages of the case that the model has certainly read through its tool.

    It has replied again after the tool's result. The reply that called the tool does not count: it
    may hold the call and the turn's answer at once, and then the model never reads the result.
    """

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._waiting: list[tuple[str, MessagePart]] = []
        self._seen: defaultdict[tuple[int, int], set[int]] = defaultdict(set)

    @property
    def read(self) -> frozenset[int]:
        """The `seq` of each message whose parts were all read."""
        return frozenset(
            seq for (seq, count), indexes in self._seen.items() if len(indexes) == count
        )

    def observe(self, message: Message) -> None:
        if isinstance(message, AssistantMessage):
            self._reply(message)
        elif isinstance(message, UserMessage) and isinstance(message.content, list):
            for block in message.content:
                if (
                    isinstance(block, ToolResultBlock)
                    and block.tool_use_id in self._calls
                    and not block.is_error
                ):
                    reply = self._calls[block.tool_use_id]
                    self._waiting += [(reply, part) for part in parts_in(_text(block))]

    def _reply(self, message: AssistantMessage) -> None:
        if not _is_from_a_model(message) or message.message_id is None:
            return
        still_waiting = []
        for reply, part in self._waiting:
            if reply == message.message_id:  # a further block of the reply that made the call
                still_waiting.append((reply, part))
            else:
                self._seen[part.seq, part.count].add(part.index)
        self._waiting = still_waiting
        for block in message.content:
            if isinstance(block, ToolUseBlock) and block.name == READING_TOOL:
                self._calls[block.id] = message.message_id


class TurnMonitor:
    """Observes every message of one CLI process.

    Args:
        secrets: Texts that must not appear in any error.
        usage: Counts the usage of the process.
        prices: Prices that take precedence over the CLI's own.
    """

    def __init__(
        self, secrets: Collection[str], usage: SessionUsage, prices: PriceList | None = None
    ) -> None:
        self._secrets = [secret for secret in secrets if secret]
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self.tracker = ReadTracker()
        self._usage = usage
        self._prices = prices or PriceList()
        self._cost_before = usage.cost_usd
        self.last_sign = time.monotonic()
        self.last_error = ""
        """Kind of the last reply's API error, which the result itself lacks; empty after a good
        reply.
        """
        self.replied = False
        """Whether the model has given a reply, or a part of one."""
        self.retry_after: float | None = None
        """Seconds that the CLI planned to wait when it last retried a request by itself."""

    def observe(self, message: Message) -> None:
        self.last_sign = time.monotonic()
        self.tracker.observe(message)
        if isinstance(message, AssistantMessage):
            self.last_error = message.error or ""
            self.replied |= _is_from_a_model(message)
        elif isinstance(message, ResultMessage):
            self._count(message)
        elif isinstance(message, SystemMessage) and message.subtype == "api_retry":
            delay = message.data.get("retry_delay_ms")
            self.retry_after = delay / 1000 if isinstance(delay, int | float) else None

    def _count(self, result: ResultMessage) -> None:
        """Add a result: its cost counts from the process's start, its tokens do not."""
        tokens = result.usage or {}
        inputs = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        costs = [self._cost(model, used) for model, used in (result.model_usage or {}).items()]
        total = sum(costs) if costs else result.total_cost_usd
        if total:
            self._usage.cost_usd = self._cost_before + total
        self._usage.input_tokens += sum(int(tokens.get(name) or 0) for name in inputs)
        self._usage.output_tokens += int(tokens.get("output_tokens") or 0)

    def _cost(self, model: str, used: ModelUsage) -> float:
        """Return the cost of a model since the process's start.

        For an unknown model, the CLI uses the price of another one.
        """
        if price := self._prices.find(model):
            cached = used["cacheReadInputTokens"]
            fresh = used["inputTokens"] + used["cacheCreationInputTokens"]
            return price.of(fresh + cached, cached, used["outputTokens"])
        self._usage.cost_known &= _CLAUDE.search(model) is not None
        return used["costUSD"]

    def stderr(self, line: str) -> None:
        """Keep one line of the CLI's standard error, the only trace of some failures."""
        self._stderr.append(line[:500])

    def log_failure(self, event: str, text: str, **fields: object) -> None:
        """Log a failure with the CLI's last lines.

        They are for the admin alone: they hold paths, settings, and sentences for the model.
        """
        _log.warning(event, detail=self.detail(text), **fields)

    def detail(self, text: str) -> str:
        """Return `text` and the CLI's last lines, shortened and without secrets or their
        look-alikes.
        """
        told = " ".join([text, *self._stderr]).strip()
        for secret in self._secrets:
            told = told.replace(secret, "…")
        return _KEYS.sub("…", told)[:_LONGEST_DETAIL]


def _text(block: ToolResultBlock) -> str:
    if isinstance(block.content, list):
        return "\n".join(str(item.get("text", "")) for item in block.content)
    return block.content or ""


def _is_from_a_model(message: AssistantMessage) -> bool:
    """Return whether a model wrote the message, and not the CLI itself."""
    return message.error is None and message.message_id is not None


class SessionNotFound(Exception):
    """The session to resume is not in the store: only a new one can be started."""


class SessionRefused(Exception):
    """A resumed session was refused before its first reply, possibly for its transcript.

    Every later turn that resumes it would be refused, too.
    """


@contextmanager
def refusals_of_resumed(monitor: TurnMonitor, parent: str | None) -> Iterator[None]:
    """Wrap the start and the questions of a session.

    A `Permanent` inside becomes `SessionRefused` when the session resumes `parent` and the model
    has not replied.
    """
    try:
        yield
    except Permanent as refusal:
        if parent is None or monitor.replied:
            raise
        raise SessionRefused(str(refusal)) from refusal


def raise_for_result(result: ResultMessage, monitor: TurnMonitor) -> None:
    """Raise `SessionNotFound`, `Permanent` or `Transient` when `result` is a failure.

    The order of the tests held over every kind of failure that was provoked. A result without
    structured output is no failure here: the model is asked once more. `subtype` alone is not
    enough, since a failed API call ends as `success`, too.
    """
    if not result.is_error:
        return
    if (result.terminal_reason or "").startswith("aborted"):
        raise Transient("The agent was interrupted: the turn is tried again.")
    if result.subtype in _LIMITS:
        raise Permanent(_LIMITS[result.subtype])
    said = " ".join([*(result.errors or []), result.result or ""]).strip()
    if _is_unknown_session(said):
        raise SessionNotFound
    refusal = _mendable(result.api_error_status, monitor.last_error, said)
    if refusal:
        subject, advice = refusal
        raise Mendable(advice, kind=INVESTIGATION, subject=subject)
    if monitor.last_error == "max_output_tokens":
        raise Permanent(_TOO_LONG)
    if _is_transient(result.api_error_status, monitor.last_error):
        status = f" (HTTP {result.api_error_status})" if result.api_error_status else ""
        raise Transient(
            f"The model's API did not answer{status}: the turn is tried again.",
            retry_after=monitor.retry_after,
        )
    monitor.log_failure(
        "model_refused_turn", said or result.subtype, status=result.api_error_status
    )
    raise Permanent("The model's API refused the turn. The worker's log has its reason.")


def _mendable(status: int | None, reason: str, said: str) -> tuple[str, str] | None:
    if _NO_CREDIT_WORDS.search(said):
        return _NO_CREDIT
    return _MENDABLE.get(reason) or _MENDABLE_STATUS.get(status or 0)


def classify(error: Exception, monitor: TurnMonitor) -> Exception | None:
    """Classify an exception from starting the CLI, writing to it or reading from it as
    `Permanent`, `Transient` or `SessionNotFound`; None when it is not the SDK's.
    """
    if isinstance(error, ProcessError):
        code = error.exit_code or 0
        if _is_unknown_session(monitor.detail(str(error))):
            return SessionNotFound()
        monitor.log_failure("agent_process_failed", str(error), code=code)
        if code < 0 or code in _KILLED:
            return Transient(
                f"The agent's process was killed (exit code {code}): the turn is tried again."
            )
        return Permanent(
            f"The agent's process failed (exit code {code}). The worker's log has its last output."
        )
    if isinstance(error, CLIConnectionError) and re.search(
        r"[Ww]rite to|not ready|Not connected", str(error)
    ):
        return Transient("The agent's process ended in mid-turn: the turn is tried again.")
    if isinstance(error, ClaudeSDKError):
        return _unusable_cli(error, monitor)
    if isinstance(error, RuntimeError) and "SessionStore." in str(error):
        return Transient(
            "The agent's earlier session could not be loaded: the turn is tried again."
        )
    if type(error) is Exception:  # the SDK's error when its own protocol with the CLI breaks
        monitor.log_failure("agent_broke_protocol", str(error))
        return Transient("The agent's process broke its protocol: the turn is tried again.")
    return None


def _unusable_cli(error: ClaudeSDKError, monitor: TurnMonitor) -> Permanent:
    if isinstance(error, CLINotFoundError):
        said = (
            "The agent's CLI is missing: install claude-agent-sdk from a wheel for this platform."
        )
        return Mendable(said, kind=INVESTIGATION, subject="cli")
    monitor.log_failure("agent_not_run", str(error))
    # A connection error has the SDK's own words about the start; other errors quote the CLI.
    if isinstance(error, CLIConnectionError):
        return Permanent(f"The agent could not be run: {error}")
    return Permanent("The agent could not be run. The worker's log has the reason.")


def _is_transient(status: int | None, reason: str) -> bool:
    if status is not None:
        return status in _TRANSIENT_STATUS or status >= 500
    return reason in _TRANSIENT_REASONS


def _is_unknown_session(text: str) -> bool:
    return "No conversation found" in text
