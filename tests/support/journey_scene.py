"""JourneyScene: what people do beside a running stack whose sandboxes can be told to fail, for tests of the product."""

from tests.support.faulty_sandboxes import FaultySlack
from threadline_devstack.slack.identity import REPORTS, SUMMARIES
from threadline_devstack.slack.model import Json
from threadline_devstack.stories.scene import Scene


class JourneyScene(Scene):
    """One bug case, and conversations. The stack is started with `FaultySlack` where a test orders faults."""

    slack: FaultySlack

    @property
    def agent_hold(self) -> str:
        """Where the agent waits before it looks into the case."""
        return f"investigating:{self.bug_id}"

    async def reply(self, user: str, text: str) -> str:
        """Somebody writes in the report's thread."""
        return self.slack.say(user, REPORTS, text, thread=self.report)

    async def discuss(self, user: str, text: str) -> str:
        """Somebody writes in the case's summary thread."""
        return self.slack.say(user, SUMMARIES, text, thread=self.summary)

    async def until_bot_says(self, *words: str, channel: str = REPORTS, after: str = "") -> Json:
        """A post in the report's thread, or in that of the summary."""
        await self._listen()
        if channel == SUMMARIES and not self.summary:
            await self.until("the case has a summary", self._has_summary)
        return await self.until_post(channel, self.report if channel == REPORTS else self.summary, words, after)

    def thread(self, channel: str = REPORTS) -> list[Json]:
        """The root and its replies of the report's thread, or of the summary thread; empty before it exists."""
        root = self.report if channel == REPORTS else self.summary
        return self.slack.thread(channel, root) if root else []

    async def _has_summary(self) -> bool:
        return bool(self.summary)

    async def until_answer(self, root: str, *words: str, after: str = "") -> Json:
        """A post of the bot's in a conversation."""
        return await self.until_post(self.channel, root, words, after)
