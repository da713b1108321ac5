"""`threadline cases` on a real database: names of people, links, and numbers of cases."""

import asyncio
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp.web
import pytest

from tests.cli.command import run_command
from tests.support.case_store import REPORTER, Scene, report, said
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.slack import Serve, clock, sandbox, serve
from threadline.cases.model import SUMMARY, case_owner
from threadline.cases.store.case import CaseStore
from threadline.cli import connections
from threadline.db.engine import Database
from threadline.forge.model import PullRequest
from threadline.investigator.store import AgentStore
from threadline.slack.model import Thread, UserProfile
from threadline.slack.store import UserStore
from threadline.threads.model import SenderType
from threadline.threads.store import ThreadStore
from threadline_devstack.slack.identity import BOT_TOKEN, TEAM

__all__ = ["clock", "sandbox", "serve"]

REPORTED = Thread(TEAM, "C1", "1700000000.000000")
SUMMARISED = Thread(TEAM, "C2", "1700000100.000200")
FIX = PullRequest("shop", "threadline/bug-1", "https://git.example/shop/pull/7", 7, "abc")
NOTHING: Mapping[str, str] = {}
UI = {"THREADLINE_TEMPORAL_UI": "http://ui.example:8233/"}
WORKFLOW = f"http://ui.example:8233/namespaces/default/workflows/bug:{REPORTED.key}"


@pytest.fixture
async def scene(database: Database) -> Scene:
    """A case with a reporter whose name is stored, and a developer whose name is not."""
    scene = Scene(database, AgentStore(database))
    await scene.flush(report(), said(1, by=SenderType.DEVELOPER), thread=REPORTED)
    async with database.begin() as tx:
        await UserStore(tx).save(TEAM, UserProfile(REPORTER, "", "Rae Porter", "", 1.0))
    return scene


class Cases:
    """The command `threadline cases`."""

    def __init__(self, url: str, folder: Path) -> None:
        self._given = {"DATABASE_URL": url} | UI
        self._folder = folder

    async def __call__(
        self, *arguments: str, given: Mapping[str, str] = NOTHING
    ) -> subprocess.CompletedProcess[str]:
        environment = self._given | dict(given)
        return await asyncio.to_thread(
            run_command, ("cases", *arguments), environment, self._folder
        )

    async def told(self, *arguments: str, given: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        done = await self(*arguments, "--json", given=given)
        assert (done.returncode, done.stderr) == (0, "")
        return dict(json.loads(done.stdout))


@pytest.fixture
def cases(database_url: str, tmp_path: Path) -> Cases:
    return Cases(database_url, tmp_path)


async def test_people_have_their_stored_name_with_the_id(scene: Scene, cases: Cases) -> None:
    for arguments in (("list",), ("show", "1")):
        assert f"Rae Porter ({REPORTER})" in (await cases(*arguments)).stdout
    (listed,) = (await cases.told("list"))["cases"]
    assert (listed["reporter_id"], listed["reporter_name"]) == (REPORTER, "Rae Porter")
    shown = await cases.told("show", "1")
    assert [(each["sender_id"], each["sender_name"]) for each in shown["conversation"]] == [
        (REPORTER, "Rae Porter"),
        ("U2", ""),
    ]
    (opened,) = shown["transitions"]
    assert (opened["actor_id"], opened["actor_name"]) == (REPORTER, "Rae Porter")


async def test_name_of_another_workspaces_user_is_not_shown(scene: Scene, cases: Cases) -> None:
    async with scene.database.begin() as tx:
        await UserStore(tx).save("T9", UserProfile("U2", "", "Somebody else", "", 1.0))
    assert "Somebody else" not in (await cases("show", "1")).stdout


@pytest.fixture
async def linked(scene: Scene) -> Scene:
    """The case with a summary and a pull request."""
    async with scene.database.begin() as tx:
        owner = case_owner(REPORTED, SUMMARY)
        await ThreadStore(tx).register(owner, SUMMARISED.channel, SUMMARISED.ts)
        await CaseStore(tx).save_pull_request("BUG-1", FIX)
    return scene


async def test_case_shows_its_links(linked: Scene, cases: Cases, sandbox: FaultySlack) -> None:
    slack = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_API_URL": sandbox.api_url}
    links = {
        "report": f"{sandbox.url}/archives/C1/p1700000000000000",
        "summary": f"{sandbox.url}/archives/C2/p1700000100000200",
    }
    told = await cases.told("show", "1", given=slack)
    assert {name: told[name]["permalink"] for name in links} == links
    assert told["no_permalinks_because"] == ""
    assert told["pull_request"] == {"url": FIX.url, "number": 7, "state": "open"}
    assert told["workflow"] == {"id": f"bug:{REPORTED.key}", "url": WORKFLOW}
    lines = (await cases("show", "1", given=slack)).stdout.splitlines()
    assert lines[2:6] == [
        f"Report: {links['report']}",
        f"Summary: {links['summary']}",
        f"Pull request (open): {FIX.url}",
        f"Workflow: {WORKFLOW}",
    ]


async def test_workflow_has_its_id_alone_while_the_address_of_temporals_ui_is_not_set(
    scene: Scene, cases: Cases
) -> None:
    told = await cases.told("show", "1", given={"THREADLINE_TEMPORAL_UI": ""})
    assert told["workflow"] == {"id": f"bug:{REPORTED.key}", "url": ""}
    shown = await cases("show", "1", given={"THREADLINE_TEMPORAL_UI": ""})
    assert f"Workflow: bug:{REPORTED.key}\n" in shown.stdout


async def test_permalinks_are_left_out_with_the_reason(
    linked: Scene, cases: Cases, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = asyncio.Event()

    async def silent(_: aiohttp.web.Request) -> aiohttp.web.Response:
        await over.wait()
        return aiohttp.web.json_response({"ok": False})

    async def other(_: aiohttp.web.Request) -> aiohttp.web.Response:
        identity = {"team_id": "T9", "bot_id": "B1", "url": "https://other.slack.com/"}
        return aiohttp.web.json_response({"ok": True} | identity)

    async def refused(_: aiohttp.web.Request) -> aiohttp.web.Response:
        return aiohttp.web.json_response({"ok": False, "error": "invalid_auth"})

    monkeypatch.setattr(connections, "_SLACK_PATIENCE", 0.5)
    given: dict[str, dict[str, str]] = {
        "SLACK_BOT_TOKEN is not set": {},
        "Slack did not answer within 0.5 s": {"SLACK_API_URL": await serve(silent)},
        "belongs to another workspace than T0SANDBOX": {"SLACK_API_URL": await serve(other)},
        "Slack refuses the bot token (invalid_auth)": {"SLACK_API_URL": await serve(refused)},
    }
    try:
        for reason, slack in given.items():
            await check_links_left_out(cases, reason, slack)
    finally:
        over.set()


async def check_links_left_out(cases: Cases, reason: str, slack: Mapping[str, str]) -> None:
    given = {"SLACK_BOT_TOKEN": BOT_TOKEN, **slack} if slack else {}
    told = await cases.told("show", "1", given=given)
    assert reason in told["no_permalinks_because"]
    assert (told["report"]["permalink"], told["summary"]["permalink"]) == ("", "")
    shown = (await cases("show", "1", given=given)).stdout
    assert f"Report: C1/{REPORTED.ts}\n" in shown
    assert f"Permalinks are left out: {told['no_permalinks_because'].rstrip('.')}" in shown
    assert f"Workflow: {WORKFLOW}" in shown


@pytest.mark.parametrize("number", [("bug-1",), ("#1",), ("Bug", "1")])
async def test_case_number_is_an_argument_in_every_usual_form(
    scene: Scene, cases: Cases, number: tuple[str, ...]
) -> None:
    assert (await cases.told("show", *number))["case"] == "BUG-1"


async def test_wrong_case_number_is_one_sentence_and_no_json(scene: Scene, cases: Cases) -> None:
    for command, sentence in (
        (("show", "TICKET-4"), "'TICKET-4' is not a case number: write it as BUG-12 or 12."),
        (("show", "99"), "there is no case BUG-99; `threadline cases list` lists them"),
        (("show", "99", "--json"), "there is no case BUG-99; `threadline cases list` lists them"),
        (("resolve", "x", "--reason", "done"), "'x' is not a case number: write it as"),
    ):
        done = await cases(*command)
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"threadline: {sentence}")
