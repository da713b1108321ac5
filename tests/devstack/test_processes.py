"""Children of the devstack: each becomes ready or is named, they end in order, and none
survives.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from threadline.errors import Permanent
from threadline_devstack.processes import ChildCommand, ProcessGroup, poll, ready_on_event

READY = """print('{"event": "ready", "port": 7}', flush=True)"""
STAY = f"import time; {READY}; time.sleep(60)"


@pytest.fixture
async def family(tmp_path: Path) -> AsyncIterator[ProcessGroup]:
    family = ProcessGroup(tmp_path)
    yield family
    await family.stop_all([])


def script(name: str, source: str, *, within: float = 20.0, grace: float = 20.0) -> ChildCommand:
    arguments = (sys.executable, "-u", "-c", source)
    return ChildCommand(
        name, arguments, {"PATH": os.defpath}, ready_on_event("ready"), within=within, grace=grace
    )


async def test_a_ready_line_gives_its_facts(family: ProcessGroup) -> None:
    facts = await family.start(script("one", f"print('noise'); print('{{ready'); {STAY}"))
    assert facts["port"] == 7


async def test_a_child_that_fails_is_named_with_the_end_of_its_log(
    family: ProcessGroup, tmp_path: Path
) -> None:
    with pytest.raises(Permanent) as caught:
        await family.start(script("broken", "raise SystemExit('SLACK_BOT_TOKEN is not set')"))
    assert "broken ended with exit code 1" in str(caught.value)
    assert "SLACK_BOT_TOKEN is not set" in str(caught.value)
    assert str(tmp_path / "broken.log") in str(caught.value)


async def test_a_child_that_is_never_ready_is_named(family: ProcessGroup) -> None:
    with pytest.raises(Permanent, match="slow was not ready within 0 s"):
        await family.start(script("slow", "import time; time.sleep(60)", within=0.2))


async def test_a_child_sees_only_the_environment_that_was_chosen(
    family: ProcessGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-real")
    source = (
        "import os, json; print(json.dumps({'event': 'ready', 'names': sorted(os.environ)})); "
        f"{STAY}"
    )
    facts = await family.start(script("modest", source))
    assert set(facts["names"]) <= {"PATH", "LC_CTYPE"}


async def test_ctrl_c_in_the_terminal_does_not_reach_a_child(family: ProcessGroup) -> None:
    await family.start(script("apart", STAY))
    assert os.getsid(family.pid("apart")) != os.getsid(0)


async def test_tiers_are_stopped_in_order_and_the_rest_in_reverse(
    family: ProcessGroup, tmp_path: Path
) -> None:
    told = tmp_path / "ends"
    for name in ("first", "second", "third"):
        source = (
            "import signal, sys, time\n"
            f"def end(*_): open({str(told)!r}, 'a').write('{name} '); sys.exit()\n"
            f"signal.signal(signal.SIGTERM, end); {READY}; time.sleep(60)"
        )
        await family.start(script(name, source))
    await family.stop_all([["second"]])
    assert told.read_text() == "second third first "


async def test_a_child_that_ignores_sigterm_is_killed(family: ProcessGroup) -> None:
    source = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {STAY}"
    await family.start(script("stubborn", source, grace=0.2))
    pid = family.pid("stubborn")
    await family.stop("stubborn")
    assert not runs(pid)


async def test_processes_started_by_a_child_end_with_it(family: ProcessGroup) -> None:
    source = f"import subprocess, json; p = subprocess.Popen(['sleep', '60']); \
print(json.dumps({{'event': 'ready', 'pid': p.pid}})); {STAY}"
    facts = await family.start(script("parent", source))
    await family.kill("parent")
    async for _ in poll(10):
        if not runs(facts["pid"]):
            return
    pytest.fail("the grandchild survived")


async def test_a_killed_child_can_be_started_again(family: ProcessGroup) -> None:
    await family.start(script("phoenix", STAY))
    before = family.pid("phoenix")
    await family.kill("phoenix")
    ended = await family.until_one_ends()
    assert (ended.pid, ended.exit_code) == (before, -signal.SIGKILL)
    await family.restart("phoenix")
    assert runs(family.pid("phoenix"))
    assert family.pid("phoenix") != before


async def test_yesterdays_log_is_kept_next_to_todays(family: ProcessGroup, tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text("yesterday")
    await family.start(script("one", STAY))
    assert (tmp_path / "one.log.1").read_text() == "yesterday"
    assert "yesterday" not in (tmp_path / "one.log").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a death signal")
async def test_nothing_survives_a_killed_parent(tmp_path: Path) -> None:
    source = f"""
import asyncio, sys
from pathlib import Path
from threadline_devstack.processes import ChildCommand, ProcessGroup, ready_on_event
async def main():
    family = ProcessGroup(Path({str(tmp_path)!r}))
    command = (sys.executable, "-u", "-c", {STAY!r})
    await family.start(ChildCommand("ward", command, {{}}, ready_on_event("ready")))
    print(family.pid("ward"), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", source, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    ward = int(await parent.stdout.readline())
    assert runs(ward)
    parent.kill()
    await parent.wait()
    await gone(lambda: runs(ward))


async def gone(there: Callable[[], bool]) -> None:
    async for _ in poll(10):
        if not there():
            return
    pytest.fail("it is still there")


def runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
