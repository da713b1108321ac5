"""The people of a run: they write in the sandbox what the plan says; what they wrote is remembered for the oracle."""

import asyncio
from dataclasses import dataclass, field

from tests.chaos.plan import Act, Deed, Plan, Story, dice_of
from threadline.devstack.controls import until
from threadline.devstack.slack_sandbox import SlackSandbox, identity
from threadline.devstack.slack_sandbox.records import Message
from threadline.domain import addressing, messages

CLEAR = "The cart total is too high with the discount code SAVE10 and twelve notebooks."
VAGUE = "Something is broken again."
PATIENCE = 4.0
"""Seconds for which a developer waits for a summary thread to answer in."""


@dataclass(frozen=True)
class Written:
    """What must be stored: under which id, as what, in which report's thread, and how it reads now."""

    id: str
    kind: str
    root: str
    text: str


@dataclass
class Tale:
    """A story as it went: the root of its thread, and who meddled."""

    story: Story
    root: Message
    meddled: list[str] = field(default_factory=list)
    told: list[Message] = field(default_factory=list)
    """What its reporter and the developers wrote and may still edit."""


class People:
    """Args: `plan` says what they do; it begins when `play` is called."""

    def __init__(self, plan: Plan, slack: SlackSandbox) -> None:
        self._plan, self._workspace = plan, slack.workspace
        self.tales: list[Tale] = []
        self.written: dict[str, Written] = {}

    async def play(self) -> None:
        """Returns when everybody has said what they had to say."""
        async with asyncio.TaskGroup() as together:
            for story in self._plan.stories:
                together.create_task(self._tell(story))

    def poke(self, root: str) -> None:
        """The reporter writes once more, as they would when nothing happens."""
        tale = next(tale for tale in self.tales if tale.root.ts == root)
        word = f"w{tale.story.number:02d}p{len(tale.told):02d}"
        self._reply(tale, identity.REPORTER, f"Is anybody there? {word}")

    async def _tell(self, story: Story) -> None:
        await asyncio.sleep(story.begins)
        text = f"{VAGUE if story.vague else CLEAR} {story.word}"
        root = self._workspace.post(identity.REPORTS, identity.REPORTER, text)
        tale = Tale(story, root)
        self.tales.append(tale)
        self._remember(tale, root, messages.REPORT)
        tale.told.append(root)
        for act in story.acts:
            await asyncio.sleep(act.after)
            await self._do(tale, act)

    async def _do(self, tale: Tale, act: Act) -> None:
        match act.deed:
            case Deed.SAYS:
                self._reply(tale, identity.REPORTER, f"It is the cart total, {act.word}.")
            case Deed.MENTIONS:
                self._reply(tale, identity.REPORTER, f"<@{identity.BOT_USER}> the discount code, {act.word}")
            case Deed.CLOSES:
                self._remember(tale, self._post(tale, identity.REPORTER, "never mind"), messages.CLOSE)
            case Deed.EDITS:
                self._edit(tale, act)
            case Deed.ANSWERS:
                await self._answer(tale, act)
            case Deed.MEDDLES:
                tale.meddled.append(self._post(tale, identity.BYSTANDER, f"Same here, {act.word}.").ts)

    def _reply(self, tale: Tale, user: str, text: str) -> None:
        message = self._post(tale, user, text)
        self._remember(tale, message, messages.MESSAGE)
        tale.told.append(message)

    def _post(self, tale: Tale, user: str, text: str) -> Message:
        return self._workspace.post(identity.REPORTS, user, text, thread_ts=tale.root.ts)

    def _edit(self, tale: Tale, act: Act) -> None:
        """Somebody corrects what they said; what was stored before reads anew."""
        original = dice_of(f"{self._plan.seed}:{act.word}").choice(tale.told)
        text = f"{original.text} (that is, {act.word})"
        edited = self._workspace.edit(original.channel, original.ts, text, by=original.user)
        identity_ = addressing.edit_id(identity.TEAM, edited.channel, edited.ts, edited.edited_ts)
        self.written[identity_] = Written(identity_, messages.EDIT, tale.root.ts, text)
        first = self.written[addressing.message_id(identity.TEAM, edited.channel, edited.ts)]
        self.written[first.id] = Written(first.id, first.kind, first.root, text)

    async def _answer(self, tale: Tale, act: Act) -> None:
        async for _ in until(PATIENCE, every=0.2):
            if summary := self.summary_of(tale.root):
                break
        else:
            return  # nothing was found yet: there is no thread to answer in
        message = self._workspace.post(
            identity.SUMMARIES, identity.DEVELOPER, f"Could it be the quantity, {act.word}?", thread_ts=summary.ts
        )
        self._remember(tale, message, messages.MESSAGE)
        tale.told.append(message)

    def bug_id(self, root: Message) -> str:
        """The case's number, as the bot's own posts in the report's thread tell it; empty before the first."""
        keys = (_key(message) for message in root.replies)
        return next((key.partition(":")[0] for key in keys if key), "")

    def summary_of(self, root: Message) -> Message | None:
        bug_id = self.bug_id(root)
        places = self._workspace.channel(identity.SUMMARIES).messages.values()
        return next((message for message in places if bug_id and _key(message) == f"{bug_id}:summary"), None)

    def _remember(self, tale: Tale, message: Message, kind: str) -> None:
        identity_ = addressing.message_id(identity.TEAM, message.channel, message.ts)
        self.written[identity_] = Written(identity_, kind, tale.root.ts, message.text)


def _key(message: Message) -> str:
    return str(message.metadata["event_payload"]["key"]) if message.metadata else ""
