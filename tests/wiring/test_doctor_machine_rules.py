"""What doctor makes of what it finds around the product."""

import os
from pathlib import Path

import pytest

from threadline.errors import Permanent
from threadline.wiring import doctor_machine as surroundings
from threadline_devstack.slack import SlackSandbox, identity


def test_a_clock_that_is_far_off_is_told_by_whom_and_how_far() -> None:
    assert (
        surroundings.judge_clocks({"Slack's": 0.4, "Postgres'": -3}) == "within 1 s of Slack's, within 3 s of Postgres'"
    )
    with pytest.raises(Permanent, match="clock is 90 s behind Slack's"):
        surroundings.judge_clocks({"Slack's": -90.0})
    with pytest.raises(Permanent, match="clock is 61 s ahead of Postgres'"):
        surroundings.judge_clocks({"Slack's": 0.0, "Postgres'": 61.0})


@pytest.mark.parametrize("told", ["git version 2.38.0", "git version 2.39.5 (Apple Git-154)", "git version 3.0.1"])
def test_a_git_that_can_merge_trees_is_enough(told: str) -> None:
    assert surroundings.judge_git(told) == told


@pytest.mark.parametrize("told", ["git version 2.37.7", "git version 1.99.0", "", "no such thing"])
def test_an_older_git_is_not(told: str) -> None:
    with pytest.raises(Permanent, match=r"install git 2\.38"):
        surroundings.judge_git(told)


def test_a_folder_of_workspaces_need_not_exist_yet_and_has_room(tmp_path: Path) -> None:
    assert "can be written to" in surroundings.judge_folder(tmp_path / "not" / "yet")
    with pytest.raises(Permanent, match="MiB are free"):
        surroundings.judge_folder(tmp_path, least=1 << 60)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere but in a file system that is read-only")
def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(Permanent, match="cannot be written to"):
        surroundings.judge_folder(tmp_path / "workspaces")


@pytest.mark.skipif(not Path("/proc/sys").is_dir(), reason="a place where nobody writes, also not as root")
def test_a_read_only_place_is_named() -> None:
    with pytest.raises(Permanent, match="cannot be written to"):
        surroundings.judge_folder(Path("/proc/sys/workspaces"))


async def test_doctor_says_whether_anybody_may_approve_and_that_they_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", identity.BOT_TOKEN)
    monkeypatch.setenv("THREADLINE_APPROVERS", "")
    assert (await surroundings.approvers()).startswith("no approvers")
    async with SlackSandbox.running() as slack:
        monkeypatch.setenv("SLACK_API_URL", slack.api_url)
        monkeypatch.setenv("THREADLINE_APPROVERS", f"{identity.DEVELOPER}, {identity.REPORTER}")
        assert await surroundings.approvers() == "2 may approve proposals"
        monkeypatch.setenv("THREADLINE_APPROVERS", f"{identity.DEVELOPER},U0NOBODY")
        with pytest.raises(Permanent, match="U0NOBODY, who is not a person in Slack"):
            await surroundings.approvers()
    monkeypatch.setenv("THREADLINE_APPROVERS", "ada")
    with pytest.raises(Permanent, match="give the ids of users"):
        await surroundings.approvers()
