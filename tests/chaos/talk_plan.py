"""What a seed means for the conversations of a run: who speaks to the bot, how, and when its model is away."""

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random


class Line(StrEnum):
    """What is said, by the one whose conversation it is unless it says otherwise; in direct messages by nobody else."""

    ASKS = "asks"
    """With a mention of the bot."""
    SAYS = "says"
    """Without one."""
    ORDERS = "orders"
    """Asks for a work item that has the word for its title."""
    BURSTS = "bursts"
    REPEATS = "repeats"
    """The last thing again, word for word."""
    ASIDE = "aside"
    """A colleague's word to people, which the bot is to leave alone."""
    JOINS = "joins"
    """A colleague's question to the bot."""
    EDITS = "edits"
    DELETES = "deletes"
    STOPS = "stops"
    STOP_SIGN = "stop sign"
    """As a reaction on the last thing that was said."""


@dataclass(frozen=True)
class Cue:
    """`after` the one before it, in seconds; `word` is in the text and in no other."""

    after: float
    line: Line
    word: str


@dataclass(frozen=True)
class Talk:
    """One conversation; `begins` in seconds since the start of the run. `direct`: in direct messages."""

    number: int
    begins: float
    direct: bool
    orders: bool
    """It begins with an order."""
    cues: tuple[Cue, ...]
    operated: bool = False
    """It is about an RFP: it begins by linking the thread, and what is ordered is written into the RFP's journal."""

    @property
    def word(self) -> str:
        """What its first message says and no other does."""
        return f"t{self.number:02d}r"


@dataclass(frozen=True)
class Claim:
    """A thread that a person is to take over: `answers` are written under its card, `gap` seconds one after the other;
    after so many of them as `asks` says, whoever claims asks on."""

    number: int
    begins: float
    answers: int
    asks: int
    gap: float

    @property
    def word(self) -> str:
        """As a talk's, and never taken for one of those."""
        return f"h{self.number:02d}"


@dataclass(frozen=True)
class Away:
    """The model does not answer, from `at` seconds after the start and for so many seconds."""

    at: float
    seconds: float


ROLE = "tester"
"""Of the work items that are ordered."""
ASIDE = "Between us"
"""How a word to people begins."""
BURST = 3
MOST = 9
"""Things that one person asks in a run: with ten in a minute the guards would throttle."""
_WEIGHTS = {
    Line.ASKS: 16,
    Line.SAYS: 18,
    Line.ORDERS: 26,
    Line.BURSTS: 8,
    Line.REPEATS: 8,
    Line.ASIDE: 10,
    Line.JOINS: 6,
    Line.EDITS: 10,
    Line.DELETES: 5,
    Line.STOPS: 6,
    Line.STOP_SIGN: 3,
}
_ASKING = frozenset({Line.ASKS, Line.SAYS, Line.ORDERS, Line.ASIDE, Line.JOINS})
"""Of a talk with a colleague in it more than its person's own, who may be one and the same."""
_DIRECT, _AWAY, _OPERATED = 0.2, 0.25, 0.4
_GAPS = (0.0, 0.0, 0.4, 1.0, 2.0, 4.0)
"""The longest outlasts the silence after which a run of a conversation ends."""


def talk_of(number: int, dice: Random) -> Talk:
    lines = dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=dice.randint(3, 10))
    cues, said = [], 1
    for at, line in enumerate(lines):
        more = BURST if line is Line.BURSTS else line in _ASKING
        if said + more <= MOST:
            said += more
            cues.append(Cue(dice.choice(_GAPS) * dice.uniform(0.5, 1.0), line, f"t{number:02d}m{at:02d}"))
    return Talk(number, dice.uniform(0.0, 4.0), dice.random() < _DIRECT, dice.random() < 0.5, tuple(cues))


def operated(talk: Talk, dice: Random) -> Talk:
    """The talk, or one about an RFP, with a question less since it begins with a link.

    `dice` are its own, so that what a seed meant before, it means still.
    """
    if dice.random() >= _OPERATED:
        return talk
    asked = next((cue for cue in talk.cues if cue.line in _ASKING or cue.line is Line.BURSTS), None)
    return replace(talk, operated=True, cues=tuple(cue for cue in talk.cues if cue is not asked))


def claim_of(number: int, dice: Random) -> Claim:
    return Claim(number, dice.uniform(0.0, 5.0), dice.randint(1, 3), dice.randint(0, 2), dice.choice((0.1, 1.0, 3.0)))


def away_of(dice: Random) -> Away | None:
    return Away(dice.uniform(1.0, 6.0), dice.uniform(2.0, 6.0)) if dice.random() < _AWAY else None
