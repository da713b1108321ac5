"""How the test process ends."""

import os
import sys

import pytest

_status = pytest.ExitCode.OK


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(exitstatus: int | pytest.ExitCode) -> None:
    global _status
    _status = pytest.ExitCode(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Leave without tearing the interpreter down: Temporal's core sometimes aborts in it, after a green run.

    See https://github.com/temporalio/sdk-python/issues/300.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_status)
