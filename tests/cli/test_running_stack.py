"""Commands take the settings of the running stack as a whole or not at all; and addresses that
processes listen on.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from threadline.cli.connections import use_running_stack
from threadline.cli.run import parse_address
from threadline.errors import Permanent
from threadline_devstack.state_folder import StateFolder

STACK = {
    "DATABASE_URL": "postgresql://owner@127.0.0.1:1/stack",
    "SLACK_BOT_TOKEN": "xoxb-sandbox",
    "SLACK_API_URL": "http://127.0.0.1:2/api/",
    "TEMPORAL_ADDRESS": "127.0.0.1:3",
    "THREADLINE_LOG_LEVEL": "INFO",
}


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateFolder]:
    """A stack that runs in THREADLINE_HOME, in an environment without other settings."""
    for name in [
        name
        for name in os.environ
        if name.startswith(("SLACK_", "TEMPORAL_", "DATABASE_URL", "THREADLINE_"))
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "environ", dict(os.environ) | {"THREADLINE_HOME": str(tmp_path)})
    home = StateFolder(tmp_path)
    with home.locked():
        home.write_settings(STACK)
        yield home


def taken() -> dict[str, str]:
    return {name: os.environ[name] for name in STACK if name in os.environ}


@pytest.mark.parametrize("own", [{}, {"SLACK_BOT_TOKEN": ""}, {"SLACK_BOT_TOKEN": "xoxb-sandbox"}])
def test_settings_of_a_running_stack_are_taken_as_a_whole(
    stack: StateFolder, own: dict[str, str]
) -> None:
    os.environ.update(own)
    use_running_stack()
    assert taken() == STACK


def test_settings_that_name_no_system_stay_unchanged(stack: StateFolder) -> None:
    os.environ["THREADLINE_LOG_LEVEL"] = "DEBUG"
    use_running_stack()
    assert taken() == STACK | {"THREADLINE_LOG_LEVEL": "DEBUG"}


@pytest.mark.parametrize(
    "own",
    [
        {"SLACK_BOT_TOKEN": "xoxb-real"},
        {"TEMPORAL_API_KEY": "key"},
        {"DATABASE_URL": "postgresql://real/real"},
    ],
)
def test_stack_is_not_mixed_with_another_system(
    stack: StateFolder, own: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    os.environ.update(own)
    use_running_stack()
    assert taken() == {name: value for name, value in own.items() if name in STACK}
    assert f"is not used, since {next(iter(own))} is set here" in capsys.readouterr().err


def test_folder_without_a_running_stack_names_nothing(
    stack: StateFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    os.environ |= {"THREADLINE_HOME": str(stack.root / "other"), "SLACK_BOT_TOKEN": "xoxb-real"}
    use_running_stack()
    assert (taken(), capsys.readouterr().err) == ({"SLACK_BOT_TOKEN": "xoxb-real"}, "")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:3000", "127.0.0.1", 3000),
        ("[::1]:3000", "::1", 3000),
        ("[::]:0", "::", 0),
        ("gw:1", "gw", 1),
    ],
)
def test_address_names_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize(
    "text", ["3000", ":3000", "[]:3000", "localhost", "localhost:", "localhost:http", "::1:3000"]
)
def test_other_forms_of_an_address_are_refused(text: str) -> None:
    with pytest.raises(
        Permanent, match=r"write it as HOST:PORT, such as 127\.0\.0\.1:3000 or \[::1\]:3000"
    ):
        parse_address(text)
