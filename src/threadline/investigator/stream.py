"""What is noted while a turn streams: signs of life, what was read, what was spent, and why it may have failed."""

import re
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from claude_agent_sdk import AssistantMessage, Message, ResultMessage, SystemMessage

from threadline.investigator.read_tracker import ReadThrough

_KEYS = re.compile(r"sk-[\w-]{8,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|(?i:(?<=bearer )\S+)")
_STDERR_LINES = 20
_LONGEST_DETAIL = 2000


@dataclass
class SessionUsage:
    """What an attempt has used, counted while it runs: so it is known however the attempt ends.

    Tokens that were read from or written to a cache count as input.
    """

    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


class Watch:
    """Sees every message of one turn.

    Args of the constructor:
        pulse: called at each message, so that whoever runs the turn can tell a silent one.
        secrets: what must not appear in any error text.
        usage: what the process uses is added to it.
    """

    def __init__(self, pulse: Callable[[], None], secrets: Collection[str], usage: SessionUsage) -> None:
        self._pulse = pulse
        self._secrets = [secret for secret in secrets if secret]
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._reading = ReadThrough()
        self._usage = usage
        self._cost_before = usage.cost_usd
        self.last_sign = time.monotonic()
        self.last_error = ""
        """The kind of API error of the last reply, which the result itself does not tell; empty after a good reply."""
        self.retry_after: float | None = None
        """Seconds for which the CLI meant to wait when it last retried a request by itself."""

    @property
    def read(self) -> frozenset[int]:
        return self._reading.read

    def see(self, message: Message) -> None:
        self.last_sign = time.monotonic()
        self._pulse()
        self._reading.see(message)
        if isinstance(message, AssistantMessage):
            self.last_error = message.error or ""
        elif isinstance(message, ResultMessage):
            self._count(message)
        elif isinstance(message, SystemMessage) and message.subtype == "api_retry":
            delay = message.data.get("retry_delay_ms")
            self.retry_after = delay / 1000 if isinstance(delay, int | float) else None

    def _count(self, result: ResultMessage) -> None:
        """Add a result: its cost counts from the process's start, its tokens do not."""
        tokens = result.usage or {}
        inputs = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        if result.total_cost_usd:
            self._usage.cost_usd = self._cost_before + result.total_cost_usd
        self._usage.input_tokens += sum(int(tokens.get(name) or 0) for name in inputs)
        self._usage.output_tokens += int(tokens.get("output_tokens") or 0)

    def stderr(self, line: str) -> None:
        """Keep one line that the CLI wrote; some of its failures are told nowhere else."""
        self._stderr.append(line[:500])

    def detail(self, text: str) -> str:
        """`text` and the CLI's last lines, cut, and without anything that is or looks like a secret."""
        told = " ".join([text, *self._stderr]).strip()
        for secret in self._secrets:
            told = told.replace(secret, "…")
        return _KEYS.sub("…", told)[:_LONGEST_DETAIL]
