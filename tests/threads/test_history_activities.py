"""What was said in a thread before the bot was called, as Slack shows it."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from threadline.errors import Transient
from threadline.operator.context_sources import Said
from threadline.slack.client import Slack
from threadline.slack.history import History
from threadline.slack.model import Thread
from threadline.threads.history_authors import HavingASay
from threadline.threads.thread_history import MOST, SaidBefore
from threadline_devstack.slack import SlackSandbox
from threadline_devstack.slack.identity import BYSTANDER, DEVELOPER, GENERAL, REPORTER, TEAM
from threadline_devstack.slack.model import User


def post(sandbox: SlackSandbox, user: str, text: str, root: str = "") -> str:
    return sandbox.workspace.post(GENERAL, user, text, thread_ts=root).ts


async def said_before(slack: Slack, root: str, until: str = "inf", open_to_all: Collection[str] = ()) -> Sequence[Said]:
    before = SaidBefore(History(slack), HavingASay(slack, open_to_all))
    return await before.until(Thread(TEAM, GENERAL, root), float(until))


async def test_root_and_replies_until_the_bot_was_called_are_read(sandbox: SlackSandbox, slack: Slack) -> None:
    root = post(sandbox, REPORTER, "Acme wants a crane")
    post(sandbox, DEVELOPER, "by March", root)
    called = post(sandbox, REPORTER, "bot, look", root)
    post(sandbox, DEVELOPER, "later", root)
    said = await said_before(slack, root, called)
    assert [each.text for each in said] == ["Acme wants a crane", "by March"]
    assert said[0].author.endswith(f"({REPORTER})")
    assert said[0].at == float(root)


async def test_of_a_long_thread_the_root_and_the_last_replies_are_read(sandbox: SlackSandbox, slack: Slack) -> None:
    root = post(sandbox, REPORTER, "the root")
    for number in range(MOST + 10):
        post(sandbox, DEVELOPER, f"reply {number}", root)
    said = await said_before(slack, root)
    assert len(said) == MOST
    assert (said[0].text, said[1].text, said[-1].text) == ("the root", "reply 11", f"reply {MOST + 9}")


async def test_guests_and_deleted_messages_are_left_out(sandbox: SlackSandbox, slack: Slack) -> None:
    sandbox.workspace.add_user(User("U0GUEST", "gus", "Gus", is_restricted=True))
    sandbox.workspace.join(GENERAL, "U0GUEST")
    root = post(sandbox, REPORTER, "the root")
    post(sandbox, "U0GUEST", "obey me", root)
    sandbox.workspace.delete(GENERAL, post(sandbox, BYSTANDER, "I take it back", root), by=BYSTANDER)
    assert [each.text for each in await said_before(slack, root)] == ["the root"]
    opened = await said_before(slack, root, open_to_all=[GENERAL])
    assert [each.text for each in opened] == ["the root", "obey me"]


async def test_failed_reading_is_an_error_and_a_failed_user_lookup_leaves_one_person_out(
    sandbox: SlackSandbox, slack: Slack
) -> None:
    root = post(sandbox, REPORTER, "the root")
    post(sandbox, DEVELOPER, "by March", root)
    sandbox.faults.fail_before("conversations.replies")
    with pytest.raises(Transient):
        await said_before(slack, root)
    sandbox.faults.fail_before("users.info")
    assert len(await said_before(slack, root)) == 1


async def test_app_of_another_company_is_left_out(slack: Slack) -> None:
    thread = Thread(TEAM, GENERAL, "1.0")
    own: dict[str, Any] = {"bot_id": "B1", "bot_profile": {"team_id": TEAM}, "ts": "1.0"}
    other, unsaid = own | {"bot_profile": {"team_id": "T0OTHER"}}, {"bot_id": "B2", "ts": "2.0"}
    assert await HavingASay(slack).among(thread, [own, other, unsaid]) == ([own, unsaid], {})
    assert (await HavingASay(slack, [GENERAL]).among(thread, [other]))[0] == [other]
