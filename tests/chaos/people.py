"""The people of a run: they write in the sandbox what the plan says; what they wrote is remembered for the oracle."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.chaos.plan import Act, Deed, Plan, Story, dice_of
from threadline.threads import addressing, messages
from threadline_devstack.clients import until
from threadline_devstack.slack import SlackSandbox, identity
from threadline_devstack.slack.model import Message

CLEAR = "The cart total is too high with the discount code SAVE10 and twelve notebooks."
VAGUE = "Something is broken again."
_SAYINGS = {
    Deed.SAYS: "It is the cart total, {}.",
    Deed.BURSTS: "It is also this, {}.",
    Deed.MENTIONS: f"<@{identity.BOT_USER}> the discount code, {{}}",
    Deed.ANSWERS: "Could it be the quantity, {}?",
    Deed.ASKS_FIX: "Please fix it, {}.",
}
BURST = 5
PATIENCE = 4.0
"""Seconds for which a developer waits for a summary thread to answer in."""
INSISTENCE = 20.0
"""The same for one who wants a fix: the real agent's first findings take that long."""


@dataclass(frozen=True)
class Written:
    """What must be stored: under which id, as what, in which report's thread, and how it reads now.

    `event` is the channel and the moment by which Slack's delivery of it is known, `original` what it corrects;
    `gone`: its author deleted it, and no word of it may be left.
    """

    id: str
    kind: str
    root: str
    text: str
    event: tuple[str, str] = ("", "")
    original: str = ""
    gone: bool = False


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
        self.attached: dict[str, bool] = {}
        """Files by id, with whether their message is still there."""

    async def play(self) -> None:
        """Returns when everybody has said what they had to say."""
        async with asyncio.TaskGroup() as together:
            for story in self._plan.stories:
                together.create_task(self._tell(story))

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
            case Deed.ANSWERS | Deed.ASKS_FIX:
                patience = PATIENCE if act.deed is Deed.ANSWERS else INSISTENCE
                await self._answer(tale, _SAYINGS[act.deed].format(act.word), patience)
            case Deed.ATTACHES:
                self._attach(tale, act)
            case Deed.EDITS:
                self._edit(tale, act)
            case Deed.DELETES:
                self._delete(tale, act)
            case Deed.CLOSES:
                self._remember(tale, self._post(tale, identity.REPORTER, "never mind"), messages.CLOSE)
            case Deed.MEDDLES:
                tale.meddled.append(self._post(tale, identity.BYSTANDER, f"Same here, {act.word}.").ts)
            case _:
                words = [f"{act.word}{number}" for number in range(BURST)] if act.deed is Deed.BURSTS else [act.word]
                for word in words:
                    self._reply(tale, identity.REPORTER, _SAYINGS[act.deed].format(word))

    def _reply(self, tale: Tale, user: str, text: str, files: Sequence[str] = ()) -> None:
        message = self._post(tale, user, text, files)
        self._remember(tale, message, messages.MESSAGE)
        tale.told.append(message)

    def _attach(self, tale: Tale, act: Act) -> None:
        file = self._workspace.add_file(f"{act.word}.txt", identity.REPORTER, f"What I saw, {act.word}.".encode())
        self.attached[file.id] = True
        self._reply(tale, identity.REPORTER, f"Here is the log, {act.word}.", [file.id])

    def _post(self, tale: Tale, user: str, text: str, files: Sequence[str] = ()) -> Message:
        return self._workspace.post(identity.REPORTS, user, text, thread_ts=tale.root.ts, files=files)

    def _edit(self, tale: Tale, act: Act) -> None:
        """Somebody corrects what they said; what was stored before reads anew."""
        original = dice_of(f"{self._plan.seed}:{act.word}").choice(tale.told)
        text = f"{original.text} (that is, {act.word})"
        edited = self._workspace.edit(original.channel, original.ts, text, by=original.user)
        identity_ = addressing.edit_id(identity.TEAM, edited.channel, edited.ts, edited.edited_ts)
        first = self.written[id_of(edited)]
        event = (edited.channel, edited.edited_ts)
        self.written[identity_] = Written(identity_, messages.EDIT, tale.root.ts, text, event, first.id)
        self.written[first.id] = replace(first, text=text)

    def _delete(self, tale: Tale, act: Act) -> None:
        """Somebody takes back a message, but never the report: under a report that is gone there is nothing to do."""
        if len(tale.told) < 2:
            return
        gone = dice_of(f"{self._plan.seed}:{act.word}").choice(tale.told[1:])
        tale.told.remove(gone)
        self.attached |= dict.fromkeys((file.id for file in gone.files), False)
        self._workspace.delete(gone.channel, gone.ts, by=gone.user)
        for each in [each for each in self.written.values() if id_of(gone) in (each.id, each.original)]:
            self.written[each.id] = replace(each, text="", gone=True)
        identity_ = addressing.deletion_id(identity.TEAM, gone.channel, gone.ts)
        self.written[identity_] = Written(identity_, messages.DELETION, tale.root.ts, "", original=id_of(gone))

    async def _answer(self, tale: Tale, text: str, patience: float) -> None:
        async for _ in until(patience, every=0.2):
            if summary := self.summary_of(tale.root):
                break
        else:
            return  # nothing was found yet: there is no thread to answer in
        message = self._workspace.post(identity.SUMMARIES, identity.DEVELOPER, text, thread_ts=summary.ts)
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
        event = (message.channel, message.ts)
        self.written[id_of(message)] = Written(id_of(message), kind, tale.root.ts, message.text, event)


def id_of(message: Message) -> str:
    return addressing.message_id(identity.TEAM, message.channel, message.ts)


def _key(message: Message) -> str:
    return str(message.metadata["event_payload"]["key"]) if message.metadata else ""
