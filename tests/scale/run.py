"""One run: threads are opened, people write in them at a steady rate, every worker is restarted in
the middle.
"""

import asyncio
import shutil
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import text

from tests.chaos.oracle import Fault
from tests.chaos.people import CALL, CLEAR, People, PlayedThread
from tests.chaos.plan import seeded_random
from tests.chaos.scripted import FaultRates
from tests.chaos.stack import CORES
from tests.scale import figures, verdict
from tests.scale.figures import Watch
from tests.scale.stack import ScaleStack
from threadline.errors import Transient
from threadline.threads.model import MessageKind
from threadline_devstack.slack import identity

SLOWEST_OPENING = 3.0
SLOWEST_ANSWERING = 5.0
"""Threads and messages a second below which a run fails: half of the rate of two cores."""
PATIENCE = 780.0
"""Seconds without any change after which no change is expected.

The catch-up, which finds lost messages, begins every 600 s and has as much time as most waits for
a lost worker.
"""
LONGEST_TURN = 0.2
"""Maximum seconds of a turn of the scripted agent."""
_STILL = 3.0
_OPENED = text("""
SELECT (SELECT count(*) FROM cases WHERE turn > 0)
     + (SELECT count(*) FROM conversations WHERE turn > 0)
""")
_LEFT = text("""
SELECT (SELECT count(*) FROM bug_conversations WHERE sender_type <> 'bot')
     + (SELECT count(*) FROM conversation_messages) AS stored,
       (SELECT count(*) FROM posts) AS posts,
       (SELECT count(*) FROM cases WHERE status IN ('new', 'investigating')) AS cases,
       (SELECT count(*) FROM agent_turns WHERE status = 'running') AS turns,
       (SELECT count(*) FROM bug_conversations WHERE wants_turn AND turn IS NULL)
     + (SELECT count(*) FROM conversation_messages m
        JOIN conversations c ON c.id = m.conversation_id
        WHERE m.wants_turn AND (m.turn IS NULL OR m.turn > c.turn)) AS unanswered,
       (SELECT count(*) FROM conversation_turns
        WHERE posted_at IS NULL AND answer <> '') AS unposted,
       (SELECT count(*) FROM posts WHERE ts IS NULL) AS unsent
""")

Say = Callable[[str], None]
Look = Callable[[], Awaitable[tuple[Any, str]]]
"""Return a value that changes while work goes on, and in words the unfinished work."""


@dataclass(frozen=True)
class Form:
    """The size of a run.

    `rate`: messages a second, for `seconds`. `conversations`: their share of the threads, the
    others are cases. `at_once`: threads that are opened concurrently.
    """

    threads: int
    rate: float
    seconds: float
    conversations: float = 0.25
    at_once: int = 24


FULL = Form(10_000, 20, 600)
SHORT = Form(1_000, 20, 120)
TINY = Form(50, 5, 20)
FORMS = {"full": FULL, "short": SHORT, "tiny": TINY}


@dataclass(frozen=True)
class Outcome:
    """Args:
    figures: as `figures.markdown` reads them; empty when the run broke off before it had any.
    """

    figures: dict[str, Any]
    faults: tuple[Fault, ...]


async def measure(form: Form, say: Say, **settings: str) -> Outcome:
    """Run a form once on a stack of its own. Its folder, with the logs, stays after a run with a
    fault.

    Args:
        settings: of the product, where they are not its own defaults.
    """
    folder = Path(tempfile.mkdtemp(prefix="threadline-scale-"))
    clean = False
    try:
        async with ScaleStack.running(folder, **settings) as stack:
            outcome = await Run(stack, form, say).play()
        clean = not outcome.faults
        return outcome
    finally:
        if clean:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        else:
            say(f"Logs and data are in {folder}.")


class Crowd(People):
    """Opens threads and writes in them, and keeps the written messages for the oracle. No two
    messages share a word.
    """

    def __init__(self, stack: ScaleStack, form: Form) -> None:
        super().__init__(verdict.NO_PLAN, stack)
        self._form = form
        self._random = seeded_random(f"scale:{verdict.SEED}")
        self._said = Counter[int]()
        self.threads: list[PlayedThread] = []

    def open_next(self) -> None:
        """Begin a case, or a conversation of a new person: the guards limit the requests of one
        person a minute.
        """
        number = len(self.threads)
        share = self._form.conversations
        if int((number + 1) * share) > int(number * share):
            author = self._new_user(f"T{number}")
            root = self._workspace.post(
                identity.GENERAL, author, f"{CALL} Who knows of t{number:05d}r?"
            )
            thread = PlayedThread(root, author)
            kind = MessageKind.MESSAGE
            known = self.conversations
        else:
            root = self._workspace.post(
                identity.REPORTS, identity.REPORTER, f"{CLEAR} w{number:05d}r"
            )
            thread = PlayedThread(root, identity.REPORTER)
            kind = MessageKind.REPORT
            known = self.cases
        self._keep(thread, root, kind)
        known.append(thread)
        self.threads.append(thread)

    def write(self) -> None:
        """Write a new message in any thread, as its author."""
        number = self._random.randrange(len(self.threads))
        thread = self.threads[number]
        self._said[number] += 1
        letter, words = (
            ("w", "It is the cart total, {}.") if thread.is_case else ("t", "It is about {}.")
        )
        self._say(
            thread, thread.author, words.format(f"{letter}{number:05d}m{self._said[number]:02d}")
        )


@dataclass
class Run:
    stack: ScaleStack
    form: Form
    say: Say
    faults: list[Fault] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.crowd = Crowd(self.stack, self.form)
        self.watch = Watch(self.stack)
        self._since = datetime.now(UTC) - timedelta(seconds=1)
        self._changed = 0.0
        self._caught_up = 0

    async def play(self) -> Outcome:
        """Open, load, wait for rest, judge, and only then read the figures.

        An error in one of these steps is a fault, and the verdict follows in any case.
        """
        opened = await self._step(self._open)
        loaded = opened and await self._step(self._load)
        if opened:
            await self._step(self._rest)
            await self._step(self._look)
        await self._step(self._judge)
        await self._step(self._replay)
        self.say(f"The verdict: {len(self.faults) or 'no'} faults.")
        if loaded:
            await self._step(self._read_figures)
        return Outcome(self.told, tuple(self.faults))

    async def _step(self, step: Callable[[], Awaitable[list[Fault]]]) -> bool:
        """Run a step, report its faults, and return whether it had none."""
        try:
            found = await step()
        except Exception as error:  # noqa: BLE001 - no error may hide the verdict
            self.say("".join(traceback.format_exception(error)))
            found = [Fault("", f"the run broke off ({step.__name__}): {error!r}")]
        for fault in found[:100]:
            self.say(str(fault))
        self.faults += found
        return not found

    async def _open(self) -> list[Fault]:
        self.stack.slack.deliveries.log = deque()  # keep them all
        self.stack.set_rates(FaultRates(longest=LONGEST_TURN))
        await self.stack.use(real=False, http=False)
        await self.watch.mark("empty")
        return await self._wait(
            self._opening, PATIENCE + self.form.threads / SLOWEST_OPENING, every=0.2
        )

    async def _opening(self) -> tuple[int, str]:
        async with self.stack.database.begin() as tx:
            opened = int(await tx.scalar(_OPENED) or 0)
        there = len(self.crowd.threads)
        wanted = self.form.threads
        for _ in range(min(self.form.at_once - (there - opened), wanted - there)):
            self.crowd.open_next()
        return (
            opened,
            f"{wanted - opened} of {wanted} threads are not open" if opened < wanted else "",
        )

    async def _load(self) -> list[Fault]:
        await self.watch.mark("opened")
        async with self.stack.database.begin() as tx:
            await tx.execute(figures.RESET)
        began = time.monotonic()
        late = 0.0
        async with asyncio.TaskGroup() as together:
            together.create_task(self._restart())
            for number in range(int(self.form.rate * self.form.seconds)):
                due = began + number / self.form.rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                late = max(late, time.monotonic() - due)
                self.crowd.write()
            self.watch.at["written"] = time.time()
        self.say(f"Everything is written; the latest message came {late:.1f} s late.")
        return []

    async def _restart(self) -> None:
        """Stop the gateway and the agents' worker as a deploy does, and kill the core workers, one
        after the other.
        """
        await asyncio.sleep(self.form.seconds / 2)
        await self.watch.mark("restart")
        for name in ("gateway", "agents", *CORES):
            await self.watch.look()
            await (self.stack.kill(name) if name in CORES else self.stack.stop(name))
        self.watch.at["restarted"] = time.time()
        self.say(
            f"Every worker was restarted within {time.time() - self.watch.at['restart']:.0f} s."
        )

    async def _rest(self) -> list[Fault]:
        """Wait until every message is stored and answered, and posts have ended."""
        longest = PATIENCE + self.form.rate * self.form.seconds / SLOWEST_ANSWERING
        return await self._wait(self._resting, longest, every=1.0, still=_STILL)

    async def _look(self) -> list[Fault]:
        await self.watch.mark("rest", self._changed)
        return []

    async def _resting(self) -> tuple[Any, str]:
        pending = sum(
            delivery.outcome == "pending" for delivery in self.stack.slack.deliveries.log
        )
        async with self.stack.database.begin() as tx:
            left = (await tx.execute(_LEFT)).one()
        return (tuple(left), pending), unrest(left, len(self.crowd.written), pending)

    async def _wait(
        self, look: Look, longest: float, *, every: float, still: float = 0.0
    ) -> list[Fault]:
        """Look until nothing is left and nothing has changed for `still` seconds; return the stuck
        work.
        """
        began = changed = told = time.monotonic()
        before: Any = None
        while True:
            try:
                state, left = await look()
            except Transient as error:  # a busy machine; the bounds hold all the same
                state = before
                left = f"nobody knows what is left ({error})"
            now = time.monotonic()
            if state != before:
                before = state
                changed = now
                self._changed = time.time()
            if not left and now - changed >= still:
                return []
            if left and (now - began > longest or now - changed > PATIENCE):
                waited = (
                    f"{now - began:.0f} s (of {longest:.0f}), {now - changed:.0f} of them "
                    "without a change"
                )
                return [Fault("", f"{left} after {waited}")]
            if left and now > told + 10:
                told = now
                self.say(f"{now - began:.0f} s: {left}.")
            await asyncio.sleep(every)

    async def _judge(self) -> list[Fault]:
        findings = await verdict.gather(self.stack, self.crowd, self.watch, self._since)
        self._caught_up = findings.evidence.counts["caught_up"]
        return await asyncio.to_thread(verdict.judge, findings)

    async def _replay(self) -> list[Fault]:
        return await verdict.replay(self.stack, self._since)

    async def _read_figures(self) -> list[Fault]:
        told = await figures.gather(
            self.watch, len(self.crowd.cases), len(self.crowd.conversations)
        )
        self.told = told | {"rate": self.form.rate, "caught_up": self._caught_up}
        return []


def unrest(left: Any, written: int, pending: int) -> str:
    """Return the unfinished work in words: of the messages that people have `written`, of Slack's
    deliveries, and of the rows.
    """
    counts = {
        "messages are not stored": written - left.stored,
        "events are not acknowledged": pending,
        "cases are being investigated": left.cases,
        "turns of the agent run": left.turns,
        "messages wait for their turn": left.unanswered,
        "answers are not posted": left.unposted,
        "posts are not sent": left.unsent,
    }
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count > 0)
