"""What a seed means: who writes what and when in each thread, what goes wrong meanwhile, and by which way in."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tests.chaos.talk_plan import Away, Claim, Talk, away_of, claim_of, operated, talk_of


class Deed(StrEnum):
    """What a person does; the reporter unless it says otherwise."""

    SAYS = "says"
    BURSTS = "bursts"
    """Says several things at once."""
    MENTIONS = "mentions"
    """Says something that mentions the bot, which Slack delivers as two events."""
    ATTACHES = "attaches"
    """Says something with a file, which may be edited like any other message."""
    EDITS = "edits"
    DELETES = "deletes"
    """Somebody takes back what they said."""
    CLOSES = "closes"
    ANSWERS = "answers"
    """A developer, in the summary thread, once that exists."""
    ASKS_FIX = "asks for a fix"
    """A developer again; the real agent mends then what it has found."""
    MEDDLES = "meddles"
    """A third party, in the report's thread: nobody's business."""


@dataclass(frozen=True)
class Act:
    """`after` the one before it, in seconds; `word` is in the text and in no other."""

    after: float
    deed: Deed
    word: str


@dataclass(frozen=True)
class Story:
    """One thread; `begins` in seconds since the start of the run. A vague report is asked about by the real agent."""

    number: int
    begins: float
    vague: bool
    acts: tuple[Act, ...]

    @property
    def word(self) -> str:
        """What the report says and nobody else does."""
        return f"w{self.number:02d}r"


@dataclass(frozen=True)
class Blow:
    """Something that goes wrong, `at` seconds after the start; `dice` is a number for whatever is left to choose."""

    at: float
    kind: str
    dice: int


@dataclass(frozen=True)
class Plan:
    seed: int
    real: bool
    """The agent is the real Claude CLI, its words from the model sandbox; else a script behind the same activity."""
    http: bool
    """Events come as signed HTTP requests, not by Socket Mode."""
    kinds: tuple[str, ...]
    stories: tuple[Story, ...]
    blows: tuple[Blow, ...]
    talks: tuple[Talk, ...] = ()
    away: Away | None = None
    talk_blows: tuple[Blow, ...] = ()
    """What operators do to conversations, beside all else."""
    claims: tuple[Claim, ...] = ()
    """Threads that a person takes over."""


PROCESSES = (
    *("kill gateway", "kill core", "kill core in a post", "kill agents", "kill agents in a turn"),
    *("kill postgres", "kill temporal"),
    *("stop gateway", "stop core", "stop core in a post", "stop agents", "stop agents in a turn"),
    *("stop postgres", "stop temporal"),
)
"""`kill` is SIGKILL, `stop` is what a deploy sends; either way the process is started again."""
SLACK = (
    *("duplicates", "late and out of order", "answers lost after storing", "slow answers", "rate limits"),
    *("errors before storing", "socket refreshed", "socket cut", "equal timestamps", "slack gives up"),
)
MODEL = ("model overloaded", "model slow", "model breaks off", "disk full")
TEMPORAL = ("results late and lost", "cancel", "terminate")
REAL_ONLY = ("kill cli",)
"""There is no CLI to kill behind a scripted turn."""
TALK_ENDS = ("cancel a talk", "terminate a talk")
"""Kinds of their own, which a seed has beside those that it is known for."""

KINDS = (*PROCESSES, *SLACK, *MODEL, *TEMPORAL)
_ALL = (*KINDS, *REAL_ONLY)
LASTING = frozenset({*SLACK, *MODEL, "results late and lost"} - {"socket refreshed", "socket cut"})
"""They last as long as people write; the others are blows."""

EITHER = frozenset(
    {"kill agents in a turn", "stop agents in a turn", "model overloaded", "model breaks off", "disk full"}
)
"""They hit the real agent in another way than the script: alone they have the one and the other by turns."""
_BY_OPERATORS = frozenset({"cancel", "terminate", *TALK_ENDS})
REAL_EVERY = 10
"""One seed of so many runs the real CLI in any case."""
THREADS, MESSAGES, REAL_MESSAGES = 20, 8, 3
TALK_EVERY = 4
"""Beside so many threads with a report there is one in which people speak to the bot."""
CLAIM_EVERY = 10
"""And beside so many there is one that a person takes over."""
_ENDED = 0.4
"""Share of the runs in which operators end conversations in one of these ways."""
_WEIGHTS = {
    Deed.SAYS: 26,
    Deed.BURSTS: 8,
    Deed.MENTIONS: 8,
    Deed.ATTACHES: 5,
    Deed.EDITS: 12,
    Deed.DELETES: 5,
    Deed.CLOSES: 10,
    Deed.ANSWERS: 20,
    Deed.MEDDLES: 6,
}
FIXES = 0.25
"""Share of the real agent's threads in which a developer asks for a fix."""


def dice_of(seed: str) -> Random:
    """Throws that come again for the same seed."""
    return Random(seed)  # noqa: S311 - no secret depends on them


def plan_of(seed: int, threads: int = THREADS, kinds: Sequence[str] = ()) -> Plan:
    """Everything that is decided before a run; the same again for the same seed.

    An even seed brings one kind of fault alone, each in its turn, so that any seventy seeds in a row have all of them;
    an odd one brings several together.

    Args:
        kinds: what is to go wrong, instead of what the seed says.
    """
    dice = dice_of(f"plan:{seed}")
    alone = _ALL[seed // 2 % len(_ALL)]
    often = seed % REAL_EVERY == REAL_EVERY - 1
    real = _needs_real(alone, seed) if seed % 2 == 0 and not kinds else often or bool({*kinds} & {*REAL_ONLY})
    chosen = tuple(kinds) or ((alone,) if seed % 2 == 0 else _several(real, dice))
    stories = tuple(_story(number, real, dice_of(f"story:{seed}:{number}")) for number in range(threads))
    blows = (blow for kind in chosen if kind not in LASTING for blow in _blows(kind, dice))
    http, fallen = dice.random() < 0.3, tuple(sorted(blows, key=lambda blow: blow.at))
    # With dice of their own: what a seed meant before there were conversations it means still.
    talks = tuple(
        operated(talk_of(number, dice_of(f"talk:{seed}:{number}")), dice_of(f"operated:{seed}:{number}"))
        for number in range(threads // TALK_EVERY)
    )
    away = away_of(dice_of(f"away:{seed}")) if talks else None
    ends = _talk_blows(dice_of(f"ends:{seed}")) if talks and not kinds else ()
    claims = tuple(claim_of(number, dice_of(f"claim:{seed}:{number}")) for number in range(threads // CLAIM_EVERY))
    return Plan(seed, real, http, chosen, stories, fallen, talks, away, ends, claims)


def _needs_real(alone: str, seed: int) -> bool:
    return alone in REAL_ONLY or (alone in EITHER and seed // (2 * len(_ALL)) % 2 == 1)


def _several(real: bool, dice: Random) -> tuple[str, ...]:
    return tuple(sorted(dice.sample(_ALL if real else KINDS, dice.randint(3, 8))))


def _story(number: int, real: bool, dice: Random) -> Story:
    count = dice.randint(1, REAL_MESSAGES) if real else dice.randint(3, MESSAGES)
    gaps = (0.0, 0.0, 0.4, 1.5, 3.0, 4.0)
    deeds = dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=count)
    acts = [
        Act(dice.choice(gaps) * dice.uniform(0.5, 1.0), deed, f"w{number:02d}m{at:02d}")
        for at, deed in enumerate(deeds)
    ]
    if real and dice.random() < FIXES:
        acts.append(Act(dice.uniform(1.0, 3.0), Deed.ASKS_FIX, f"w{number:02d}x"))
        return Story(number, dice.uniform(0.0, 4.0), False, tuple(acts))
    if dice.random() < 0.6:
        acts.append(Act(dice.uniform(0.3, 1.5), Deed.CLOSES, f"w{number:02d}z"))
        if dice.random() < 0.6:  # it is taken back, while the case is being closed if the moment is right
            acts.append(Act(dice.uniform(0.0, 0.6), Deed.SAYS, f"w{number:02d}y"))
    return Story(number, dice.uniform(0.0, 4.0), dice.random() < 0.3, tuple(acts))


def _blows(kind: str, dice: Random) -> list[Blow]:
    count = dice.choice((1, 1, 2)) if kind not in _BY_OPERATORS else dice.randint(2, 5)
    return [Blow(dice.uniform(1.5, 11.0), kind, dice.randrange(10**6)) for _ in range(count)]


def _talk_blows(dice: Random) -> tuple[Blow, ...]:
    chosen = [kind for kind in TALK_ENDS if dice.random() < _ENDED]
    return tuple(blow for kind in chosen for blow in _blows(kind, dice))
