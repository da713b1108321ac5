"""What goes wrong in a run: what lasts while people write, and the blows that fall amid it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psutil  # type: ignore[import-untyped]
from sqlalchemy import text
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from tests.chaos.disk import fill_disk
from tests.chaos.people import People
from tests.chaos.plan import Blow, Plan, dice_of
from tests.chaos.stage import CORES, Stage
from tests.chaos.talkers import Talkers
from threadline.errors import Permanent, Transient
from threadline.threads import addressing
from threadline.threads.addressing import Thread
from threadline_devstack.clients import until
from threadline_devstack.slack import identity
from threadline_devstack.slack.faults import Weather

AIM = 3.0
"""Seconds for which a blow waits for the moment that it wants, such as a turn that runs."""

TRIES = 10
Hit = Callable[[str], Coroutine[Any, Any, None]]
Which = Callable[[], Sequence[str]]
"""The workflows that are known by now."""

_RUNNING = text("SELECT count(*) FROM agent_turns WHERE status = 'running'")


@dataclass(frozen=True)
class Ended:
    """A run that an operator cancelled or terminated.

    Terminate ends it where it stands: with it goes what had been signalled and was not stored yet.
    """

    workflow_id: str
    run_id: str


@dataclass
class Trouble:
    """Args: `plan` says what goes wrong; `people` and `talkers` are those whose cases and conversations it hits."""

    stage: Stage
    plan: Plan
    people: People
    talkers: Talkers
    terminated: list[Ended] = field(default_factory=list)
    cancelled: list[Ended] = field(default_factory=list)
    struck: set[str] = field(default_factory=set)
    """Kinds of blows of which at least one hit what it was meant for."""

    async def rage(self) -> None:
        """Do all that the plan has; returns when the last blow has fallen and what it hit is back."""
        self._begin()
        began = time.monotonic()
        async with asyncio.TaskGroup() as together:
            for blow in (*self.plan.blows, *self.plan.talk_blows):
                together.create_task(self._strike(blow, began))
            if self.plan.real:
                together.create_task(self._haunt_model())

    def end(self) -> None:
        """From now on nothing goes wrong any more."""
        self.stage.slack.faults.clear()
        self.stage.clock.coarse = False
        self.stage.suffer({})
        self.stage.say("nothing goes wrong any more")

    # -- what lasts --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        kinds = set(self.plan.kinds)
        shares: dict[str, float] = {
            **({"dropped": 0.25} if "slack gives up" in kinds else {}),
            **({"duplicated": 0.3} if "duplicates" in kinds else {}),
            **({"delayed": 0.5} if "late and out of order" in kinds else {}),
            **({"error_after": 0.15} if "answers lost after storing" in kinds else {}),
            **({"slow": 0.08} if "slow answers" in kinds else {}),
            **({"rate_limited": 0.2} if "rate limits" in kinds else {}),
            **({"error_before": 0.2} if "errors before storing" in kinds else {}),
        }
        self.stage.slack.faults.weather = Weather(dice_of(f"weather:{self.plan.seed}"), **shares)  # type: ignore[arg-type]  # all shares are floats
        self.stage.clock.coarse = "equal timestamps" in kinds
        mood: dict[str, Any] = {
            "seed": str(self.plan.seed),
            **({"overloaded": 0.25} if "model overloaded" in kinds else {}),
            **({"longest": 3.0} if "model slow" in kinds else {}),
            **({"broken_off": 0.15, "lost_before": 0.1, "lost_after": 0.1} if "model breaks off" in kinds else {}),
            **({"disk_full": 0.15} if "disk full" in kinds else {}),
        }
        core = {"late": 0.5, "lost": 0.05} if "results late and lost" in kinds else {}
        self.stage.suffer({"agent": mood, "core": core, "chat": self._chat(kinds)})

    def _chat(self, kinds: set[str]) -> dict[str, float]:
        """The mood of the model that conversations have."""
        away, now = self.plan.away, time.time()
        return {
            **({"overloaded": 0.25} if "model overloaded" in kinds else {}),
            **({"longest": 3.0} if "model slow" in kinds else {}),
            **({"broken_off": 0.15} if "model breaks off" in kinds else {}),
            **({"away_from": now + away.at, "away_until": now + away.at + away.seconds} if away else {}),
        }

    async def _haunt_model(self) -> None:
        """The same for the real agent: its model fails now and then, its workspaces cannot be written for a while."""
        kinds = set(self.plan.kinds)
        for _ in range(3):
            await asyncio.sleep(2.0)
            if "model overloaded" in kinds:
                await self.stage.model.fail(status=529, count=4)
            if "model breaks off" in kinds:
                await self.stage.model.break_off(count=4)
            if "disk full" in kinds:
                await fill_disk(self.stage, 1.0)

    # -- blows -------------------------------------------------------------------------------------------------------

    async def _strike(self, blow: Blow, began: float) -> None:
        await asyncio.sleep(max(0.0, began + blow.at - time.monotonic()))
        dice = dice_of(str(blow.dice))
        verb, _, rest = blow.kind.partition(" ")
        hit = self.stage.kill if verb == "kill" else self.stage.stop
        special: dict[str, Callable[[Random], Awaitable[bool]]] = {
            f"{verb} core in a post": lambda _: self._core_in_a_post(hit),
            f"{verb} agents in a turn": lambda _: self._agents_in_a_turn(hit),
            "kill cli": self._kill_cli,
            "socket refreshed": self._refresh_socket,
            "socket cut": self._cut_socket,
            "cancel": lambda dice: self._cancel(dice, self._cases),
            "terminate": lambda dice: self._terminate(dice, self._cases),
            "cancel a talk": lambda dice: self._cancel(dice, self._talks),
            "terminate a talk": lambda dice: self._terminate(dice, self._talks),
        }
        if blow.kind in special:
            if await special[blow.kind](dice):
                self.struck.add(blow.kind)
            return
        await hit(dice.choice(CORES) if rest == "core" else rest)
        self.struck.add(blow.kind)

    async def _core_in_a_post(self, hit: Hit) -> bool:
        """Both workers: only one of them is at the post that Slack is slow to answer."""
        faults = self.stage.slack.faults
        faults.slow("chat.postMessage", 2.0)
        aimed = await self._aim(lambda: _now(not faults.ordered("chat.postMessage")))
        async with asyncio.TaskGroup() as together:
            for name in CORES:
                together.create_task(hit(name))
        return aimed

    async def _agents_in_a_turn(self, hit: Hit) -> bool:
        aimed = await self._aim(self._a_turn_runs)
        await hit("agents")
        return aimed

    async def _kill_cli(self, dice: Random) -> bool:
        await self._aim(lambda: _now(bool(agents_of(self.stage))))
        found = agents_of(self.stage)
        if found:
            self.stage.say("kill -9 the CLI")
            dice.choice(found).kill()
        return bool(found)

    async def _refresh_socket(self, dice: Random) -> bool:
        return self._is_told(await self.stage.slack.sockets.disconnect(), "to be renewed")

    async def _cut_socket(self, dice: Random) -> bool:
        return self._is_told(await self.stage.slack.sockets.cut(), "cut")

    def _is_told(self, sockets: int, what: str) -> bool:
        self.stage.say(f"{sockets} sockets are {what}")
        return sockets > 0

    async def _cancel(self, dice: Random, which: Which) -> bool:
        if ended := await self._to_one(which, dice, "cancel"):
            self.cancelled.append(ended)
        return bool(ended)

    async def _terminate(self, dice: Random, which: Which) -> bool:
        if ended := await self._to_one(which, dice, "terminate"):
            self.terminated.append(ended)  # nobody writes: the sweep revives it, the catch-up finds what it took away
        return bool(ended)

    def _cases(self) -> Sequence[str]:
        roots = (tale.root.ts for tale in self.people.tales)
        return [addressing.bug_workflow_id(Thread(identity.TEAM, identity.REPORTS, root)) for root in roots]

    def _talks(self) -> Sequence[str]:
        """Those of people who wait for nobody but the bot: a turn that was stopped is given to no person."""
        mine = [exchange for exchange in self.talkers.exchanges if exchange.person != exchange.colleague]
        return [addressing.conversation_workflow_id(exchange.thread) for exchange in mine]

    async def _to_one(self, which: Which, dice: Random, deed: str) -> Ended | None:
        """To one that runs, if there is one in the first few that come to mind."""
        for _ in range(TRIES):
            if (known := which()) and (hit := await self._to(dice.choice(known), deed)):
                return hit
            await asyncio.sleep(0.1)
        return None

    async def _to(self, workflow_id: str, deed: str) -> Ended | None:
        handle = self.stage.client.get_workflow_handle(workflow_id)
        try:
            run = await handle.describe()
            if run.status is not WorkflowExecutionStatus.RUNNING or not run.run_id:
                return None
            exact = self.stage.client.get_workflow_handle(workflow_id, run_id=run.run_id)
            await (exact.cancel() if deed == "cancel" else exact.terminate("chaos"))
        except RPCError:  # it has ended meanwhile, or Temporal is away
            return None
        self.stage.say(f"{deed} {workflow_id}")
        return Ended(workflow_id, run.run_id)

    async def _a_turn_runs(self) -> bool:
        try:
            async with self.stage.database.begin() as work:
                return bool(await work.connection.scalar(_RUNNING))
        except (Permanent, Transient):  # Postgres may be away by another blow
            return False

    async def _aim(self, moment: Callable[[], Awaitable[bool]]) -> bool:
        """Wait for the moment; whether it came."""
        async for _ in until(AIM, every=0.03):
            if await moment():
                return True
        return False


def agents_of(stage: Stage) -> list[psutil.Process]:
    """The CLI's processes under the agent worker."""
    try:
        children = psutil.Process(stage.family.pid("agents")).children(recursive=True)
        return [child for child in children if "claude" in " ".join(child.cmdline())]
    except psutil.NoSuchProcess:
        return []


async def _now(truth: bool) -> bool:
    return truth
