"""A service ends when a signal asks it to."""

import os
import signal
import subprocess
import sys

from tests.support.patience import patient
from threadline_devstack import environment

SERVICE = """
import asyncio
from threadline.cli import process

process.SHUTDOWN_LIMIT = 0.2

async def service(stop):
    print("ready", flush=True)
    await stop.wait()
    {then}

process.run_service(service)
"""


def ended(then: str) -> tuple[int, str]:
    """Return the exit code and stderr of a service that was asked to stop."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVICE.format(then=then)],
        env=environment.pick(os.environ, environment.MACHINE),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=patient(30))
    return process.returncode, said


def test_service_that_is_asked_to_stop_ends() -> None:
    assert ended("pass") == (0, "")


def test_service_that_does_not_end_exits_with_code_1() -> None:
    code, said = ended("await asyncio.Event().wait()")
    assert code == 1
    assert "did not stop within" in said


def test_imports_of_a_service_are_frozen_for_the_collector() -> None:
    assert ended("import gc; assert gc.get_freeze_count() > 10_000") == (0, "")
