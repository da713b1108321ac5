"""The people of a run. They write the plan's messages, which are kept for the oracle."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal

from tests.chaos.plan import (
    BURST,
    CASE_BURST,
    Action,
    CaseThread,
    ConversationThread,
    HandoverThread,
    Plan,
    Step,
    seeded_random,
)
from tests.chaos.scripted import ASIDE, ROLE
from tests.chaos.stack import ChaosStack, key_of
from threadline.errors import Transient
from threadline.estimates.model import ProjectRole
from threadline.estimates.store import EstimateStore
from threadline.handovers.model import CLOSE, HOLD
from threadline.rfps.model import RfpFacts
from threadline.rfps.store import RfpStore
from threadline.slack.model import BOT_NAME, Thread
from threadline.slack.text import text_of, without_leading_mention
from threadline.threads.model import MessageKind, deletion_id, edit_id, message_id, stop_id
from threadline.tools.model import Author, Change, Operation
from threadline_devstack.processes import poll
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import SandboxMessage, SandboxUser, SlackRefusal

CLEAR = "The cart total is too high with the discount code SAVE10 and twelve notebooks."
VAGUE = "Something is broken again."
CALL = f"<@{identity.BOT_USER}>"
_REAL_TEXT = (
    "if (a &lt; b &amp;&amp; c) `x &gt; 1`, see <https://shop.example/a?x=1&amp;y=2|R&amp;D "
    "&lt;news&gt;>"
)
"""Entities, code and a link, in the form in which Slack sends them."""
_CASE_TEXTS = {
    Action.SAYS: f"It is the cart total, {{}}. {_REAL_TEXT}",
    Action.BURSTS: "It is also this, {}.",
    Action.MENTIONS: f"{CALL} the discount code, {{}}",
    Action.ATTACHES: "Here is the log, {}.",
    Action.ANSWERS: "Could it be the quantity, {}?",
    Action.ASKS_FIX: "Please fix it, {}.",
    Action.MEDDLES: "Same here, {}.",
    Action.RETURNS: "It is there again, {}.",
}
_CONVERSATION_TEXTS = {
    Action.ASKS: f"{CALL} what do you know of {{}}?",
    Action.SAYS: "It is about {}.",
    Action.BURSTS: f"And this too, {{}}. {_REAL_TEXT}",
    Action.ASIDE: f"{ASIDE}, {{}}.",
    Action.JOINS: f"{CALL}, and what of {{}}?",
}
_PATIENCE = {Action.ANSWERS: 4.0, Action.ASKS_FIX: 20.0}
"""Seconds for which a developer waits for a summary thread. The real agent takes long to find
something to fix.
"""
_CLOSING_PATIENCE = 30.0
"""Seconds for which an author waits for the bot's post that the case is closed."""
_CARD_PATIENCE = 20.0
"""Seconds for which people wait for a handover's card."""
_ANSWER_PATIENCE = _CARD_PATIENCE + HOLD
"""Seconds for which an author waits for an answer before asking again."""
_DATABASE_PATIENCE = 60.0
"""Seconds within which Postgres is back after a fault."""
_STOP_SIGN = "octagonal_sign"


@dataclass(frozen=True)
class Written:
    """A message that must be stored: its id, kind and thread, and its current text.

    `event` is the channel and the timestamp that identify Slack's delivery of it, `original` the
    message that it corrects. `gone`: its author deleted it, and none of its words may be left.
    """

    id: str
    kind: str
    place: str
    text: str
    event: tuple[str, str] = ("", "")
    original: str = ""
    gone: bool = False


@dataclass
class PlayedThread:
    """The history of a thread of any kind: its first message, and its participants."""

    root: SandboxMessage
    author: str
    colleague: str = ""
    direct: bool = False
    about_rfp: bool = False
    editable: list[SandboxMessage] = field(default_factory=list)
    """Messages that may still be edited or deleted. The root is never deleted, and a repeated
    message is never changed.
    """
    is_shared: bool = False
    """Whether the colleague has written in the thread."""
    last: SandboxMessage | None = None
    """The author's last message in a conversation, if it still exists unchanged."""

    @property
    def is_case(self) -> bool:
        return self.root.channel == identity.REPORTS

    @property
    def thread(self) -> Thread:
        return Thread(identity.TEAM, self.root.channel, self.root.ts)

    @property
    def place(self) -> str:
        """The key contains the channel, since timestamps of two channels may be equal."""
        return f"{self.root.channel}:{self.root.ts}"


@dataclass
class PlayedHandover:
    """The history of a handover: `answers` and `remarks` were written under its card, the remarks
    only for colleagues; its author wrote `asks` while a person had it.
    """

    thread: Thread
    word: str
    answers: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RelayedHandover:
    """A handover as Slack shows it: the number of its cards, how often each answer and question
    was relayed, and how often the author was shown a remark that was meant for colleagues.
    """

    thread: Thread
    cards: int
    answers: dict[str, int]
    asks: dict[str, int]
    remarks: dict[str, int] = field(default_factory=dict)


class People:
    """Plays the people of `plan`, starting with the call of `play`."""

    def __init__(self, plan: Plan, stack: ChaosStack) -> None:
        self._plan = plan
        self._stack = stack
        self._workspace = stack.slack.workspace
        self._run = int(time.time())
        self.project = f"chaos-{self._run}"
        self.rfp = f"rfp_chaos{self._run}"
        """The project of the ordered work and the RFP of the ordered notes: no other run uses
        them.
        """
        self.cases: list[PlayedThread] = []
        self.conversations: list[PlayedThread] = []
        """All conversations, including handovers."""
        self.handovers: list[PlayedHandover] = []
        self.written: dict[str, Written] = {}
        self.attached: dict[str, bool] = {}
        """Files by id, and whether the message of each still exists."""
        self.stop_signs: set[str] = set()
        """Ids of stop signs. Slack's history does not contain one that Slack gave up delivering.
        """
        self._special: dict[Action, Callable[[PlayedThread, Step], object]] = {
            Action.ATTACHES: self._attach,
            Action.MEDDLES: self._meddle,
            Action.CLOSES: lambda thread, _: self._say(
                thread, thread.author, "never mind", MessageKind.CLOSE
            ),
            Action.STOPS: lambda thread, _: self._stop(thread),
            Action.STOP_SIGN: lambda thread, _: self._put_stop_sign(thread),
            Action.REPEATS: lambda thread, _: self._repeat(thread),
            Action.EDITS: self._edit,
            Action.DELETES: self._delete,
        }

    async def play(self) -> None:
        """Write all messages. Handovers are still open afterwards."""
        await self._open_project()
        async with asyncio.TaskGroup() as together:
            for case in self._plan.cases:
                together.create_task(self._play_case(case))
            for conversation in self._plan.conversations:
                together.create_task(self._play_conversation(conversation))
            for handover in self._plan.handovers:
                together.create_task(self._play_handover(handover))

    def answer_late_cards(self) -> bool:
        """Write under each card without an answer, and return whether there was one."""
        late = [
            (each, cards[0])
            for each in self.handovers
            if not each.answers and (cards := self._cards(each.thread))
        ]
        for handover, card in late:
            self._answer(handover, card)
        return bool(late)

    async def close_handovers(self) -> None:
        """Press each card's button, as a person does in the end. The next call repeats a press
        that was lost.

        A decision may have handed over any conversation.
        """
        for conversation in self.conversations:
            for card in self._cards(conversation.thread):
                try:
                    await self._stack.slack.click(identity.DEVELOPER, card.channel, card.ts, CLOSE)
                except SlackRefusal:
                    continue  # the card has lost its button

    def relayed(self) -> list[RelayedHandover]:
        posts = self._stack.bot_posts()

        def count(words: Sequence[str], channel: str, roots: set[str | None]) -> dict[str, int]:
            there = [
                post.text for post in posts if post.channel == channel and post.thread_ts in roots
            ]
            return {word: sum(word in text for text in there) for word in words}

        found = []
        for each in self.handovers:
            cards = self._cards(each.thread)
            answers = count(each.answers, each.thread.channel, {each.thread.ts})
            asks = count(each.asks, identity.ESCALATIONS, {card.ts for card in cards})
            remarks = count(each.remarks, each.thread.channel, {each.thread.ts})
            found.append(RelayedHandover(each.thread, len(cards), answers, asks, remarks))
        return found

    def bug_id(self, case: PlayedThread) -> str:
        """Return the case's number from the bot's posts in its thread; empty before the first."""
        keys = (key_of(message) for message in case.root.replies)
        return next((key.partition(":")[0] for key in keys if key), "")

    # -- the three kinds of threads

    async def _open_project(self) -> None:
        if not self._plan.conversations:
            return
        async for _ in poll(_DATABASE_PATIENCE, every=0.5):
            with suppress(Transient):  # a fault has hit Postgres
                await self._make_project()
                return
        raise TimeoutError(f"Postgres did not take the project within {_DATABASE_PATIENCE:.0f} s.")

    async def _make_project(self) -> None:
        async with self._stack.database.begin() as tx:
            project = await EstimateStore(tx).get_or_create_project(
                identity.TEAM, self.project, "EUR"
            )
            await EstimateStore(tx).save_role(
                identity.TEAM, project.project_id, ProjectRole(ROLE, Decimal(100))
            )
            operation = Operation(Thread(identity.TEAM, identity.GENERAL, "1.0"), 1, 1, self.rfp)
            created = Change(operation, Author("", self.rfp), time.time())
            await RfpStore(tx).create(created, RfpFacts(self.project), self.rfp)

    async def _play_case(self, case: CaseThread) -> None:
        await asyncio.sleep(case.begins)
        text = f"{VAGUE if case.vague else CLEAR} {case.word}"
        thread = PlayedThread(
            self._workspace.post(identity.REPORTS, identity.REPORTER, text), identity.REPORTER
        )
        self.cases.append(thread)
        self._keep(thread, thread.root, MessageKind.REPORT)
        thread.editable.append(thread.root)
        await self._play_steps(thread, case.steps)

    async def _play_conversation(self, planned: ConversationThread) -> None:
        await asyncio.sleep(planned.begins)
        author, colleague = (self._new_user(f"T{planned.number}{which}") for which in "AB")
        channel = self._workspace.open_im(author).id if planned.direct else identity.GENERAL
        text = (
            self._order(planned.word, planned.about_rfp)
            if planned.orders
            else f"Who knows of {planned.word}?"
        )
        first = f"link {self.rfp}" if planned.about_rfp else text
        root = self._workspace.post(
            channel, author, first if planned.direct else f"{CALL} {first}"
        )
        thread = PlayedThread(root, author, colleague, planned.direct, planned.about_rfp)
        self.conversations.append(thread)
        self._keep(thread, root, MessageKind.MESSAGE)
        if planned.about_rfp:
            self._say(thread, author, text)
        else:
            thread.last = root
        await self._play_steps(thread, planned.steps)

    async def _play_handover(self, planned: HandoverThread) -> None:
        await asyncio.sleep(planned.begins)
        author = self._new_user(f"C{planned.number}")
        root = self._workspace.post(
            identity.GENERAL, author, f"{CALL} I want a refund for {planned.word}."
        )
        thread = PlayedThread(root, author)
        self.conversations.append(thread)
        self._keep(thread, root, MessageKind.MESSAGE)
        handover = PlayedHandover(thread.thread, planned.word)
        self.handovers.append(handover)
        async for _ in poll(_CARD_PATIENCE, every=0.2):
            if cards := self._cards(handover.thread):
                break
        else:
            # the card is late, as when Slack gave up on the mention, or never comes, which the
            # oracle reports
            return
        for at in range(planned.answers):
            await asyncio.sleep(planned.gap)
            word = self._answer(handover, cards[0])
            if at < planned.asks and await self._is_relayed(handover, word):
                ask = f"{planned.word}q{at}"
                self._say(thread, author, f"And when, {ask}?")
                handover.asks.append(ask)

    def _answer(self, handover: PlayedHandover, card: SandboxMessage) -> str:
        """Reply under a card as the person who takes over, after a remark to colleagues; return
        the reply's word.
        """
        number = len(handover.answers)
        remark = f"{handover.word}m{number}"
        word = f"{handover.word}a{number}"
        for text in (f"Who knows this person, {remark}?", f"reply: We look after it, {word}."):
            self._workspace.post(identity.ESCALATIONS, identity.DEVELOPER, text, thread_ts=card.ts)
        handover.remarks.append(remark)
        handover.answers.append(word)
        return word

    async def _is_relayed(self, handover: PlayedHandover, word: str) -> bool:
        async for _ in poll(_ANSWER_PATIENCE, every=0.2):
            if any(
                each.answers.get(word) for each in self.relayed() if each.thread == handover.thread
            ):
                return True
        return False

    def _cards(self, thread: Thread) -> list[SandboxMessage]:
        keyed = ((post, key_of(post)) for post in self._stack.bot_posts())
        return [
            post
            for post, key in keyed
            if key.startswith(f"handover:{thread.key}:") and key.endswith(":card")
        ]

    def _new_user(self, name: str) -> str:
        """Create a user of this run: the guards remember a person's rate for a minute."""
        user = f"U{self._run}{name}"
        return self._workspace.add_user(SandboxUser(user, user.lower(), f"Person {user[-2:]}")).id

    # -- steps

    async def _play_steps(self, thread: PlayedThread, steps: Sequence[Step]) -> None:
        for step in steps:
            await asyncio.sleep(step.after)
            if step.action in _PATIENCE:
                await self._answer_findings(thread, step)
            elif step.action is Action.RETURNS:
                await self._return(thread, step)
            elif step.action in self._special:
                self._special[step.action](thread, step)
            elif thread.is_case:
                self._say_words(thread, step, thread.author, _CASE_TEXTS[step.action], CASE_BURST)
            elif step.action is Action.ORDERS:
                self._say(thread, thread.author, self._order(step.word, thread.about_rfp))
            else:
                colleague = step.action in (Action.ASIDE, Action.JOINS) and not thread.direct
                user = thread.colleague if colleague else thread.author
                self._say_words(thread, step, user, _CONVERSATION_TEXTS[step.action], BURST)

    def _say_words(
        self, thread: PlayedThread, step: Step, user: str, text: str, burst: int
    ) -> None:
        many = [f"{step.word}{number}" for number in range(burst)]
        for word in many if step.action is Action.BURSTS else [step.word]:
            self._say(thread, user, text.format(word))

    def _say(
        self,
        thread: PlayedThread,
        user: str,
        text: str,
        kind: MessageKind = MessageKind.MESSAGE,
        files: Sequence[str] = (),
    ) -> SandboxMessage:
        message = self._post(thread, user, text, files)
        self._keep(thread, message, kind)
        thread.is_shared = thread.is_shared or user == thread.colleague
        if kind == MessageKind.MESSAGE:
            thread.editable.append(message)
            thread.last = message if user == thread.author else thread.last
        return message

    def _post(
        self, thread: PlayedThread, user: str, text: str, files: Sequence[str] = ()
    ) -> SandboxMessage:
        return self._workspace.post(
            thread.root.channel, user, text, thread_ts=thread.root.ts, files=files
        )

    def _order(self, word: str, about_rfp: bool) -> str:
        return (
            f"Please note {word} of {self.rfp}."
            if about_rfp
            else f"Please add {word} to {self.project}."
        )

    def _attach(self, thread: PlayedThread, step: Step) -> None:
        content = f"What I saw, {step.word}.".encode()
        file = self._workspace.add_file(f"{step.word}.txt", thread.author, content)
        self.attached[file.id] = True
        self._say(
            thread, thread.author, _CASE_TEXTS[step.action].format(step.word), files=[file.id]
        )

    def _meddle(self, thread: PlayedThread, step: Step) -> None:
        self._post(thread, identity.BYSTANDER, _CASE_TEXTS[step.action].format(step.word))

    def _stop(self, thread: PlayedThread) -> None:
        """Stop the bot, with a mention in threads where a colleague takes part: without it, such a
        word may be meant for people.
        """
        call = f"{CALL} " if thread.is_shared else ""
        self._say(thread, thread.author, f"{call}stop, please", MessageKind.STOP)

    def _put_stop_sign(self, thread: PlayedThread) -> None:
        said = thread.last
        if said and thread.author not in said.reactions.get(_STOP_SIGN, ()):
            moment = self._workspace.react(said.channel, said.ts, thread.author, _STOP_SIGN)
            self.stop_signs.add(
                stop_id(identity.TEAM, said.channel, said.ts, thread.author, moment)
            )

    def _repeat(self, thread: PlayedThread) -> None:
        """Repeat the last message, and never change either again: the guards must refuse one of
        the two.
        """
        if said := thread.last:
            repeated = self._say(thread, thread.author, said.text)
            thread.editable = [
                each for each in thread.editable if each is not said and each is not repeated
            ]
            thread.last = None

    def _edit(self, thread: PlayedThread, step: Step) -> None:
        if original := self._choose(thread, step, thread.editable):
            text = f"{original.text} (that is, {step.word})"
            edited = self._workspace.edit(original.channel, original.ts, text, by=original.user)
            id_ = edit_id(identity.TEAM, edited.channel, edited.ts, edited.edited_ts)
            event = (edited.channel, edited.edited_ts)
            first = self.written[id_of(edited)]
            stored = _stored(thread, text)
            self.written[id_] = Written(
                id_, MessageKind.EDIT, thread.place, stored, event, first.id
            )
            self.written[first.id] = replace(first, text=stored)

    def _delete(self, thread: PlayedThread, step: Step) -> None:
        """Delete a message, but never the report: a deleted report leaves no work to do."""
        if gone := self._choose(
            thread, step, [each for each in thread.editable if each is not thread.root]
        ):
            thread.editable.remove(gone)
            self.attached |= dict.fromkeys((file.id for file in gone.files), False)
            self._workspace.delete(gone.channel, gone.ts, by=gone.user)
            for each in [
                each for each in self.written.values() if id_of(gone) in (each.id, each.original)
            ]:
                self.written[each.id] = replace(each, text="", gone=True)
            id_ = deletion_id(identity.TEAM, gone.channel, gone.ts)
            self.written[id_] = Written(
                id_, MessageKind.DELETION, thread.place, "", original=id_of(gone)
            )

    def _choose(
        self, thread: PlayedThread, step: Step, among: Sequence[SandboxMessage]
    ) -> SandboxMessage | None:
        if not among:
            return None
        chosen = seeded_random(f"{self._plan.seed}:{step.word}").choice(among)
        if chosen is thread.last:
            thread.last = None
        return chosen

    async def _answer_findings(self, thread: PlayedThread, step: Step) -> None:
        async for _ in poll(_PATIENCE[step.action], every=0.2):
            if summary := self._summary_of(thread):
                break
        else:
            return  # there are no findings yet, and so no thread to answer in
        text = _CASE_TEXTS[step.action].format(step.word)
        message = self._workspace.post(
            identity.SUMMARIES, identity.DEVELOPER, text, thread_ts=summary.ts
        )
        self._keep(thread, message, MessageKind.MESSAGE)
        thread.editable.append(message)

    async def _return(self, thread: PlayedThread, step: Step) -> None:
        async for _ in poll(_CLOSING_PATIENCE, every=0.2):
            if any(":closing:" in key_of(reply) for reply in thread.root.replies):
                break
        self._say(thread, thread.author, _CASE_TEXTS[step.action].format(step.word))

    def _summary_of(self, case: PlayedThread) -> SandboxMessage | None:
        bug_id = self.bug_id(case)
        posts = self._workspace.channel(identity.SUMMARIES).messages.values()
        return next(
            (post for post in posts if bug_id and key_of(post) == f"{bug_id}:summary"), None
        )

    def _keep(self, thread: PlayedThread, message: SandboxMessage, kind: str) -> None:
        event = (message.channel, message.ts)
        text = _stored(thread, message.text)
        self.written[id_of(message)] = Written(id_of(message), kind, thread.place, text, event)


def id_of(message: SandboxMessage) -> str:
    return message_id(identity.TEAM, message.channel, message.ts)


def _stored(thread: PlayedThread, text: str) -> str:
    """Conversations store a message without the leading mention of the bot; cases store it
    unchanged.
    """
    read = text_of({"user": identity.REPORTER, "text": text})
    return read if thread.is_case else without_leading_mention(read, identity.BOT_USER, BOT_NAME)
