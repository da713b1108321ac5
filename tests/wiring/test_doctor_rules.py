"""Doctor's judgement on the machine."""

import os
from pathlib import Path

import pytest

from threadline.errors import Permanent
from threadline.wiring import doctor


def test_clock_that_is_far_off_is_reported() -> None:
    close = doctor.check_clocks({"Slack's": 0.4, "Postgres'": -3})
    assert close == "within 1 s of Slack's, within 3 s of Postgres'"
    with pytest.raises(Permanent, match="clock is 90 s behind Slack's"):
        doctor.check_clocks({"Slack's": -90.0})
    with pytest.raises(Permanent, match="clock is 61 s ahead of Postgres'"):
        doctor.check_clocks({"Slack's": 0.0, "Postgres'": 61.0})


@pytest.mark.parametrize(
    "told", ["git version 2.38.0", "git version 2.39.5 (Apple Git-154)", "git version 3.0.1"]
)
def test_git_from_2_38_is_accepted(told: str) -> None:
    assert doctor.check_git_version(told) == told


@pytest.mark.parametrize("told", ["git version 2.37.7", "git version 1.99.0", "no such thing"])
def test_older_or_no_git_is_refused(told: str) -> None:
    with pytest.raises(Permanent, match=r"install git 2\.38"):
        doctor.check_git_version(told)


@pytest.mark.parametrize("version", ["16.4 (Debian 16.4-1)", "9.6", "devel"])
def test_postgres_without_transaction_timeout_is_refused(version: str) -> None:
    assert doctor.check_postgres_version("17.2") == "Postgres 17.2 is reachable"
    with pytest.raises(Permanent, match="use Postgres 17 or newer"):
        doctor.check_postgres_version(version)


def test_workspace_folder_need_not_exist_but_needs_room(tmp_path: Path) -> None:
    assert "can be written to" in doctor.check_folder(tmp_path / "not" / "yet")
    with pytest.raises(Permanent, match="MiB are free"):
        doctor.check_folder(tmp_path, least=1 << 60)


@pytest.mark.skipif(
    os.geteuid() == 0, reason="root writes anywhere but in a file system that is read-only"
)
def test_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(Permanent, match="cannot be written to"):
        doctor.check_folder(tmp_path / "workspaces")


@pytest.mark.skipif(
    not Path("/proc/sys").is_dir(), reason="a place where nobody writes, also not as root"
)
def test_read_only_folder_is_refused() -> None:
    with pytest.raises(Permanent, match="cannot be written to"):
        doctor.check_folder(Path("/proc/sys/workspaces"))
