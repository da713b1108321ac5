"""The few words that Slack shows under a thread while the bot works: cosmetic, and at most one call at a time."""

import asyncio
import re

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from threadline.conversations.contract import SpeakingActivities, Status
    from threadline.slack.model import Thread

from threadline.threads.calls import attempt

_LONGEST = 60
"""Characters of a tool's name: it is the model's word, which may be anything."""


class StatusLine:
    """What is to be shown is brought up to date by one task; words that were overtaken meanwhile are never sent."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._wanted = self._shown = ""
        self._refused = False
        self._showing: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        return self._showing is None or self._showing.done()

    def show(self, words: str) -> None:
        """Show something else; with no words, with which a turn ends, nothing any more."""
        self._wanted = words
        if self.idle and self._due:
            self._showing = asyncio.create_task(self._bring_up_to_date())

    def posted(self) -> None:
        """Something was posted, with which Slack takes the words away, unless they arrive after it."""
        if self.idle and not self._refused:
            self._wanted = self._shown = ""
        else:
            self.show("")

    @property
    def _due(self) -> bool:
        """Once Slack has refused, only the clearing is tried: what timed out may be shown all the same."""
        return self._wanted != self._shown and not (self._refused and self._wanted)

    async def _bring_up_to_date(self) -> None:
        while self._due:
            self._shown = self._wanted
            status = Status(self._thread, self._shown)
            trouble = await attempt(SpeakingActivities.show_status, status, summary=f"status: {self._shown or 'none'}")
            self._refused = bool(trouble and self._shown)


def in_words(tool: str) -> str:
    """A tool's name as people would put it: `estimates.getProjectDetails` → `get project details`."""
    name = tool[:_LONGEST].rpartition(".")[2]
    return " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name).lower().split()) or "a tool"
