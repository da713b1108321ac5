"""The devstack's folder and ports."""

import fcntl
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from threadline.errors import Permanent
from threadline_devstack import environment
from threadline_devstack.processes import BELOW_EPHEMERAL, FreePorts
from threadline_devstack.stack import Stack, StackOptions
from threadline_devstack.state_folder import StateFolder


def test_a_second_stack_in_the_same_home_names_the_first(tmp_path: Path) -> None:
    # Another process: on some systems, locks of one process do not exclude each other.
    source = f"""
from pathlib import Path
from threadline_devstack.stack import Stack, StackOptions
from threadline_devstack.state_folder import StateFolder
with StateFolder(Path({str(tmp_path)!r})).locked():
    print("held", flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(Permanent, match=rf"already runs in .* \(process {other.pid}\)"),
            StateFolder(tmp_path).locked(),
        ):
            pass
        other.communicate("\n")
    with StateFolder(tmp_path).locked():
        pass


def test_a_new_stack_starts_while_another_command_looks_for_a_running_one(tmp_path: Path) -> None:
    with StateFolder(tmp_path).locked():
        pass
    with (tmp_path / "lock").open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        looked = threading.Timer(0.2, fcntl.flock, (reader, fcntl.LOCK_UN))
        looked.start()
        try:
            with StateFolder(tmp_path).locked():
                pass
        finally:
            looked.join()


def test_a_home_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(Permanent, match="Set THREADLINE_HOME to another folder"),
        StateFolder(tmp_path / "file").locked(),
    ):
        pass


def test_settings_are_published_only_to_their_owner_and_only_while_the_stack_runs(
    tmp_path: Path,
) -> None:
    home = StateFolder(tmp_path)
    assert home.read_settings() == {}
    with home.locked():
        home.write_settings({"DATABASE_URL": "postgresql://…"})
        assert StateFolder(tmp_path).read_settings() == {"DATABASE_URL": "postgresql://…"}
        assert stat.S_IMODE((tmp_path / "running.json").stat().st_mode) == 0o600
    assert StateFolder(tmp_path).read_settings() == {}


def test_settings_of_a_stack_that_was_killed_are_not_believed(tmp_path: Path) -> None:
    home = StateFolder(tmp_path)
    with home.locked():
        pass
    home.write_settings({"DATABASE_URL": "postgresql://gone"})
    assert home.read_settings() == {}


def test_the_usual_port_is_taken_if_it_is_free() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert FreePorts(usual=True).take(port) != port
    assert FreePorts(usual=True).take(port) == port
    assert FreePorts(usual=False).take(port) != port


def test_a_port_is_given_out_once() -> None:
    ports = FreePorts(usual=True)
    first = FreePorts(usual=False).take(0)
    assert ports.take(first) == first
    assert ports.take(first) != first


def test_a_port_is_outside_the_range_that_the_system_assigns() -> None:
    """Temporal's server once used a port for one of its own listeners that was meant for
    another.
    """
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        assert any_port.getsockname()[1] not in BELOW_EPHEMERAL
    ports = FreePorts(usual=False)
    taken = [ports.take(0) for _ in range(200)]
    assert len(set(taken)) == len(taken)
    assert set(taken) <= set(BELOW_EPHEMERAL)


def test_the_agents_process_gets_no_secret_of_the_others() -> None:
    everything = dict.fromkeys((*environment.GATEWAY, *environment.CORE, *environment.AGENTS), "x")
    told = environment.pick(everything, environment.AGENTS)
    assert not [
        name for name in told if name.startswith(("SLACK_", "GITHUB_", *environment.SERVICES))
    ]
    assert "DATABASE_URL" not in told
    assert {"THREADLINE_AGENT_DATABASE_URL", "ANTHROPIC_API_KEY"} <= set(told)


def test_a_service_with_partial_settings_belongs_to_the_caller() -> None:
    assert (
        environment.without_a_service({"GITHUB_TOKEN": "x", "THREADLINE_JIRA_URL": ""})
        == environment.SERVICES
    )
    assert environment.without_a_service({"THREADLINE_JIRA_URL": "https://acme.example"}) == (
        "THREADLINE_GITHUB_",
    )
    assert environment.without_a_service(dict.fromkeys(environment.CORE, "x")) == ()


def test_a_fresh_start_removes_only_the_data_of_a_stack(tmp_path: Path) -> None:
    """The folder may contain unrelated files of its owner."""
    home = StateFolder(tmp_path)
    mine = tmp_path / "thesis.txt"
    mine.write_text("words")
    with home.locked():
        for folder in ("postgres", "temporal", "workspaces", "sample-shop.git"):
            (tmp_path / folder / "inside").mkdir(parents=True)
        for name in ("slack.db", "slack.db-wal", "slack.db-shm"):
            (tmp_path / name).write_text("x")
        home.clear()
        assert sorted(each.name for each in tmp_path.iterdir()) == ["lock", "logs", "thesis.txt"]
    assert mine.read_text() == "words"


@pytest.mark.parametrize("name", ["DATABASE_URL", "TEMPORAL_ADDRESS", "SLACK_BOT_TOKEN"])
async def test_a_fresh_start_is_refused_if_a_part_is_outside_of_the_folder(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "slack.db").write_text("x")
    with pytest.raises(Permanent, match=f"--fresh removes what this folder holds, and {name}"):
        async with Stack.running(tmp_path, StackOptions(given={name: "elsewhere"}, fresh=True)):
            pass
    assert (tmp_path / "slack.db").exists()
