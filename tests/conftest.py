"""Fixtures and hooks of all tests, the profiles of property tests, and the setup and the exit of
the test process.
"""

import gc
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.replay import histories
from tests.replay.recorder import recording
from tests.support.case_store import scene
from tests.support.conversation_store import other, talk
from tests.support.patience import patient
from tests.support.postgres import (
    agent_database,
    agent_url,
    database,
    database_url,
    empty_url,
    postgres,
)
from tests.support.temporal import BATCHED, activation_order, end_servers
from threadline.cli.process import GC_THRESHOLDS

__all__ = [
    "activation_order",
    "agent_database",
    "agent_url",
    "database",
    "database_url",
    "empty_url",
    "other",
    "postgres",
    "scene",
    "talk",
]
"""Imported only here: each module that imports `postgres` would get a server of its own."""

_status = pytest.ExitCode.OK

# No example has a deadline: the machine may be busy. A run of all tests gives the same result for
# the same code each time; `make fuzz` searches for unforeseen inputs.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Every number of examples derives from the profile's (tests/support/examples.py).
settings.register_profile("same", _patient, max_examples=100, derandomize=True)
settings.register_profile("explore", _patient, max_examples=1_000, print_blob=True)
settings.load_profile("same")


# structlog's default renderer formats each traceback with rich, which takes more than a second.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
)


_configure = structlog.configure


def _configure_without_cache(**options: Any) -> None:
    _configure(**(options | {"cache_logger_on_first_use": False}))


mock.patch.object(structlog, "configure", _configure_without_cache).start()
"""Forbid cached loggers, which would keep one test's configuration for the tests that follow."""


@pytest.fixture(autouse=True)
def logging_kept() -> Iterator[None]:
    """Restore the process's logging after a test let the product configure it."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    level = root.level
    before = structlog.get_config()
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.configure(**before)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record", action="store_true", help="write the histories of tests marked `records` anew"
    )


@pytest.fixture(autouse=True)
def recorded_histories(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--record`, write the histories of the workflows of a test marked `records(name)`."""
    marker = request.node.get_closest_marker("records")
    if marker is None or not request.config.getoption("--record") or BATCHED in request.node.name:
        yield
        return
    with recording() as made:
        yield
    assert made.histories, "the test ran no workflow on a server of tests/support/temporal.py"
    histories.write(marker.args[0], made.histories)


SLOW = ("bench", "chaos", "evals", "journeys", "limits", "scale")
"""Folders whose tests start whole stacks or many processes."""
FIRST_STORY = "tests/journeys/test_story.py"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Scale the limit of a whole test as all waits, unless the command line sets one."""
    if config.option.timeout is None:
        config.option.timeout = patient(float(config.getini("timeout")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow folders and the tests that run alone, and scale the tests' own limits; one
    whole story of the product stays in `make test`.
    """
    for item in items:
        folder, _, _ = item.nodeid.removeprefix("tests/").partition("/")
        in_slow = folder in SLOW and not item.nodeid.startswith(FIRST_STORY)
        if in_slow or item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.slow)
        if limit := item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(patient(limit.args[0])), append=False)
    items.sort(
        key=lambda item: "_workflow.py" not in item.nodeid
    )  # the long files first, so that workers end together


def pytest_collection_finish() -> None:
    """Run the garbage collector as rarely as the product's workers do, and freeze imported
    objects: with thousands of tests, a collection stops everything for so long that Temporal takes
    a workflow for stuck.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(exitstatus: int | pytest.ExitCode) -> None:
    global _status
    _status = pytest.ExitCode(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Exit without tearing the interpreter down: Temporal's core sometimes aborts in it, after a
    green run.

    See https://github.com/temporalio/sdk-python/issues/300.
    """
    end_servers()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_status)
