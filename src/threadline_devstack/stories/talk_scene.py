"""Threads in which people speak to the bot, as they live them in the Slack sandbox."""

from typing import Any

from threadline.conversations.model.conversation import conversation_workflow_id
from threadline.slack.model import Thread
from threadline_devstack.clients import Json
from threadline_devstack.slack.identity import BOT_USER, GENERAL, TEAM
from threadline_devstack.stack import Stack
from threadline_devstack.stories.scene import Hear, Watching, holds, is_by_bot, workflow_url

_HOLD = "conversing"
"""Where the scripted model's replies over OpenAI's wires stop while it is armed."""


class TalkScene(Watching):
    """Conversations in one channel; each thread is told by the `ts` of its root."""

    def __init__(self, stack: Stack, hear: Hear = lambda message: None, channel: str = GENERAL) -> None:
        super().__init__(stack, hear)
        self.channel = channel
        self._roots: list[str] = []

    async def mention(self, user: str, text: str, **more: Any) -> str:
        """Somebody speaks to the bot in a thread of its own; returns its root. `more`: as for `SlackControl.say`."""
        root = await self.slack.say(user, self.channel, f"<@{BOT_USER}> {text}", **more)
        self._roots.append(root)
        return root

    async def reply(self, user: str, root: str, text: str) -> str:
        return await self.slack.say(user, self.channel, text, thread=root)

    async def hold_model(self) -> None:
        """From now on the model waits before it answers, until `release_model`."""
        await self.model.arm(_HOLD)

    async def model_waits(self) -> None:
        await self.until("the model is asked", lambda: self.model.waiting(_HOLD))

    async def release_model(self) -> None:
        await self.model.release(_HOLD)

    async def until_bot_says(self, root: str, *words: str, after: str = "") -> Json:
        """A post of the bot's in a thread that holds all the words, whatever their case."""

        async def look() -> Json | None:
            said = (message for message in await self.answers(root) if message["ts"] > after)
            return next((message for message in said if holds(message, words)), None)

        return await self.until(f"the bot says {' … '.join(words) or 'something'}", look)

    async def answers(self, root: str) -> list[Json]:
        """What the bot has said in a thread, oldest first."""
        return [message for message in await self.slack.thread(self.channel, root) if is_by_bot(message)]

    async def has_reaction(self, ts: str, name: str) -> bool:
        shown = next(message for message in await self.slack.messages(self.channel) if message["ts"] == ts)
        return any(reaction["name"] == name for reaction in shown.get("reactions", []))

    def workflow_url(self, root: str) -> str:
        return workflow_url(self.stack, conversation_workflow_id(Thread(TEAM, self.channel, root)))

    async def places(self) -> list[tuple[str, str]]:
        return [(self.channel, root) for root in self._roots]
