"""One run: threads are opened, people write in them at a steady rate, every worker is restarted in the middle."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text
from temporalio.service import RPCError

from tests.chaos import evidence as evidences
from tests.chaos import oracle
from tests.chaos.faults import Faults
from tests.chaos.oracle import Fault
from tests.chaos.people import CALL, CLEAR, People, PlayedThread
from tests.chaos.plan import Plan, seeded_random
from tests.chaos.stack import CORES
from tests.scale import figures
from tests.scale.figures import Watch
from tests.scale.stack import ScaleStack
from threadline.threads.model import MessageKind
from threadline_devstack.slack import identity

SEED = 25
OPENED = text("""
SELECT /* scale */ (SELECT count(*) FROM cases WHERE turn > 0) + (SELECT count(*) FROM conversations WHERE turn > 0)
""")
LEFT = text("""
SELECT /* scale */ (SELECT count(*) FROM bug_conversations WHERE sender_type <> 'bot')
     + (SELECT count(*) FROM conversation_messages) AS stored,
       (SELECT count(*) FROM cases WHERE status NOT IN ('pending_verification', 'awaiting_reporter'))
     + (SELECT count(*) FROM bug_conversations WHERE wants_turn AND turn IS NULL)
     + (SELECT count(*) FROM agent_turns WHERE status = 'running')
     + (SELECT count(*) FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id
        WHERE m.wants_turn AND (m.turn IS NULL OR m.turn > c.turn))
     + (SELECT count(*) FROM conversation_turns WHERE posted_at IS NULL AND answer <> '') AS unfinished,
       (SELECT count(*) FROM posts) AS posts
""")
RESTING = ("was left pending_verification", "was left awaiting_reporter")
"""The oracle wants each case to be at its end; here they are to stay open, each in one of these states."""
SLACK = 300.0
"""Seconds that a busy machine may take beyond what a form allows."""
_LOOK = 2.0
_STILL = 3.0
"""Seconds without a new post after which none is to come."""
_NOTHING_PLANNED = Plan(SEED, False, False, (), (), None, (), (), ())

Say = Callable[[str], None]


@dataclass(frozen=True)
class Form:
    """How large a run is.

    `rate`: messages a second, for `seconds`. `conversations`: their share of the threads, the others are cases.
    `at_once`: threads that are being opened at the same time. `each`: seconds that opening may take for each thread,
    and the rest after the last message for each message, before the run has failed.
    """

    threads: int
    rate: float
    seconds: float
    conversations: float = 0.25
    at_once: int = 24
    each: float = 1.0


FULL, SHORT, TINY = Form(10_000, 20, 600), Form(1_000, 20, 120), Form(50, 5, 20)
FORMS = {"full": FULL, "short": SHORT, "tiny": TINY}


@dataclass(frozen=True)
class Outcome:
    """Args: `figures`, whose keys are those of docs/performance.md's table, as `figures.markdown` reads them."""

    figures: dict[str, Any]
    faults: tuple[Fault, ...]


class Crowd(People):
    """Opens threads and writes in them, and keeps what was written for the oracle."""

    def __init__(self, stack: ScaleStack, form: Form) -> None:
        super().__init__(_NOTHING_PLANNED, stack)
        self._form = form
        self._random = seeded_random(f"scale:{SEED}")
        self._said = Counter[str]()
        self.threads: list[PlayedThread] = []

    def open_next(self) -> None:
        """Begin a case, or a conversation of a new person: the guards limit what one person may ask a minute."""
        number, share = len(self.threads), self._form.conversations
        if int((number + 1) * share) > int(number * share):
            author = self._new_user(f"T{number}")
            root = self._workspace.post(identity.GENERAL, author, f"{CALL} Who knows of t00r?")
            thread, kind, known = PlayedThread(root, author), MessageKind.MESSAGE, self.conversations
        else:
            root = self._workspace.post(identity.REPORTS, identity.REPORTER, f"{CLEAR} w00r")
            thread, kind, known = PlayedThread(root, identity.REPORTER), MessageKind.REPORT, self.cases
        self._keep(thread, root, kind)
        known.append(thread)
        self.threads.append(thread)

    def write(self) -> None:
        """Say something new in any thread, as its author."""
        thread = self._random.choice(self.threads)
        self._said[thread.place] += 1
        letter, words = ("w", "It is the cart total, {}.") if thread.is_case else ("t", "It is about {}.")
        self._say(thread, thread.author, words.format(f"{letter}00m{self._said[thread.place]:02d}"))


@dataclass
class _Times:
    """Moments of a run, in seconds since 1970."""

    load_began: float = 0.0
    restart_began: float = 0.0
    restart_ended: float = 0.0
    load_ended: float = 0.0
    rest: float = 0.0


@dataclass
class Run:
    stack: ScaleStack
    form: Form
    say: Say
    times: _Times = field(default_factory=_Times)
    latest: float = 0.0
    """Seconds by which the harness has sent a message too late at most."""

    def __post_init__(self) -> None:
        self.crowd = Crowd(self.stack, self.form)
        self.watch = Watch(self.stack)

    async def play(self) -> Outcome:
        """Open, load, wait for rest, judge."""
        since = datetime.now(UTC) - timedelta(seconds=1)
        told: dict[str, Any] = {"opening": await self._open()}
        opening = await figures.statements(self.stack, reset=True)
        async with asyncio.TaskGroup() as together:
            looking = together.create_task(self._look_again_and_again())
            restart = together.create_task(self._restart())
            told["load"] = await self._load()
            await restart
            looking.cancel()
        found = await self._rest()
        told["load"] |= {"rested_after_s": round(self.times.rest - self.times.load_ended, 1), "late_s": self.latest}
        told |= await figures.gather(self.stack, self.watch, self.times, opening)
        self.say("judging")
        found += await self._judge(since)
        told["faults"] = [str(fault) for fault in found]
        return Outcome(told, tuple(found))

    async def _open(self) -> dict[str, Any]:
        empty = await figures.sizes(self.stack)
        self.watch.look()
        began, before, last = time.monotonic(), self.watch.cpu(), 0.0
        while (opened := await self._number(OPENED)) < self.form.threads:
            there = len(self.crowd.threads)
            for _ in range(min(self.form.at_once - (there - opened), self.form.threads - there)):
                self.crowd.open_next()
            if (gone := time.monotonic() - began) > SLACK + self.form.each * self.form.threads:
                raise TimeoutError(f"Only {opened} of {self.form.threads} threads were opened in {gone:.0f} s.")
            if gone > last + 10:
                last = gone
                self.say(f"{opened} of {self.form.threads} threads are open after {gone:.0f} s")
            await asyncio.sleep(0.2)
        seconds = time.monotonic() - began
        self.watch.look()
        self.watch.remember("opened")
        self.say(f"{opened} threads are open after {seconds:.0f} s, {opened / seconds:.1f} a second")
        return {
            "cases": len(self.crowd.cases),
            "conversations": len(self.crowd.conversations),
            "seconds": round(seconds, 1),
            "threads_per_s": round(opened / seconds, 2),
            "cpu_ms_a_thread": self.watch.cpu_since(before, opened),
            "bytes_before": empty,
        }

    async def _load(self) -> dict[str, Any]:
        self.watch.begin_load()
        self.times.load_began, began = time.time(), time.monotonic()
        count = int(self.form.rate * self.form.seconds)
        for number in range(count):
            due = began + number / self.form.rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self.latest = max(self.latest, round(time.monotonic() - due, 2))
            self.crowd.write()
        self.times.load_ended = time.time()
        return {"messages": count, "rate": self.form.rate, "seconds": round(time.monotonic() - began, 1)}

    async def _restart(self) -> None:
        """Stop the gateway and the agents' worker as a deploy does, and kill the core workers, one after the other."""
        await asyncio.sleep(self.form.seconds / 2)
        self.times.restart_began = time.time()
        self.watch.end_steady()
        self.watch.remember("before the restart")
        for name in ("gateway", "agents", *CORES):
            self.watch.look()
            await self.watch.scrape()
            await (self.stack.kill(name) if name in CORES else self.stack.stop(name))
        self.times.restart_ended = time.time()
        self.say(f"every worker was restarted within {self.times.restart_ended - self.times.restart_began:.1f} s")

    async def _look_again_and_again(self) -> None:
        while True:
            self.watch.look()
            await asyncio.sleep(_LOOK)

    async def _rest(self) -> list[Fault]:
        """Wait until everything that was said is stored and answered, and nothing is posted any more."""
        until = time.monotonic() + SLACK + self.form.each * len(self.crowd.written)
        posts, since, last = -1, 0.0, 0.0
        while True:
            async with self.stack.database.begin() as tx:
                left = (await tx.execute(LEFT)).one()
            if left.posts != posts:
                posts, since, self.times.rest = left.posts, time.monotonic(), time.time()
            missing = len(self.crowd.written) - left.stored
            now = time.monotonic()
            if missing <= 0 and not left.unfinished and now - since > _STILL:
                self.watch.look()
                await self.watch.scrape()
                self.watch.remember("at the end")
                return []
            if now > until:
                return [Fault("", f"{missing} messages are not stored, and {left.unfinished} things not finished")]
            if now > last + 10:
                last = now
                self.say(f"{missing} messages are not stored yet, {left.unfinished} things not finished")
            await asyncio.sleep(1.0)

    async def _judge(self, since: datetime) -> list[Fault]:
        """The oracle of the chaos, and no workflow that has failed."""
        faults = Faults(self.stack, _NOTHING_PLANNED, self.crowd)
        evidence = await evidences.gather(self.stack, self.crowd, faults, {}, since)
        evidence.guards_opened = False  # nobody repeats words here: one turn answers each
        found = [fault for fault in await asyncio.to_thread(oracle.judge, evidence) if fault.words not in RESTING]
        for status in ("Failed", "TimedOut", "Terminated", "Canceled"):
            try:
                ended = (await self.stack.client.count_workflows(f"ExecutionStatus = '{status}'")).count
            except RPCError as error:
                found.append(Fault("", f"Temporal does not count its workflows: {error.message}"))
                continue
            if ended:
                found.append(Fault("", f"{ended} workflows are {status}"))
        return found

    async def _number(self, query: Any) -> int:
        async with self.stack.database.begin() as tx:
            return int(await tx.scalar(query) or 0)
