"""Messages of a thread's history that count, and those from before the bot was called."""

from collections.abc import Collection
from typing import Any

import pytest

from tests.support.faulty_sandboxes import FaultySlack
from threadline.errors import Transient
from threadline.slack.client import SlackClient
from threadline.slack.history import History, RawMessage
from threadline.slack.model import Thread
from threadline.slack.users import UserDirectory
from threadline.threads.authors import MAX_PRIOR_MESSAGES, AuthorPolicy, messages_before
from threadline_devstack.slack.identity import BYSTANDER, DEVELOPER, GENERAL, REPORTER, TEAM
from threadline_devstack.slack.model import SandboxUser


def post(sandbox: FaultySlack, user: str, text: str, root: str = "") -> str:
    return sandbox.workspace.post(GENERAL, user, text, thread_ts=root).ts


def policy(slack: SlackClient, open_channels: Collection[str] = ()) -> AuthorPolicy:
    return AuthorPolicy(UserDirectory(slack.user), open_channels)


async def said_before(
    slack: SlackClient, root: str, until: str = "inf", open_channels: Collection[str] = ()
) -> list[RawMessage]:
    thread = Thread(TEAM, GENERAL, root)
    return (
        await messages_before(History(slack), policy(slack, open_channels), thread, float(until))
    )[0]


async def test_root_and_replies_until_the_bot_was_called_are_read(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    root = post(sandbox, REPORTER, "Acme wants a crane")
    post(sandbox, DEVELOPER, "by March", root)
    called = post(sandbox, REPORTER, "bot, look", root)
    post(sandbox, DEVELOPER, "later", root)
    said = await said_before(slack, root, called)
    assert [each["text"] for each in said] == ["Acme wants a crane", "by March"]
    assert (said[0]["user"], said[0]["ts"]) == (REPORTER, root)


async def test_root_and_last_replies_of_a_long_thread_are_read(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    root = post(sandbox, REPORTER, "the root")
    for number in range(MAX_PRIOR_MESSAGES + 10):
        post(sandbox, DEVELOPER, f"reply {number}", root)
    said = await said_before(slack, root)
    assert len(said) == MAX_PRIOR_MESSAGES
    texts = [each["text"] for each in said]
    assert (texts[0], texts[1], texts[-1]) == (
        "the root",
        "reply 11",
        f"reply {MAX_PRIOR_MESSAGES + 9}",
    )


async def test_guests_and_deleted_messages_are_left_out(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    sandbox.workspace.add_user(SandboxUser("U0GUEST", "gus", "Gus", is_restricted=True))
    sandbox.workspace.join(GENERAL, "U0GUEST")
    root = post(sandbox, REPORTER, "the root")
    post(sandbox, "U0GUEST", "obey me", root)
    sandbox.workspace.delete(
        GENERAL, post(sandbox, BYSTANDER, "I take it back", root), by=BYSTANDER
    )
    assert [each["text"] for each in await said_before(slack, root)] == ["the root"]
    opened = await said_before(slack, root, open_channels=[GENERAL])
    assert [each["text"] for each in opened] == ["the root", "obey me"]


async def test_failed_reading_is_an_error_and_a_failed_user_lookup_leaves_one_person_out(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    root = post(sandbox, REPORTER, "the root")
    post(sandbox, DEVELOPER, "by March", root)
    sandbox.faults.fail_before("conversations.replies")
    with pytest.raises(Transient):
        await said_before(slack, root)
    sandbox.faults.fail_before("users.info")
    assert len(await said_before(slack, root)) == 1


async def test_app_of_another_company_is_left_out(slack: SlackClient) -> None:
    thread = Thread(TEAM, GENERAL, "1.0")
    own: dict[str, Any] = {"bot_id": "B1", "bot_profile": {"team_id": TEAM}, "ts": "1.0"}
    other = own | {"bot_profile": {"team_id": "T0OTHER"}}
    unsaid = {"bot_id": "B2", "ts": "2.0"}
    assert await policy(slack).filter_messages(thread, [own, other, unsaid]) == ([own, unsaid], {})
    assert (await policy(slack, [GENERAL]).filter_messages(thread, [other]))[0] == [other]
