"""Faults of the installation while a case is investigated: the case waits, the admin is told, nobody is called."""

import pytest

from tests.support.case_scene import HeldTurn, StartCase, outcome
from tests.support.temporal import skipping_time
from threadline.cases.model import Action, CaseLimits
from threadline.errors import Mendable, Permanent
from threadline_devstack.slack.identity import ESCALATIONS, REPORTS, SUMMARIES


@pytest.mark.parametrize("cause", ["disk", "repository shop", "model key", "model credit", "model name", "cli"])
async def test_case_waits_for_the_admin_and_goes_on_by_itself(start_case: StartCase, cause: str) -> None:
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
        said = " ".join(each for channel in (REPORTS, SUMMARIES, ESCALATIONS) for each in scene.said(channel))
        assert [leak for leak in LEAKS if leak in said] == []


async def test_case_tells_once_that_it_waits_for_the_agents_worker(
    start_case: StartCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unserved(*_: object) -> bool:
        return False

    monkeypatch.setattr("threadline.wiring.workers.is_served", unserved)
    turn = HeldTurn()
    async with start_case(turn, limits=CaseLimits(worker_patience=2.0)) as scene:
        await scene.report()
        await turn.began.wait()
        await scene.until_said("because my worker is not running")
        assert scene.times_said("because my worker is not running") == 1
        assert scene.times_said("--queue agents", ESCALATIONS) == 1, "the admin reads this channel"
        turn.finish.set()
        await scene.until_status("investigating", "pending_verification")


async def test_case_without_any_agents_worker_goes_on_when_one_starts(start_case: StartCase) -> None:
    """Temporal itself says that nobody polls the queue."""
    turn = outcome(Action.POST_FINDINGS)
    async with start_case(turn, limits=CaseLimits(worker_patience=2.0), agents_away=True) as scene:
        await scene.report()
        await scene.until_said("because my worker is not running")
        await scene.until_said("--queue agents", ESCALATIONS)
        assert scene.agent.requests == []
        async with scene.agents_worker():
            await scene.until_status("investigating", "pending_verification")
        assert scene.times_said("because my worker is not running") == 1
        assert scene.times_said("--queue agents", ESCALATIONS) == 1
        assert scene.times_said("found it", SUMMARIES) == 1
        assert scene.times_said("needs a person", ESCALATIONS) == 0


async def test_worker_that_goes_away_after_the_first_look_is_noticed(
    start_case: StartCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that waits behind others in the queue was served when it was first looked for."""
    looks = [True, True]

    async def served(*_: object) -> bool:
        return bool(looks and looks.pop())

    monkeypatch.setattr("threadline.wiring.workers.is_served", served)
    turn = HeldTurn()
    async with start_case(turn, limits=CaseLimits(worker_patience=0.5)) as scene:
        await scene.report()
        await turn.began.wait()
        await scene.until_said("because my worker is not running")
        turn.finish.set()
        await scene.until_status("investigating", "pending_verification")
        assert scene.times_said("because my worker is not running") == 1
