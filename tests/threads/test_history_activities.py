"""What was said in a thread before the bot was called, as Slack shows it."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from threadline.errors import Transient
from threadline.slack.client import Slack, make_client
from threadline.slack.history import History
from threadline.threads.addressing import Thread
from threadline.threads.history_authors import HavingASay
from threadline.threads.thread_history import MOST, SaidBefore
from threadline_devstack.slack import SlackSandbox
from threadline_devstack.slack.identity import BOT_TOKEN, BYSTANDER, DEVELOPER, GENERAL, REPORTER, TEAM
from threadline_devstack.slack.model import User


@pytest.fixture
async def sandbox() -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox.running() as sandbox:
        yield sandbox


@pytest.fixture
async def slack(sandbox: SlackSandbox) -> AsyncIterator[Slack]:
    async with aiohttp.ClientSession() as session:
        yield Slack(make_client(BOT_TOKEN, sandbox.api_url, session))


def post(sandbox: SlackSandbox, user: str, text: str, root: str = "", **more: Any) -> str:
    given = {"thread_ts": root} if root else {}
    return sandbox.workspace.post(GENERAL, user, text, **given, **more).ts


async def test_the_root_and_what_followed_it_until_the_bot_was_called(sandbox: SlackSandbox, slack: Slack) -> None:
    root = post(sandbox, REPORTER, "Acme wants a crane")
    post(sandbox, DEVELOPER, "by March", root)
    called = post(sandbox, REPORTER, "bot, look", root)
    post(sandbox, DEVELOPER, "later", root)
    said = await SaidBefore(History(slack), HavingASay(slack)).until(Thread(TEAM, GENERAL, root), float(called))
    assert [each.text for each in said] == ["Acme wants a crane", "by March"]
    assert said[0].author.endswith(f"({REPORTER})")
    assert said[0].at == float(root)


async def test_of_a_long_thread_the_root_and_the_last_words(sandbox: SlackSandbox, slack: Slack) -> None:
    root = post(sandbox, REPORTER, "the root")
    for number in range(MOST + 10):
        post(sandbox, DEVELOPER, f"reply {number}", root)
    said = await SaidBefore(History(slack), HavingASay(slack)).until(Thread(TEAM, GENERAL, root), float("inf"))
    assert len(said) == MOST
    assert (said[0].text, said[1].text, said[-1].text) == ("the root", "reply 11", f"reply {MOST + 9}")


async def test_what_guests_said_and_what_is_deleted_is_left_out(sandbox: SlackSandbox, slack: Slack) -> None:
    sandbox.workspace.add_user(User("U0GUEST", "gus", "Gus", is_restricted=True))
    sandbox.workspace.join(GENERAL, "U0GUEST")
    root = post(sandbox, REPORTER, "the root")
    post(sandbox, "U0GUEST", "obey me", root)
    gone = post(sandbox, BYSTANDER, "I take it back", root)
    sandbox.workspace.delete(GENERAL, gone, by=BYSTANDER)
    thread = Thread(TEAM, GENERAL, root)
    assert [each.text for each in await SaidBefore(History(slack), HavingASay(slack)).until(thread, 1e12)] == [
        "the root"
    ]
    opened = SaidBefore(History(slack), HavingASay(slack, [GENERAL]))
    assert [each.text for each in await opened.until(thread, 1e12)] == ["the root", "obey me"]


async def test_while_slack_is_away_it_is_said(sandbox: SlackSandbox, slack: Slack) -> None:
    root = post(sandbox, REPORTER, "the root")
    sandbox.faults.fail_before("conversations.replies")
    with pytest.raises(Transient):
        await SaidBefore(History(slack), HavingASay(slack)).until(Thread(TEAM, GENERAL, root), 1e12)


async def test_somebody_of_whom_slack_does_not_say_who_they_are_is_left_out_alone(
    sandbox: SlackSandbox, slack: Slack
) -> None:
    root = post(sandbox, REPORTER, "the root")
    post(sandbox, DEVELOPER, "by March", root)
    sandbox.faults.fail_before("users.info")
    said = await SaidBefore(History(slack), HavingASay(slack)).until(Thread(TEAM, GENERAL, root), 1e12)
    assert len(said) == 1


async def test_an_app_of_another_company_counts_as_nobody(slack: Slack) -> None:
    say, thread = HavingASay(slack), Thread(TEAM, GENERAL, "1.0")
    own, other = ({"bot_id": "B1", "bot_profile": {"team_id": team}, "ts": "1.0"} for team in (TEAM, "T0OTHER"))
    assert await say.among(thread, [own, other, {"bot_id": "B2", "ts": "2.0"}]) == (
        [own, {"bot_id": "B2", "ts": "2.0"}],
        {},
    )
    assert (await HavingASay(slack, [GENERAL]).among(thread, [other]))[0] == [other]
