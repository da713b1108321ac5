"""A run's plan, derived from its seed: the threads, each thread's messages and their times, and
the faults.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Action(StrEnum):
    """An action of the author of a thread, or of another person where the comment says so."""

    SAYS = "says"
    BURSTS = "bursts"
    """Writes several messages at once."""
    EDITS = "edits"
    """A person edits a message of the thread."""
    DELETES = "deletes"
    """A person deletes a message of the thread."""

    # Cases only.
    MENTIONS = "mentions"
    """Mentions the bot, which Slack delivers as two events."""
    ATTACHES = "attaches"
    """Writes a message with a file, which may be edited like any other message."""
    CLOSES = "closes"
    ANSWERS = "answers"
    """A developer answers in the summary thread, once that exists."""
    ASKS_FIX = "asks for a fix"
    """A developer asks for a fix, and the real agent repairs the bug that it found."""
    MEDDLES = "meddles"
    """A bystander writes in the report's thread, which is not stored."""
    RETURNS = "returns"
    """Writes again as soon as the bot has said that the case is closed, which reopens it."""

    # Conversations only. In direct messages there is no colleague.
    ASKS = "asks"
    """Asks with a mention of the bot."""
    ORDERS = "orders"
    """Asks for a work item, or for a note about an RFP, that carries the word of the step."""
    REPEATS = "repeats"
    """Repeats the last message, word for word."""
    ASIDE = "aside"
    """A colleague speaks to people; the bot must not answer."""
    JOINS = "joins"
    """A colleague asks the bot."""
    STOPS = "stops"
    STOP_SIGN = "stop sign"
    """Puts the reaction on the last message."""


@dataclass(frozen=True)
class Step:
    """One action, `after` seconds after the previous one. Only its text contains `word`."""

    after: float
    action: Action
    word: str


@dataclass(frozen=True)
class CaseThread:
    """A thread that begins with a report, `begins` seconds after the start.

    The real agent asks about a report that is `vague`.
    """

    number: int
    begins: float
    vague: bool
    steps: tuple[Step, ...]

    @property
    def word(self) -> str:
        """A word that the report contains and no other message does."""
        return f"w{self.number:02d}r"


@dataclass(frozen=True)
class ConversationThread:
    """A thread that begins with a message to the bot: an order if `orders`, in direct messages if
    `direct`.

    `about_rfp`: it begins by linking the thread to an RFP, and orders go into the RFP's journal.
    """

    number: int
    begins: float
    direct: bool
    orders: bool
    about_rfp: bool
    steps: tuple[Step, ...]

    @property
    def word(self) -> str:
        return f"t{self.number:02d}r"


@dataclass(frozen=True)
class HandoverThread:
    """A conversation that a person takes over. That person writes `answers` under its card, `gap`
    seconds apart.

    After each of the first `asks` answers the author asks again.
    """

    number: int
    begins: float
    answers: int
    asks: int
    gap: float

    @property
    def word(self) -> str:
        """The word differs in form from those of conversations, so that the oracle takes no
        person's answer for the model's.
        """
        return f"h{self.number:02d}"


@dataclass(frozen=True)
class TimedFault:
    """A fault that strikes `at` seconds after the start. `seed` determines the fault's random
    choices.
    """

    at: float
    kind: str
    seed: int


@dataclass(frozen=True)
class Outage:
    """The model of conversations does not answer, from `at` seconds after the start."""

    at: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    seed: int
    real: bool
    """The agent is the real Claude CLI, answered by the model sandbox; otherwise it is a script in
    the same activity.
    """
    http: bool
    """Events come as signed HTTP requests, not by Socket Mode."""
    kinds: tuple[str, ...]
    faults: tuple[TimedFault, ...]
    outage: Outage | None
    cases: tuple[CaseThread, ...]
    conversations: tuple[ConversationThread, ...]
    handovers: tuple[HandoverThread, ...]


_TARGETS = (
    "gateway",
    "core",
    "core in a post",
    "agents",
    "agents in a turn",
    "postgres",
    "temporal",
)
PROCESSES = tuple(f"{verb} {target}" for verb in ("kill", "stop") for target in _TARGETS)
"""`kill` sends SIGKILL, `stop` the signal of a deploy. In both cases the process is started again.
"""
SLACK = (
    *(
        "duplicates",
        "late and out of order",
        "answers lost after storing",
        "slow answers",
        "rate limits",
    ),
    *(
        "errors before storing",
        "socket refreshed",
        "socket cut",
        "equal timestamps",
        "slack gives up",
    ),
    *("slack forgets", "invalid auth"),
)
MODEL = ("model overloaded", "model slow", "model breaks off", "disk full")
TEMPORAL = ("results late and lost", "cancel", "terminate")
ABSENT = ("agents away",)
"""No worker serves the agents' queue for longer than a case waits before it posts a notice."""
KINDS = (*PROCESSES, *SLACK, *MODEL, *TEMPORAL, *ABSENT)
REAL_ONLY = ("kill cli",)
"""A scripted turn has no CLI to kill."""
ALL_KINDS = (*KINDS, *REAL_ONLY)
CONVERSATION_ENDS = ("cancel a conversation", "terminate a conversation")
"""Runs have these by chance, in addition to the kinds that their seed chooses."""
_STRIKING = {"socket refreshed", "socket cut", "slack forgets", "invalid auth"}
LASTING = frozenset({*SLACK, *MODEL, "results late and lost"} - _STRIKING)
"""Faults that last as long as people write. All others strike at one moment."""

_AGENT_DEPENDENT = frozenset(
    {
        "kill agents in a turn",
        "stop agents in a turn",
        "model overloaded",
        "model breaks off",
        "disk full",
    }
)
"""These hit the real agent in another way than the script: seeds with one kind of fault alternate
between the two.
"""
_BY_ADMIN = frozenset({"cancel", "terminate", *CONVERSATION_ENDS})
REAL_EVERY = 10
"""At least one in this many seeds runs the real CLI."""
THREADS = 20
MESSAGES = 8
REAL_MESSAGES = 3
THREADS_PER_CONVERSATION = 4
THREADS_PER_HANDOVER = 10
CASE_BURST = 5
BURST = 3
MOST_ASKED = 9
"""Messages of one person to the bot in a run: the guards throttle at ten a minute."""
_CASE_WEIGHTS = {
    Action.SAYS: 26,
    Action.BURSTS: 8,
    Action.MENTIONS: 8,
    Action.ATTACHES: 5,
    Action.EDITS: 12,
    Action.DELETES: 5,
    Action.CLOSES: 10,
    Action.ANSWERS: 20,
    Action.MEDDLES: 6,
}
_CONVERSATION_WEIGHTS = {
    Action.ASKS: 16,
    Action.SAYS: 18,
    Action.ORDERS: 26,
    Action.BURSTS: 8,
    Action.REPEATS: 8,
    Action.ASIDE: 10,
    Action.JOINS: 6,
    Action.EDITS: 10,
    Action.DELETES: 5,
    Action.STOPS: 6,
    Action.STOP_SIGN: 3,
}
ASKED = {
    **dict.fromkeys((Action.ASKS, Action.SAYS, Action.ORDERS, Action.ASIDE, Action.JOINS), 1),
    Action.BURSTS: BURST,
}
"""New messages that an action adds to a conversation. A colleague's messages count as the
author's.
"""
_FIX = 0.25
_DIRECT = 0.2
_ABOUT_RFP = 0.4
_OUTAGE = 0.25
_CONVERSATION_END = 0.4
"""Shares: of the real agent's cases, of conversations (twice), of runs (twice)."""
_CASE_GAPS = (0.0, 0.0, 0.4, 1.5, 3.0, 4.0)
_GAPS = (0.0, 0.0, 0.4, 1.0, 2.0, 4.0)
"""The longest gap outlasts the silence after which a conversation's run ends."""


def seeded_random(seed: str) -> Random:
    """Return a generator that gives the same numbers for the same seed."""
    return Random(seed)  # noqa: S311 - no secret depends on them


def plan_of(seed: int, threads: int = THREADS, kinds: Sequence[str] = ()) -> Plan:
    """Decide everything before a run; the same seed gives the same plan.

    An even seed brings one kind of fault, each in its turn, so that twice as many consecutive
    seeds as there are kinds have all of them. An odd seed combines several.

    Args:
        kinds: the kinds of faults, instead of those of the seed.
    """
    random = seeded_random(f"faults:{seed}")
    alone = ALL_KINDS[seed // 2 % len(ALL_KINDS)]
    if kinds:
        real = _is_every_tenth(seed) or bool({*kinds} & {*REAL_ONLY})
        chosen = tuple(kinds)
    elif seed % 2 == 0:
        real = _needs_real(alone, seed)
        chosen = (alone,)
    else:
        real = _is_every_tenth(seed)
        chosen = tuple(sorted(random.sample(ALL_KINDS if real else KINDS, random.randint(3, 8))))
    ends = [kind for kind in CONVERSATION_ENDS if random.random() < _CONVERSATION_END]
    striking = [*(kind for kind in chosen if kind not in LASTING), *(() if kinds else ends)]
    outage = (
        Outage(random.uniform(1.0, 6.0), random.uniform(2.0, 6.0))
        if random.random() < _OUTAGE
        else None
    )
    people = seeded_random(f"people:{seed}")
    return Plan(
        seed,
        real,
        http=random.random() < 0.3,
        kinds=chosen,
        faults=tuple(fault for kind in striking for fault in _timed(kind, random)),
        outage=outage,
        cases=(
            *(_case(number, real, people) for number in range(threads)),
            _reopened_case(threads),
        ),
        conversations=(
            *(
                _conversation(number, people)
                for number in range(threads // THREADS_PER_CONVERSATION)
            ),
            _order_alone(threads // THREADS_PER_CONVERSATION),
        ),
        handovers=tuple(
            _handover(number, people) for number in range(threads // THREADS_PER_HANDOVER)
        ),
    )


def _is_every_tenth(seed: int) -> bool:
    return seed % REAL_EVERY == REAL_EVERY - 1


def _needs_real(alone: str, seed: int) -> bool:
    return alone in REAL_ONLY or (
        alone in _AGENT_DEPENDENT and seed // (2 * len(ALL_KINDS)) % 2 == 1
    )


def _timed(kind: str, random: Random) -> list[TimedFault]:
    count = random.randint(2, 5) if kind in _BY_ADMIN else random.choice((1, 1, 2))
    return [
        TimedFault(random.uniform(1.5, 11.0), kind, random.randrange(10**6)) for _ in range(count)
    ]


def _actions(weights: dict[Action, int], count: int, random: Random) -> list[Action]:
    return random.choices(list(weights), list(weights.values()), k=count)


def _step(gaps: Sequence[float], action: Action, word: str, random: Random) -> Step:
    return Step(random.choice(gaps) * random.uniform(0.5, 1.0), action, word)


def _case(number: int, real: bool, random: Random) -> CaseThread:
    count = random.randint(1, REAL_MESSAGES) if real else random.randint(3, MESSAGES)
    actions = _actions(_CASE_WEIGHTS, count, random)
    steps = [
        _step(_CASE_GAPS, action, f"w{number:02d}m{at:02d}", random)
        for at, action in enumerate(actions)
    ]
    fixed = real and random.random() < _FIX
    if fixed:
        steps.append(Step(random.uniform(1.0, 3.0), Action.ASKS_FIX, f"w{number:02d}x"))
    elif random.random() < 0.6:
        steps.append(Step(random.uniform(0.3, 1.5), Action.CLOSES, f"w{number:02d}z"))
        if (
            random.random() < 0.6
        ):  # a message right after the end, ideally while the case is being closed
            steps.append(Step(random.uniform(0.0, 0.6), Action.SAYS, f"w{number:02d}y"))
    vague = not fixed and random.random() < 0.3
    return CaseThread(number, random.uniform(0.0, 4.0), vague, tuple(steps))


def _reopened_case(number: int) -> CaseThread:
    """Return a case that every run is certain to close and reopen, however slow the machine."""
    close = Step(1.0, Action.CLOSES, f"w{number:02d}z")
    again = Step(0.0, Action.RETURNS, f"w{number:02d}y")
    return CaseThread(number, 0.0, False, (close, again))


def _conversation(number: int, random: Random) -> ConversationThread:
    about_rfp = random.random() < _ABOUT_RFP
    asked = 2 if about_rfp else 1
    steps = list[Step]()
    for at, action in enumerate(_actions(_CONVERSATION_WEIGHTS, random.randint(3, 10), random)):
        if asked + ASKED.get(action, 0) <= MOST_ASKED:
            asked += ASKED.get(action, 0)
            steps.append(_step(_GAPS, action, f"t{number:02d}m{at:02d}", random))
    direct = random.random() < _DIRECT
    orders = random.random() < 0.5
    return ConversationThread(
        number, random.uniform(0.0, 4.0), direct, orders, about_rfp, tuple(steps)
    )


def _order_alone(number: int) -> ConversationThread:
    """Return a conversation that is certain to make a tool call in every run, however slow the
    machine.
    """
    return ConversationThread(number, 0.0, direct=False, orders=True, about_rfp=False, steps=())


def _handover(number: int, random: Random) -> HandoverThread:
    gap = random.choice((0.1, 1.0, 3.0))
    return HandoverThread(
        number, random.uniform(0.0, 5.0), random.randint(1, 3), random.randint(0, 2), gap
    )
