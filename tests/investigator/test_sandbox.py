"""The wrapper around the CLI: the environment and arguments that it passes on, and its end. A
program takes the CLI's place.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import claude_agent_sdk
import psutil  # type: ignore[import-untyped]
import pytest

from tests.support.patience import patient
from threadline.errors import Permanent
from threadline.investigator import sandbox_exec
from threadline.investigator.sandbox import Sandbox, find_cli

PRINTS_ITSELF = """#!{python}
import json, os, sys
print(json.dumps([sys.argv[1:], dict(os.environ)]))
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    cli = tmp_path / "a folder" / "cli"
    cli.parent.mkdir()
    cli.write_text(PRINTS_ITSELF.format(python=sys.executable))
    cli.chmod(0o755)
    return cli


@pytest.fixture
def home(stand_in: Path) -> Iterator[Sandbox]:
    made = Sandbox(stand_in, {"ANTHROPIC_API_KEY": "key", "EXTRA": "one"})
    yield made
    made.remove()


def _run(home: Sandbox, *arguments: str) -> tuple[list[str], dict[str, str]]:
    told = {
        **os.environ,
        "DATABASE_URL": "postgresql://owner:hunter2@db",
        "SLACK_BOT_TOKEN": "xoxb",
        **home.environment,
    }
    done = subprocess.run(
        [home.launcher, *arguments], env=told, capture_output=True, text=True, check=True
    )
    argv, environment = json.loads(done.stdout)
    return argv, environment


def test_only_named_variables_and_all_arguments_reach_the_cli(home: Sandbox) -> None:
    arguments = ["--model", "a b", "", "--", "it's $HOME `id`", "-x=\n"]
    argv, environment = _run(home, *arguments)
    assert argv == arguments
    assert environment.keys() >= home.environment.keys() | {"PATH"}
    allowed = {
        "PATH",
        "PWD",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
    }
    assert environment.keys() <= home.environment.keys() | allowed | {"HTTPS_PROXY", "NO_PROXY"}
    assert environment["EXTRA"] == "one"
    assert "hunter2" not in json.dumps(environment)
    assert "key" not in home.launcher.read_text().split()


def test_wrapper_costs_little(home: Sandbox) -> None:
    """The least CPU time of several runs, as a multiple of that of the stand-in alone, which is
    also a Python process: on a busy machine both take longer.
    """
    bare = min(_cpu_seconds([sys.executable, "-I", "-c", "import json"]) for _ in range(5))
    wrapped = min(_cpu_seconds([str(home.launcher)]) for _ in range(5))
    assert wrapped < 3 * bare


def test_cli_is_killed_by_the_id_that_it_left(tmp_path: Path) -> None:
    cli = tmp_path / "cli"
    cli.write_text("#!/bin/sh\nexec sleep 60\n")
    cli.chmod(0o755)
    home = Sandbox(cli, {})
    process = subprocess.Popen([home.launcher], env=dict(os.environ))
    deadline = time.monotonic() + patient(10)
    while process.poll() is None and time.monotonic() < deadline:
        home.kill()
    assert process.wait() == -9
    home.kill()
    home.remove()
    assert not home.launcher.exists()


def test_wrapper_of_a_worker_that_is_gone_does_not_start_the_cli(home: Sandbox) -> None:
    """The wrapper finds a process in between as its parent, and not the one that it was given."""
    between = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    command = [sys.executable, "-c", between, str(home.launcher)]
    done = subprocess.run(
        command, env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "worker" in done.stderr
    assert done.stdout == ""


def test_missing_cli_is_permanent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK was installed without its CLI, and there is none on the path."""
    monkeypatch.setattr(claude_agent_sdk, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Permanent, match="CLI is missing"):
        find_cli()


def _cpu_seconds(command: list[str]) -> float:
    """Return the CPU time of a command and of the processes that it has waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


WARD = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import sandbox_exec
sandbox_exec.spawn_watchdog(os.getppid(), interval=0.05)
print(os.getpid(), flush=True)
time.sleep(60)
"""
WORKER = "import subprocess, sys; subprocess.call([sys.executable, '-c', *sys.argv[1:]])"


def test_watchdog_ends_the_cli_of_a_worker_that_was_killed() -> None:
    """macOS uses this in place of the death signal; it works on every Unix, so it is tested
    here.
    """
    folder = str(Path(sandbox_exec.__file__).parent)
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, WARD, folder], stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        ward = int(worker.stdout.readline())
        worker.kill()
        worker.wait()
        # The end of the pipe shows that neither the ward nor its watchdog holds it.
        assert worker.stdout.read() == ""
    deadline = time.monotonic() + patient(5)
    while psutil.pid_exists(ward) and psutil.Process(ward).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
