"""The people of a run who speak to the bot; what they wrote is remembered for the oracle."""

import asyncio
import time
from dataclasses import dataclass, field, replace
from decimal import Decimal

from tests.chaos.people import Written, id_of
from tests.chaos.plan import Plan, dice_of
from tests.chaos.stage import Stage
from tests.chaos.talk_plan import ASIDE, BURST, ROLE, Cue, Line, Talk
from threadline.estimates.model import Role
from threadline.rfps.model import Facts, NewRfp
from threadline.slack import mentions
from threadline.threads import addressing, messages
from threadline.threads.addressing import Thread
from threadline.tools.author import Author
from threadline.tools.operations import Change, Operation
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import Message, User

CALL = f"<@{identity.BOT_USER}>"
_SAYINGS = {
    Line.ASKS: f"{CALL} what do you know of {{}}?",
    Line.SAYS: "It is about {}.",
    Line.BURSTS: "And this too, {}.",
    Line.ASIDE: f"{ASIDE}, {{}}.",
    Line.JOINS: f"{CALL}, and what of {{}}?",
}
_COLLEAGUES = frozenset({Line.ASIDE, Line.JOINS})


@dataclass
class Exchange:
    """A talk as it went: its first message, and who takes part."""

    talk: Talk
    root: Message
    person: str
    colleague: str
    told: list[Message] = field(default_factory=list)
    """What may still be edited or deleted: nothing that was said twice."""
    last: Message | None = None
    """The last that the person said, if it is still there and as it was."""

    @property
    def place(self) -> str:
        """Of two channels the timestamps may be equal."""
        return f"{self.root.channel}:{self.root.ts}"

    @property
    def thread(self) -> Thread:
        return Thread(identity.TEAM, self.root.channel, self.root.ts)


class Talkers:
    """Args: `plan` says what they do; it begins when `play` is called."""

    def __init__(self, plan: Plan, stage: Stage) -> None:
        self._plan, self._stage, self._workspace = plan, stage, stage.slack.workspace
        self._run = int(time.time())
        self.project = f"chaos-{self._run}"
        """What they order work in: no other run's."""
        self.rfp = f"rfp_chaos{self._run}"
        """In whose journal they have things written."""
        self.exchanges: list[Exchange] = []
        self.written: dict[str, Written] = {}
        self.signs: set[str] = set()
        """Ids of stop signs: of one that Slack has given up on, its history does not tell."""

    async def play(self) -> None:
        """Returns when everybody has said what they had to say."""
        if not self._plan.talks:
            return
        async with self._stage.database.begin() as work:
            project = await work.estimates.open_project(identity.TEAM, self.project, "EUR")
            await work.estimates.save_role(identity.TEAM, project.project_id, Role(ROLE, Decimal(100)))
            laid = Change(Operation(Thread(identity.TEAM, identity.GENERAL, "1.0"), 1, 1, self.rfp), time.time())
            await work.rfps.create(laid, NewRfp(Facts(self.project)), Author("", self.rfp), self.rfp)
        async with asyncio.TaskGroup() as together:
            for talk in self._plan.talks:
                together.create_task(self._tell(talk))

    async def _tell(self, talk: Talk) -> None:
        await asyncio.sleep(talk.begins)
        person, colleague = (self.somebody(f"T{talk.number}{which}") for which in "AB")
        channel = self._workspace.open_im(person).id if talk.direct else identity.GENERAL
        text = self._order(talk, talk.word) if talk.orders else f"Who knows of {talk.word}?"
        first = f"link {self.rfp}" if talk.operated else text
        root = self._workspace.post(channel, person, first if talk.direct else f"{CALL} {first}")
        exchange = Exchange(talk, root, person, colleague, last=None if talk.operated else root)
        self.exchanges.append(exchange)
        self._remember(exchange, root, messages.MESSAGE)
        if talk.operated:
            self._say(exchange, person, text)
        for cue in talk.cues:
            await asyncio.sleep(cue.after)
            self._do(exchange, cue)

    def somebody(self, name: str) -> str:
        """Of each run its own: the guards remember for a minute how much a person has asked."""
        user = f"U{self._run}{name}"
        return self._workspace.add_user(User(user, user.lower(), f"Person {user[-2:]}")).id

    def _order(self, talk: Talk, word: str) -> str:
        return f"Please note {word} of {self.rfp}." if talk.operated else f"Please add {word} to {self.project}."

    def _do(self, exchange: Exchange, cue: Cue) -> None:
        match cue.line:
            case Line.REPEATS:
                self._repeat(exchange)
            case Line.EDITS:
                self._edit(exchange, cue)
            case Line.DELETES:
                self._delete(exchange, cue)
            case Line.STOPS:
                self._remember(exchange, self._post(exchange, exchange.person, "stop, please"), messages.STOP)
            case Line.STOP_SIGN:
                self._sign(exchange)
            case Line.ORDERS:
                self._say(exchange, exchange.person, self._order(exchange.talk, cue.word))
            case _:
                colleague = cue.line in _COLLEAGUES and not exchange.talk.direct
                words = [f"{cue.word}{number}" for number in range(BURST)] if cue.line is Line.BURSTS else [cue.word]
                for word in words:
                    text = _SAYINGS[cue.line].format(word)
                    self._say(exchange, exchange.colleague if colleague else exchange.person, text)

    def _say(self, exchange: Exchange, user: str, text: str) -> None:
        message = self._post(exchange, user, text)
        self._remember(exchange, message, messages.MESSAGE)
        exchange.told.append(message)
        if user == exchange.person:
            exchange.last = message

    def _post(self, exchange: Exchange, user: str, text: str) -> Message:
        return self._workspace.post(exchange.root.channel, user, text, thread_ts=exchange.root.ts)

    def heard(self, exchange: Exchange, message: Message) -> None:
        """What somebody else has somebody say in a thread is to be stored like all else."""
        if exchange not in self.exchanges:
            self.exchanges.append(exchange)
        self._remember(exchange, message, messages.MESSAGE)

    def _repeat(self, exchange: Exchange) -> None:
        """Once, and neither is changed from then on, so that one of the two and no other is the guards' to refuse."""
        said, exchange.last = exchange.last, None
        if said:
            exchange.told = [each for each in exchange.told if each is not said]
            self._remember(exchange, self._post(exchange, exchange.person, said.text), messages.MESSAGE)

    def _edit(self, exchange: Exchange, cue: Cue) -> None:
        if original := self._chosen(exchange, cue):
            text = f"{original.text} (that is, {cue.word})"
            edited = self._workspace.edit(original.channel, original.ts, text, by=original.user)
            id_ = addressing.edit_id(identity.TEAM, edited.channel, edited.ts, edited.edited_ts)
            event = (edited.channel, edited.edited_ts)
            first, stored = self.written[id_of(edited)], _unaddressed(text)
            self.written[id_] = Written(id_, messages.EDIT, exchange.place, stored, event, first.id)
            self.written[first.id] = replace(first, text=stored)

    def _delete(self, exchange: Exchange, cue: Cue) -> None:
        if gone := self._chosen(exchange, cue):
            exchange.told.remove(gone)
            self._workspace.delete(gone.channel, gone.ts, by=gone.user)
            for each in [each for each in self.written.values() if id_of(gone) in (each.id, each.original)]:
                self.written[each.id] = replace(each, text="", gone=True)
            id_ = addressing.deletion_id(identity.TEAM, gone.channel, gone.ts)
            self.written[id_] = Written(id_, messages.DELETION, exchange.place, "", original=id_of(gone))

    def _chosen(self, exchange: Exchange, cue: Cue) -> Message | None:
        if not exchange.told:
            return None
        chosen = dice_of(f"{self._plan.seed}:{cue.word}").choice(exchange.told)
        if chosen is exchange.last:
            exchange.last = None
        return chosen

    def _sign(self, exchange: Exchange) -> None:
        said = exchange.last
        if said and exchange.person not in said.reactions.get("octagonal_sign", ()):
            moment = self._workspace.react(said.channel, said.ts, exchange.person, "octagonal_sign")
            self.signs.add(addressing.stop_id(identity.TEAM, said.channel, said.ts, exchange.person, moment))

    def _remember(self, exchange: Exchange, message: Message, kind: str) -> None:
        event, text = (message.channel, message.ts), _unaddressed(message.text)
        self.written[id_of(message)] = Written(id_of(message), kind, exchange.place, text, event)


def _unaddressed(text: str) -> str:
    """As it is stored."""
    return mentions.without(text, identity.BOT_USER)
