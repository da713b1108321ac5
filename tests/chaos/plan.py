"""What a seed means: who writes what and when in each thread, what goes wrong meanwhile, and by which way in."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Deed(StrEnum):
    """What a person does; the reporter unless it says otherwise."""

    SAYS = "says"
    MENTIONS = "mentions"
    """Says something that mentions the bot, which Slack delivers as two events."""
    EDITS = "edits"
    CLOSES = "closes"
    ANSWERS = "answers"
    """A developer, in the summary thread, once that exists."""
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


PROCESSES = (
    *("kill gateway", "kill core", "kill core in a post", "kill agents", "kill agents in a turn"),
    *("kill postgres", "kill temporal"),
    *("stop gateway", "stop core", "stop agents", "stop postgres", "stop temporal"),
)
"""`kill` is SIGKILL, `stop` is what a deploy sends; either way the process is started again."""
SLACK = (
    *("duplicates", "late and out of order", "answers lost after storing", "slow answers", "rate limits"),
    *("errors before storing", "socket refreshed", "socket cut", "equal timestamps"),
)
MODEL = ("model overloaded", "model slow", "model breaks off", "disk full")
TEMPORAL = ("results late and lost", "cancel", "terminate")
REAL_ONLY = ("kill cli",)
"""There is no CLI to kill behind a scripted turn."""

KINDS = (*PROCESSES, *SLACK, *MODEL, *TEMPORAL)
LASTING = frozenset({*SLACK, *MODEL, "results late and lost"} - {"socket refreshed", "socket cut"})
"""They last as long as people write; the others are blows."""

REAL_EVERY = 8
"""One seed of so many runs the real CLI."""
THREADS, MESSAGES, REAL_MESSAGES = 20, 8, 3
_WEIGHTS = {Deed.SAYS: 40, Deed.MENTIONS: 8, Deed.EDITS: 12, Deed.CLOSES: 10, Deed.ANSWERS: 22, Deed.MEDDLES: 8}


def dice_of(seed: str) -> Random:
    """Throws that come again for the same seed."""
    return Random(seed)  # noqa: S311 - no secret depends on them


def plan_of(seed: int, threads: int = THREADS, kinds: Sequence[str] = ()) -> Plan:
    """Everything that is decided before a run; the same again for the same seed.

    An even seed brings one kind of fault alone, each in its turn; an odd one several together.

    Args:
        kinds: what is to go wrong, instead of what the seed says.
    """
    dice = dice_of(f"plan:{seed}")
    real = seed % REAL_EVERY == REAL_EVERY - 1 or seed % (2 * REAL_EVERY) == 0
    chosen = tuple(kinds) or _kinds(seed, real, dice)
    stories = tuple(_story(number, real, dice_of(f"story:{seed}:{number}")) for number in range(threads))
    blows = (blow for kind in chosen if kind not in LASTING for blow in _blows(kind, dice))
    return Plan(seed, real, dice.random() < 0.3, chosen, stories, tuple(sorted(blows, key=lambda blow: blow.at)))


def _kinds(seed: int, real: bool, dice: Random) -> tuple[str, ...]:
    known = (*KINDS, *REAL_ONLY) if real else KINDS
    if seed % 2 == 0:
        return (known[seed // 2 % len(known)],)
    return tuple(sorted(dice.sample(known, dice.randint(3, 8))))


def _story(number: int, real: bool, dice: Random) -> Story:
    count = dice.randint(1, REAL_MESSAGES) if real else dice.randint(3, MESSAGES)
    gaps = (0.0, 0.0, 0.4, 1.5, 3.0, 4.0)
    deeds = dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=count)
    acts = [
        Act(dice.choice(gaps) * dice.uniform(0.5, 1.0), deed, f"w{number:02d}m{at:02d}")
        for at, deed in enumerate(deeds)
    ]
    if dice.random() < 0.6:
        acts.append(Act(dice.uniform(0.3, 1.5), Deed.CLOSES, f"w{number:02d}z"))
        if dice.random() < 0.6:  # it is taken back, while the case is being closed if the moment is right
            acts.append(Act(dice.uniform(0.0, 0.6), Deed.SAYS, f"w{number:02d}y"))
    return Story(number, dice.uniform(0.0, 4.0), dice.random() < 0.3, tuple(acts))


def _blows(kind: str, dice: Random) -> list[Blow]:
    count = dice.choice((1, 1, 2)) if kind not in ("cancel", "terminate") else dice.randint(2, 5)
    return [Blow(dice.uniform(1.5, 11.0), kind, dice.randrange(10**6)) for _ in range(count)]
