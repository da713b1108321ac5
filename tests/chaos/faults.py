"""The faults of a run: some last as long as people write, others strike at one moment."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psutil  # type: ignore[import-untyped]
from sqlalchemy import text
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError

from tests.chaos.people import People
from tests.chaos.plan import Plan, TimedFault, seeded_random
from tests.chaos.scripted import FULL_DISK, FaultRates
from tests.chaos.stack import CORES, ChaosStack
from tests.chaos.weather import REFUSALS, Weather
from threadline.cases.model import bug_workflow_id
from threadline.conversations.model.conversation import conversation_workflow_id
from threadline.errors import Permanent, Transient
from threadline_devstack.processes import poll

AIM = 3.0
"""Seconds for which a fault waits for its moment, such as a running turn."""
TRIES = 10
"""Attempts to find a running workflow to cancel or terminate."""

FORGETTING = 12.0
"""Seconds for which Slack's history shows nothing old: the catch-up makes a pass every 4 s."""

REFUSAL = 6.0
"""Seconds for which Slack refuses the bot."""
AWAY = 25.0
"""Seconds for which the agents' worker is away: the stack's workers notice after 12 s, and look
every 4 s.
"""

_POSTS_IN_DOUBT = text("SELECT count(*) FROM posts WHERE ts IS NULL")
_RUNNING = text("SELECT count(*) FROM agent_turns WHERE status = 'running'")
_SLACK_SHARES = {
    "slack gives up": ("dropped", 0.25),
    "duplicates": ("duplicated", 0.3),
    "late and out of order": ("delayed", 0.5),
    "answers lost after storing": ("error_after", 0.15),
    "slow answers": ("slow", 0.08),
    "rate limits": ("rate_limited", 0.2),
    "errors before storing": ("error_before", 0.2),
}
_RATES = {
    "model overloaded": {"overloaded": 0.25},
    "model slow": {"longest": 3.0},
    "model breaks off": {"broken_off": 0.15, "lost_before": 0.1, "lost_after": 0.1},
    "disk full": {"disk_full": 0.25},
    "results late and lost": {"result_delay": 0.5, "result_lost": 0.05},
}
_FULL_DISKS = ("nr_inodes=1", "nr_inodes=3", "nr_inodes=5", "nr_inodes=8", "nr_inodes=64")
"""Mount options of file systems of one page. On the first, creating any file fails with ENOSPC; on
the others, a step of `git init` or of the clone fails.
"""

Strike = Callable[[str], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class EndedRun:
    """A workflow run that an operator cancelled or terminated.

    A terminated run loses the signals that it has not stored yet.
    """

    workflow_id: str
    run_id: str


@dataclass
class Faults:
    """Injects the plan's faults. `people` know the existing cases and conversations."""

    stack: ChaosStack
    plan: Plan
    people: People
    terminated: list[EndedRun] = field(default_factory=list)
    cancelled: list[EndedRun] = field(default_factory=list)
    refusals: list[tuple[float, float]] = field(default_factory=list)
    """Spans in which Slack refused the bot, in seconds since 1970."""
    struck: set[str] = field(default_factory=set)
    """Kinds of faults of which at least one hit its target."""

    def __post_init__(self) -> None:
        self._weather = Weather(seeded_random(f"weather:{self.plan.seed}"))
        self._random = seeded_random(f"disks:{self.plan.seed}")

    async def play(self) -> None:
        """Inject all faults; return after the last one has struck and its target is back."""
        self._begin()
        if "disk full" in self.plan.kinds and not self.plan.real:
            await self._mount_disk_of_the_script()
        began = time.monotonic()
        async with asyncio.TaskGroup() as together:
            for fault in self.plan.faults:
                together.create_task(self._strike(fault, began))
            if self.plan.real:
                together.create_task(self._disturb_real_agent())

    async def end(self) -> None:
        await unmount(self._disk_of_the_script)
        self.stack.slack.faults.clear()
        self.stack.clock.coarse = False
        self.stack.set_rates(FaultRates())
        self.stack.note("nothing goes wrong any more")

    # -- lasting faults

    def _begin(self) -> None:
        kinds = set(self.plan.kinds)
        outage = self.plan.outage
        now = time.time()
        shares: dict[str, Any] = dict(
            share for kind, share in _SLACK_SHARES.items() if kind in kinds
        )
        self._weather = Weather(seeded_random(f"weather:{self.plan.seed}"), **shares)
        self.stack.slack.faults.chance = self._weather
        self.stack.clock.coarse = "equal timestamps" in kinds
        rates: dict[str, Any] = {"seed": str(self.plan.seed)}
        for kind in kinds & set(_RATES):
            rates |= _RATES[kind]
        if outage:
            rates |= {
                "outage_from": now + outage.at,
                "outage_until": now + outage.at + outage.seconds,
            }
        self.stack.set_rates(FaultRates(**rates))

    @property
    def _disk_of_the_script(self) -> Path:
        return self.stack.home.root / FULL_DISK

    async def _mount_disk_of_the_script(self) -> None:
        options = self._random.choice(_FULL_DISKS[1:])
        self._disk_of_the_script.mkdir(exist_ok=True)
        if await mount_full_disk(self._disk_of_the_script, options):
            self.stack.note(f"the scripted agent has a full disk ({options})")

    async def _disturb_real_agent(self) -> None:
        """Inject the faults of the model and the disk into the real agent as well."""
        for _ in range(3):
            await asyncio.sleep(2.0)
            if "model overloaded" in self.plan.kinds:
                self.stack.model.fail_next(4, status=529)
            if "model breaks off" in self.plan.kinds:
                self.stack.model.disconnect_next(4)
            if "disk full" in self.plan.kinds:
                await self._fill_disks(1.0)

    async def _fill_disks(self, seconds: float) -> None:
        """Fill the disk under the workspaces, and the one under the mirrors, which are cloned
        again meanwhile.
        """
        options = self._random.choice(_FULL_DISKS)
        async with asyncio.TaskGroup() as together:
            together.create_task(_fill_disk(self.stack, "cases", seconds, _FULL_DISKS[0]))
            together.create_task(_fill_disk(self.stack, "mirrors", seconds, options))

    # -- striking faults

    async def _strike(self, fault: TimedFault, began: float) -> None:
        await asyncio.sleep(max(0.0, began + fault.at - time.monotonic()))
        random = seeded_random(str(fault.seed))
        verb, _, target = fault.kind.partition(" ")
        strike = self.stack.kill if verb == "kill" else self.stack.stop
        special: dict[str, Callable[[], Awaitable[bool]]] = {
            "core in a post": lambda: self._strike_core_in_a_post(strike),
            "agents in a turn": lambda: self._strike_agents_in_a_turn(strike),
            "cli": lambda: self._kill_cli(random),
            "refreshed": lambda: self._disconnect(
                self.stack.slack.sockets.disconnect, "to be renewed"
            ),
            "cut": lambda: self._disconnect(self.stack.slack.sockets.cut, "cut"),
            "forgets": self._forget,
            "auth": lambda: self._refuse(random.choice(REFUSALS)),
            "away": self._send_agents_away,
            "": lambda: self._end_one(verb, self._cases, random),
            "a conversation": lambda: self._end_one(verb, self._conversations, random),
        }
        if target in special:
            hit = await special[target]()
        else:
            await strike(random.choice(CORES) if target == "core" else target)
            hit = True
        if hit:
            self.struck.add(fault.kind)

    async def _strike_core_in_a_post(self, strike: Strike) -> bool:
        """Strike both workers, since only one of them is executing the post that Slack answers
        slowly.
        """
        faults = self.stack.slack.faults
        faults.slow("chat.postMessage", 2.0)
        aimed = await _came(lambda: _always(not faults.ordered("chat.postMessage")))
        async with asyncio.TaskGroup() as together:
            for name in CORES:
                together.create_task(strike(name))
        return aimed

    async def _strike_agents_in_a_turn(self, strike: Strike) -> bool:
        aimed = await _came(self._turn_is_running)
        await strike("agents")
        return aimed

    async def _turn_is_running(self) -> bool:
        try:
            async with self.stack.database.begin() as tx:
                return bool(await tx.scalar(_RUNNING))
        except (Permanent, Transient):  # another fault may have hit Postgres
            return False

    async def _kill_cli(self, random: Random) -> bool:
        await _came(lambda: _always(bool(cli_processes(self.stack))))
        found = cli_processes(self.stack)
        if found:
            self.stack.note("kill -9 the CLI")
            random.choice(found).kill()
        return bool(found)

    async def _disconnect(self, action: Callable[[], Awaitable[int]], state: str) -> bool:
        sockets = await action()
        self.stack.note(f"{sockets} sockets are {state}")
        return sockets > 0

    async def _forget(self) -> bool:
        """Let Slack's history lose all earlier messages, for at least two passes of the catch-up.

        Only while no post is in doubt: a retry searches Slack for it, and would send it again.
        """
        if not await _came(self._no_post_is_in_doubt):
            return False
        workspace = self.stack.slack.workspace
        workspace.hidden_before = f"{time.time():.6f}"
        self.stack.note("Slack forgets all that was said by now")
        try:
            await asyncio.sleep(FORGETTING)
        finally:
            workspace.hidden_before = ""
            self.stack.note("Slack shows everything again")
        return True

    async def _refuse(self, error: str) -> bool:
        """Let Slack refuse the bot's token, or its messages."""
        weather = self._weather
        began = time.time()
        weather.refused = error
        self.stack.note(f"Slack answers {error}")
        try:
            await asyncio.sleep(REFUSAL)
        finally:
            weather.refused = ""
            self.refusals.append((began, time.time()))
            self.stack.note("Slack takes the bot's calls again")
        return True

    async def _send_agents_away(self) -> bool:
        await self.stack.send_away("agents", AWAY)
        return True

    async def _no_post_is_in_doubt(self) -> bool:
        try:
            async with self.stack.database.begin() as tx:
                return not await tx.scalar(_POSTS_IN_DOUBT)
        except (Permanent, Transient):
            return False

    def _cases(self) -> Sequence[str]:
        return [bug_workflow_id(each.thread) for each in self.people.cases]

    def _conversations(self) -> Sequence[str]:
        """Return the ids of conversations without a handover: a stopped turn is not handed
        over.
        """
        handovers = {each.thread for each in self.people.handovers}
        mine = [each.thread for each in self.people.conversations if each.thread not in handovers]
        return [conversation_workflow_id(each) for each in mine]

    async def _end_one(
        self, verb: str, which: Callable[[], Sequence[str]], random: Random
    ) -> bool:
        """Cancel or terminate one of the known workflow runs, if a running one is found within a
        few tries.

        Nothing needs to be written after a termination: the sweep starts the run again, and the
        catch-up finds the lost messages.
        """
        for _ in range(TRIES):
            if (known := which()) and (ended := await self._end_run(verb, random.choice(known))):
                (self.cancelled if verb == "cancel" else self.terminated).append(ended)
                return True
            await asyncio.sleep(0.1)
        return False

    async def _end_run(self, verb: str, workflow_id: str) -> EndedRun | None:
        handle = self.stack.client.get_workflow_handle(workflow_id)
        try:
            run = await handle.describe()
            if run.status is not WorkflowExecutionStatus.RUNNING or not run.run_id:
                return None
        except RPCError:  # Temporal is away
            return None
        exact = self.stack.client.get_workflow_handle(workflow_id, run_id=run.run_id)
        try:
            await (exact.cancel() if verb == "cancel" else exact.terminate("chaos"))
        except RPCError:
            if not await _was_ended(exact):  # else only the answer was lost, with Temporal
                return None
        self.stack.note(f"{verb} {workflow_id}")
        return EndedRun(workflow_id, run.run_id)


async def _was_ended(run: WorkflowHandle[Any, Any]) -> bool:
    """Return whether a run was terminated or received a cancel request, according to Temporal."""
    async for _ in poll(60.0, every=0.5):
        try:
            told = await run.describe()
        except RPCError:
            continue
        cancelled = told.raw_description.workflow_extended_info.cancel_requested
        return cancelled or told.status is WorkflowExecutionStatus.TERMINATED
    return False


async def _came(condition: Callable[[], Awaitable[bool]]) -> bool:
    """Wait for the moment that a fault aims at; return whether it came."""
    async for _ in poll(AIM, every=0.03):
        if await condition():
            return True
    return False


async def _always(truth: bool) -> bool:
    return truth


def cli_processes(stack: ChaosStack) -> list[psutil.Process]:
    """Return the processes of the Claude CLI under the agent worker."""
    try:
        children = psutil.Process(stack.family.pid("agents")).children(recursive=True)
        return [child for child in children if "claude" in " ".join(child.cmdline())]
    except psutil.NoSuchProcess:
        return []


async def _fill_disk(stack: ChaosStack, folder: str, seconds: float, options: str) -> None:
    """Mount a full file system over a folder of the workspaces; without the right to mount, put a
    file in its place.
    """
    place = stack.workspaces / folder
    if not place.is_dir():
        return
    if await mount_full_disk(place, options):
        stack.note(f"the disk under {folder} is full ({options})")
        try:
            await asyncio.sleep(seconds)
        finally:
            await unmount(place)
    else:
        stack.note(f"nothing can be written to {folder}")
        away = place.rename(place.with_name(f"{folder}.away"))
        place.write_text("")
        await asyncio.sleep(seconds)
        place.unlink()
        away.rename(place)
    stack.note(f"{folder} can be written again")


async def mount_full_disk(place: Path, options: str) -> bool:
    return await _run("mount", "-t", "tmpfs", "-o", f"size=4k,{options}", "tmpfs", str(place))


async def unmount(place: Path) -> None:
    await _run("umount", "--lazy", str(place))


async def _run(*command: str) -> bool:
    path = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env=path, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError:
        return False
    return await process.wait() == 0
