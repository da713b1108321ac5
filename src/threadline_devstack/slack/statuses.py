"""What the bot says it is doing, thread by thread: https://docs.slack.dev/reference/methods/assistant.threads.setStatus."""

from collections.abc import Callable
from dataclasses import dataclass

from threadline_devstack.slack.model import Json

KEPT = 120.0
"""Seconds after which Slack takes a status away that nothing has followed."""


@dataclass(frozen=True)
class _Status:
    words: str
    until: float


class Statuses:
    """Args: `clock` gives seconds since 1970."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, str], _Status] = {}

    def set(self, channel: str, thread_ts: str, words: str) -> Json:
        """Show these words under a thread, or none any more; returns what the page is told."""
        if words:
            self._kept[channel, thread_ts] = _Status(words, self._clock() + KEPT)
        else:
            self._kept.pop((channel, thread_ts), None)
        return self._told(channel, thread_ts)

    def of(self, channel: str, thread_ts: str) -> str:
        """The words under a thread, empty for none."""
        status = self._kept.get((channel, thread_ts))
        return status.words if status and self._clock() < status.until else ""

    def all(self) -> list[Json]:
        return [self._told(*place) for place in self._kept if self.of(*place)]

    def _told(self, channel: str, thread_ts: str) -> Json:
        """No event of Slack's: it shows the status by itself, and tells nobody."""
        shown = {"channel": channel, "thread_ts": thread_ts, "status": self.of(channel, thread_ts)}
        return {"type": "status", **shown, "seconds": KEPT, "event_ts": f"{self._clock():.6f}"}
