"""Faults of the installation while a case is investigated: the case waits, the admin gets a
message, and no person is called.
"""

import asyncio
from typing import Any

import pytest

from tests.support.case_scene import REPORTER, HeldTurn, StartCase, outcome
from tests.support.temporal import skipping_time
from threadline.cases.model import Action, CaseLimits, TurnEnded, session_id
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.engine import Database
from threadline.errors import Mendable, Permanent
from threadline.investigator.store import AgentStore, TurnClaim
from threadline.slack.model import Thread
from threadline.threads.model import MessageKind, SenderType
from threadline_devstack.slack.identity import ESCALATIONS, REPORTS, SUMMARIES


@pytest.mark.parametrize(
    "cause", ["disk", "repository shop", "model key", "model credit", "model name", "cli"]
)
async def test_case_waits_for_the_admin_and_continues_by_itself(
    start_case: StartCase, cause: str
) -> None:
    broken = [Mendable("Mend it.", kind="investigation", subject=cause)] * 40
    async with start_case(*broken, outcome(Action.POST_FINDINGS), server=skipping_time) as scene:
        await scene.report()
        await scene.until_said("has to be repaired")
        await scene.later(hours=4)
        await scene.until_status("investigating", "pending_verification")
        assert scene.times_said("has to be repaired") == 1
        assert scene.times_said("needs a person", ESCALATIONS) == 0
        assert scene.times_said("Mend it.", ESCALATIONS) == 1, "the admin reads this channel"
        assert scene.times_said("found it", SUMMARIES) == 1


RAW = [
    "git init failed: could not create /srv/threadline/mirrors/shop.git: Permission denied",
    'Traceback (most recent call last): File "/app/x.py", line 3, in run',
    "[Errno 28] No space left on device: '/var/lib/threadline/cases/BUG-1'",
    "KeyError('session_id')",
    "could not clone shop from https://git.corp.internal/shop.git: returned error: 403",
    "The agent's process failed; check its settings. It said: OSError: /root/.claude.json",
    "connection to 10.0.0.7:5432 refused",
    "<psycopg.Connection object at 0x7f3a2b1c9d00>",
]
LEAKS = (
    "/srv/",
    "/app/",
    "/var/",
    "/root/",
    "Traceback",
    "Errno",
    "KeyError",
    "OSError",
    "corp.internal",
    "10.0.0.7",
    "0x7f",
)


@pytest.mark.parametrize("text", RAW)
async def test_text_of_an_exception_never_reaches_slack(start_case: StartCase, text: str) -> None:
    async with start_case(Permanent(text)) as scene:
        await scene.report()
        await scene.until_status("escalated")
        said = " ".join(
            each for channel in (REPORTS, SUMMARIES, ESCALATIONS) for each in scene.said(channel)
        )
        assert [leak for leak in LEAKS if leak in said] == []


class AwayWorker:
    """Reports no poller of the agents' queue after `looks_served` looks, and holds turns until
    `back` is set.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.back = asyncio.Event()
        self.looked_for = asyncio.Event()
        self.looks_served = 0
        self._patch = patch
        patch.setattr("threadline.wiring.cases.is_served", self._is_served)

    async def _is_served(self, *_: object) -> bool:
        self.looked_for.set()
        self.looks_served -= 1
        return self.looks_served >= 0

    def hold_claims(self, turns: AgentStore) -> None:
        claim = turns.claim

        async def once_back(*args: Any) -> TurnClaim | TurnEnded:
            await self.back.wait()
            return await claim(*args)

        self._patch.setattr(turns, "claim", once_back)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> AwayWorker:
    return AwayWorker(monkeypatch)


WAITS = "because my worker is not running"


async def test_case_posts_once_that_it_waits_for_the_agents_worker(
    start_case: StartCase, away: AwayWorker
) -> None:
    async with start_case(limits=CaseLimits(worker_patience=2.0)) as scene:
        away.hold_claims(scene.agent.turns)
        await scene.report()
        await scene.until_said(WAITS)
        assert scene.times_said(WAITS) == 1
        assert scene.times_said("--queue agents", ESCALATIONS) == 1, "the admin reads this channel"
        away.back.set()
        await scene.until_status("investigating", "pending_verification")


async def test_worker_that_is_busy_with_the_turn_is_not_taken_for_absent(
    start_case: StartCase, away: AwayWorker
) -> None:
    turn = HeldTurn()
    async with start_case(turn, limits=CaseLimits(worker_patience=2.0)) as scene:
        await scene.report()
        await turn.began.wait()
        await away.looked_for.wait()
        await scene.until_only_the_turn_runs()
        turn.finish.set()
        await scene.until_status("investigating", "pending_verification")
        assert scene.times_said(WAITS) == 0
        assert scene.times_said("--queue agents", ESCALATIONS) == 0


async def test_worker_that_is_busy_with_other_turns_is_not_taken_for_absent(
    start_case: StartCase, away: AwayWorker, database: Database, agent_database: Database
) -> None:
    async with start_case(limits=CaseLimits(worker_patience=2.0)) as scene:
        away.hold_claims(scene.agent.turns)
        thread = Thread(scene.thread.team, scene.thread.channel, "2.000001")
        report = scene.message(
            MessageKind.REPORT, SenderType.REPORTER, REPORTER, "Login fails", thread.ts
        )
        async with database.begin() as tx:
            await CaseMessageStore(tx).flush(thread, [report], start_turn=True, number=7)
        claimed = await AgentStore(agent_database).claim(
            "BUG-7", 1, 1, session_id("BUG-7", 1, 1), 60.0
        )
        assert isinstance(claimed, TurnClaim)
        await scene.report()
        await away.looked_for.wait()
        await scene.until_only_the_turn_runs()
        away.back.set()
        await scene.until_status("investigating", "pending_verification")
        assert scene.times_said(WAITS) == 0
        assert scene.times_said("--queue agents", ESCALATIONS) == 0


async def test_case_without_an_agents_worker_continues_when_one_starts(
    start_case: StartCase,
) -> None:
    """Temporal itself reports that no worker polls the queue."""
    turn = outcome(Action.POST_FINDINGS)
    async with start_case(turn, limits=CaseLimits(worker_patience=2.0), agents_away=True) as scene:
        await scene.report()
        await scene.until_said(WAITS)
        await scene.until_said("--queue agents", ESCALATIONS)
        assert scene.agent.requests == []
        async with scene.agents_worker():
            await scene.until_status("investigating", "pending_verification")
        assert scene.times_said(WAITS) == 1
        assert scene.times_said("--queue agents", ESCALATIONS) == 1
        assert scene.times_said("found it", SUMMARIES) == 1
        assert scene.times_said("needs a person", ESCALATIONS) == 0


async def test_worker_that_goes_away_after_the_first_look_is_noticed(
    start_case: StartCase, away: AwayWorker
) -> None:
    """A turn that waits for others in the queue was served at the first look."""
    away.looks_served = 1
    async with start_case(limits=CaseLimits(worker_patience=0.5)) as scene:
        away.hold_claims(scene.agent.turns)
        await scene.report()
        await scene.until_said(WAITS)
        away.back.set()
        await scene.until_status("investigating", "pending_verification")
        assert scene.times_said(WAITS) == 1
