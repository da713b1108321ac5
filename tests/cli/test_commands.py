"""The command line: help is fast, a fault is one sentence, and Ctrl-C ends cleanly."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from tests.cli.command import MACHINE, run_command
from tests.support.patience import patient
from threadline.cli import main
from threadline_devstack.state_folder import StateFolder


def test_help_names_every_command(tmp_path: Path) -> None:
    done = run_command(("--help",), {}, tmp_path)
    assert done.returncode == 0
    group = typer.main.get_command(main.app)
    assert isinstance(group, typer.core.TyperGroup)
    for name, command in group.commands.items():
        assert name in done.stdout
        for each in getattr(command, "commands", {name: command}).values():
            assert each.help or each.callback.__doc__, f"{name} {each.name} has no help text"


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    """Help imports only the product's commands: each command imports its dependencies when it
    runs.
    """
    source = (
        "import sys; import threadline.cli.main; print(*(name for name in sys.modules if "
        "name.partition('.')[0] in ('threadline', 'temporalio', 'sqlalchemy', 'slack_sdk', "
        "'openai', 'pydantic', 'structlog')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    loaded = {name for name in done.stdout.split() if not name.startswith("threadline.cli")}
    assert loaded == {"threadline", "threadline.errors"}


@pytest.mark.parametrize(
    ("command", "variable"),
    [
        ("gateway", "SLACK_BOT_TOKEN"),
        ("worker --queue core", "DATABASE_URL"),
        ("worker --queue agents", "THREADLINE_AGENT_DATABASE_URL"),
        ("codec", "THREADLINE_PAYLOAD_KEYS"),
        ("cases list", "DATABASE_URL"),
        ("explain C1/1700000000.000100", "DATABASE_URL"),
        ("knowledge list", "DATABASE_URL"),
        ("db upgrade", "DATABASE_URL"),
        ("db restored", "DATABASE_URL"),
    ],
)
def test_missing_variable_is_named_in_one_sentence(
    command: str, variable: str, tmp_path: Path
) -> None:
    done = run_command(tuple(command.split()), {}, tmp_path)
    assert done.returncode == 1
    [sentence] = done.stderr.splitlines()
    assert sentence.startswith("threadline: ")
    assert f"{variable} is not set" in sentence


def test_failing_process_ends_with_one_sentence_and_code_1(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "threadline", "explain", "C1/1700000000.000100"]
    done = subprocess.run(
        command,
        env=MACHINE,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=False,
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith("threadline: DATABASE_URL is not set")


def test_second_up_in_the_same_home_is_refused(tmp_path: Path) -> None:
    with StateFolder(tmp_path / "home").locked():
        done = run_command(("up",), {"THREADLINE_HOME": str(tmp_path / "home")}, tmp_path)
    assert done.returncode == 1
    assert f"already runs in {tmp_path / 'home'}" in done.stderr


def test_ctrl_c_while_up_starts_ends_it_cleanly(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with subprocess.Popen(
        [sys.executable, "-m", "threadline", "up"],
        env=MACHINE | {"THREADLINE_HOME": str(home)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        deadline = time.monotonic() + patient(30)
        while not (home / "logs").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=patient(60))
    assert process.returncode == 0, told
    assert "Everything is stopped." in told
    with StateFolder(home).locked():
        pass


@pytest.mark.parametrize(
    "secret",
    ["SLACK_BOT_TOKEN", "GITHUB_TOKEN", "DATABASE_URL", "OPENAI_API_KEY", "THREADLINE_SMTP_URL"],
)
def test_agents_worker_refuses_credentials_it_must_not_have(tmp_path: Path, secret: str) -> None:
    given = {
        "THREADLINE_AGENT_DATABASE_URL": "postgresql://threadline_agent@127.0.0.1:1/none",
        "ANTHROPIC_API_KEY": "sk-none",
        "THREADLINE_REPO": str(tmp_path),
        secret: "xoxb-none",
    }
    done = run_command(("worker", "--queue", "agents"), given, tmp_path)
    assert done.returncode == 1
    assert f"{secret} must not be set" in done.stderr
