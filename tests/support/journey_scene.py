"""JourneyScene: people's actions beside a running stack whose sandboxes can be made to fail, for
tests of the product.
"""

from tests.support.faulty_sandboxes import FaultySlack
from threadline_devstack.slack.identity import REPORTS, SUMMARIES
from threadline_devstack.slack.model import Json
from threadline_devstack.stories.scene import Scene


class JourneyScene(Scene):
    """One bug case, and conversations. Tests that order faults start the stack with
    `FaultySlack`.
    """

    slack: FaultySlack

    @property
    def agent_hold(self) -> str:
        """The point at which the agent waits before it looks into the case."""
        return f"investigating:{self.bug_id}"

    async def reply(self, user: str, text: str) -> str:
        """Post in the report's thread."""
        return self.slack.say(user, REPORTS, text, thread=self.report)

    async def discuss(self, user: str, text: str) -> str:
        """Post in the case's summary thread."""
        return self.slack.say(user, SUMMARIES, text, thread=self.summary)

    async def until_bot_says(self, *words: str, channel: str = REPORTS, after: str = "") -> Json:
        """Wait for a post in the report's thread, or in the summary thread."""
        await self._listen()
        if channel == SUMMARIES and not self.summary:
            await self.until("the case has a summary", self._has_summary)
        return await self.until_post(
            channel, self.report if channel == REPORTS else self.summary, words, after
        )

    def thread(self, channel: str = REPORTS) -> list[Json]:
        """Return the root and the replies of the report's thread, or of the summary thread; empty
        before it exists.
        """
        root = self.report if channel == REPORTS else self.summary
        return self.slack.thread(channel, root) if root else []

    async def _has_summary(self) -> bool:
        return bool(self.summary)

    async def until_answer(self, root: str, *words: str, after: str = "") -> Json:
        """Wait for a post of the bot in a conversation."""
        return await self.until_post(self.channel, root, words, after)
