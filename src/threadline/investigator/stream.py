"""What is noted while a turn streams: signs of life, usage, the messages that were read, and reasons of a failure."""

import re
import time
from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass

from claude_agent_sdk import (
    AssistantMessage,
    Message,
    ResultMessage,
    SystemMessage,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from threadline.investigator.fences import Part, parts_in

READING_TOOL = "mcp__bug__get_bug_conversations"
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


class ReadTracker:
    """Which messages of the case the model has certainly read through its tool.

    A tool's result counts as read only when the model has replied again after it. The reply that called the tool does
    not count: it may hold the call and the turn's answer at once, and then the result reaches nobody.
    """

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._waiting: list[tuple[str, Part]] = []
        self._seen: defaultdict[tuple[int, int], set[int]] = defaultdict(set)

    @property
    def read(self) -> frozenset[int]:
        """The `seq` of each message of which every part was read."""
        return frozenset(seq for (seq, count), indexes in self._seen.items() if len(indexes) == count)

    def observe(self, message: Message) -> None:
        """Take in the next message of the stream."""
        if isinstance(message, AssistantMessage):
            self._reply(message)
        elif isinstance(message, UserMessage) and isinstance(message.content, list):
            for block in message.content:
                if isinstance(block, ToolResultBlock) and block.tool_use_id in self._calls and not block.is_error:
                    reply = self._calls[block.tool_use_id]
                    self._waiting += [(reply, part) for part in parts_in(_text(block))]

    def _reply(self, message: AssistantMessage) -> None:
        if message.error is not None or message.message_id is None:  # made up by the CLI, not by a model
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
        secrets: what must not appear in any error text.
        usage: what the process uses is added to it.
    """

    def __init__(self, secrets: Collection[str], usage: SessionUsage) -> None:
        self._secrets = [secret for secret in secrets if secret]
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._tracker = ReadTracker()
        self._usage = usage
        self._cost_before = usage.cost_usd
        self.last_sign = time.monotonic()
        self.last_error = ""
        """The kind of API error of the last reply, which the result itself does not tell; empty after a good reply."""
        self.retry_after: float | None = None
        """Seconds for which the CLI meant to wait when it last retried a request by itself."""

    @property
    def read(self) -> frozenset[int]:
        return self._tracker.read

    def observe(self, message: Message) -> None:
        self.last_sign = time.monotonic()
        self._tracker.observe(message)
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
        """Keep one line of the CLI's standard error: some failures are told nowhere else."""
        self._stderr.append(line[:500])

    def detail(self, text: str) -> str:
        """`text` and the CLI's last lines, shortened and without anything that is or looks like a secret."""
        told = " ".join([text, *self._stderr]).strip()
        for secret in self._secrets:
            told = told.replace(secret, "…")
        return _KEYS.sub("…", told)[:_LONGEST_DETAIL]


def _text(block: ToolResultBlock) -> str:
    if isinstance(block.content, list):
        return "\n".join(str(item.get("text", "")) for item in block.content)
    return block.content or ""
