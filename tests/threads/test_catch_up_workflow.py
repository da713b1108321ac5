"""Messages that Slack gave up delivering are found in its history, on Temporal, Postgres and the
Slack sandbox.
"""

import asyncio
import json
from dataclasses import asdict, replace

import pytest
from sqlalchemy import text

from tests.support.case_scene import CaseScene, case_scene
from tests.threads.catch_up_scene import (
    MAX_UNCHANGED,
    entries,
    home,
    install,
    look,
    look_twice,
    opened,
    reply,
    resent,
    say_before_all,
    until_ended,
    until_gone,
    until_stored,
)
from threadline.cases.model import ESCALATION, CaseStatus, case_owner
from threadline.cases.store.case import CaseStore
from threadline.cases.store.lists import CaseLists
from threadline.db.engine import Database
from threadline.gateway.router import EventRouter
from threadline.gateway.routes import Route
from threadline.slack.history import History
from threadline.slack.model import AuthorRefusal
from threadline.threads.catch_up_store import CatchUpStore
from threadline.threads.contract import (
    CATCH_UP_ID,
    CATCH_UP_REQUESTED,
    CATCH_UP_WORKFLOW,
    CatchUpState,
    Handled,
    parse_request,
)
from threadline.threads.model import CORE_QUEUE, MessageKind, SenderType, message_id
from threadline.threads.store import ThreadStore
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import SandboxMessage

__all__ = ["home"]

REPORTS = identity.REPORTS
SUMMARIES = identity.SUMMARIES
ESCALATIONS = identity.ESCALATIONS
REPORTER = identity.REPORTER
DEVELOPER = identity.DEVELOPER
BYSTANDER = identity.BYSTANDER
REPORT = ("reporter", "The cart total is wrong")


def unregistered_root(home: CaseScene, key: str, channel: str) -> SandboxMessage:
    """Post as the bot at the root of a thread, unknown to the database."""
    owner = case_owner(home.thread, f"case:{key.split(':')[1]}")
    payload = {"event_type": "threadline_post", "event_payload": {"key": key} | asdict(owner)}
    post = home.slack.workspace.post
    return post(channel, identity.BOT_USER, "BUG-1", bot_id=identity.BOT_ID, metadata=payload)


def grow_old(home: CaseScene, seconds: float) -> None:
    """Set the report's age to so many seconds."""
    posts = home.slack.workspace.channel(REPORTS).messages
    ts = f"{float(home.thread.ts) - seconds:.6f}"
    posts[ts] = replace(posts.pop(home.thread.ts), ts=ts)
    home.thread = replace(home.thread, ts=ts)


@pytest.mark.records("catch_up")
async def test_report_and_replies_are_found_once(home: CaseScene) -> None:
    await install(home, before_report=True)
    reply(home, "It is the discount code")
    reply(home, "Works for me", user=BYSTANDER)
    await look(home)
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    assert await entries(home) == [REPORT, ("reporter", "It is the discount code")]
    assert await resent(home) == 2
    await look(home)
    assert await resent(home) == 2
    history = await home.handle.fetch_history()
    assert (
        sum(
            each.HasField("workflow_execution_signaled_event_attributes")
            for each in history.events
        )
        == 2
    )


async def test_edits_and_deletions_are_found_and_a_redacted_text_is_no_edit(
    home: CaseScene,
) -> None:
    """Slack shows the token and the case its mark; an edit would end the wait for an answer that
    was not given.
    """
    await install(home)
    await home.report()
    for words in (
        "My token is gh" + "p_" + "a1B2" * 9,
        "My card number is 1234",
        "It fails in Frefox",
    ):
        await home.reporter(words)
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    workspace = home.slack.workspace
    token, card, typo = (
        each
        for each in workspace.message(REPORTS, home.thread.ts).replies
        if each.user == REPORTER
    )
    workspace.edit(REPORTS, token.ts, token.text)
    assert "edited" in token.as_slack()
    workspace.delete(REPORTS, card.ts)
    workspace.edit(REPORTS, typo.ts, "It fails in Firefox")
    await look_twice(home)
    await until_stored(home, "It fails in Firefox")
    await until_gone(home, "1234")
    assert ("reporter", "My token is [redacted: GitHub token]") in await entries(home)
    assert "Frefox" not in str(await entries(home))
    assert await resent(home) == 2
    await look(home)
    assert await resent(home) == 2


async def test_deletion_takes_out_an_edit_whose_original_was_never_delivered(
    home: CaseScene,
) -> None:
    await opened(home)
    said = reply(home, "My card number is 1")
    original = message_id(identity.TEAM, REPORTS, said.ts)
    home.slack.workspace.edit(REPORTS, said.ts, "My card number is 1234")
    edit = home.message(
        MessageKind.EDIT, SenderType.REPORTER, REPORTER, "My card number is 1234", said.ts
    )
    await home.send(
        replace(
            edit,
            id=f"{original}:e{said.edited_ts}",
            correction_of=original,
            version=said.edited_ts,
        )
    )

    async def kept() -> bool:
        count = text("SELECT count(*) FROM bug_conversations WHERE message_text LIKE '%1234%'")
        async with home.database.begin() as tx:
            return bool(await tx.scalar(count))

    async def gone() -> bool:
        return not await kept()

    await home.until(kept, "the edit is stored")
    home.slack.workspace.delete(REPORTS, said.ts)
    reply(home, "It still fails")
    await look_twice(home)
    await home.until(gone, "its text is gone")
    await look(home)
    assert await resent(home) == 2, "the deletion, and the later message"


async def test_developers_reply_is_found_also_under_a_deleted_root(home: CaseScene) -> None:
    await opened(home)
    summary = (await home.case()).summary
    assert summary
    home.slack.workspace.post(SUMMARIES, DEVELOPER, "Look at the cart", thread_ts=summary.ts)
    home.slack.workspace.post(SUMMARIES, DEVELOPER, "Lunch?")
    await look(home, deep=False)
    await until_stored(home, "Look at the cart", SenderType.DEVELOPER)
    assert await entries(home) == [REPORT, ("developer", "Look at the cart")]
    home.slack.workspace.post(SUMMARIES, DEVELOPER, "And at the discount", thread_ts=summary.ts)
    home.slack.workspace.delete(SUMMARIES, summary.ts)
    await look(home)
    await until_stored(home, "And at the discount", SenderType.DEVELOPER)


async def test_message_older_than_the_installation_starts_no_case(home: CaseScene) -> None:
    reply(home, "An old story")
    await install(home)
    fresh = home.slack.workspace.post(REPORTS, REPORTER, "A new report")
    await look(home)

    async def cases() -> list[str]:
        async with home.database.begin() as tx:
            return [case.thread.ts for case in await CaseLists(tx).list(open_only=False)]

    async def opened() -> bool:
        return bool(await cases())

    await home.until(opened, "the new report becomes a case")
    assert await cases() == [fresh.ts]
    assert await resent(home) == 1


async def test_fresh_messages_are_left_to_delivery_and_found_by_a_later_pass(
    database: Database, agent_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.case_scene.SETTLE_TIME", 2.0)
    monkeypatch.setattr(MAX_UNCHANGED, 0)
    async with case_scene(database, agent_database) as home:
        grow_old(home, 60)
        await install(home, before_report=True)
        reply(home, "Just now")
        await look(home)
        assert await resent(home) == 1
        await home.until_status(CaseStatus.PENDING_VERIFICATION)
        assert await entries(home) == [REPORT]

        async def found() -> bool:
            await look(home, deep=False)
            return len(await entries(home)) == 2

        await home.until(found, "a shallow look finds what was too fresh")
        assert await resent(home) == 2


async def test_request_during_a_pass_is_a_pass_of_its_own(home: CaseScene) -> None:
    await install(home)
    home.slack.faults.slow("conversations.history", 0.5)
    client = home.environment.client
    handle = await client.start_workflow(
        CATCH_UP_WORKFLOW, CatchUpState(), id=CATCH_UP_ID, task_queue=CORE_QUEUE
    )

    async def looks_already() -> bool:
        return not home.slack.faults.ordered("conversations.history")

    await home.until(looks_already, "the first look has begun")
    await asyncio.gather(
        *(handle.signal(CATCH_UP_REQUESTED, args) for args in ({"deep": True}, "nonsense", None))
    )
    await until_ended(home)
    events = (await handle.fetch_history()).events
    begun = [event.activity_task_scheduled_event_attributes for event in events]
    looks = [scheduled for scheduled in begun if scheduled.activity_type.name == "plan_catch_up"]
    assert len(looks) == 3, (
        "the running pass, the requested one, and one for messages that were too young for that"
    )
    assert json.loads(looks[1].input.payloads[0].data)["deep"] is True


async def test_thread_that_was_never_registered_is_found_by_its_root(home: CaseScene) -> None:
    await opened(home)
    root = unregistered_root(home, "BUG-1:summary", SUMMARIES)
    words = [f"I fixed it in the cart {number}" for number in range(3)]

    def say(number: int) -> SandboxMessage:
        return home.slack.workspace.post(SUMMARIES, DEVELOPER, words[number], thread_ts=root.ts)

    delivered = say(0)
    await home.send(
        home.message(
            MessageKind.MESSAGE, SenderType.DEVELOPER, DEVELOPER, words[0], delivered.ts, SUMMARIES
        )
    )
    await until_stored(home, words[0], SenderType.DEVELOPER)
    await look(home)
    async with home.database.begin() as tx:
        sent = await tx.execute(text("SELECT message_id FROM catch_up_messages"))
        assert list(sent.scalars()) == [message_id(identity.TEAM, SUMMARIES, delivered.ts)]
    missed = [say(1), say(2)]
    await look(home)
    for each in words:
        await until_stored(home, each, SenderType.DEVELOPER)
    home.slack.workspace.delete(SUMMARIES, missed[0].ts)
    await look_twice(home)
    await until_gone(home, words[1])
    assert ("developer", words[2]) in await entries(home)
    assert await resent(home) == 4, "an existing message never counts as deleted"


async def test_all_threads_of_a_case_are_read_before_single_messages_are_asked_for(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened(home)
    roots = [
        unregistered_root(home, f"BUG-1:escalation:{number}", ESCALATIONS).ts for number in (1, 2)
    ]
    async with home.database.begin() as tx:
        for root in roots:
            await ThreadStore(tx).register(case_owner(home.thread, ESCALATION), ESCALATIONS, root)
    for root in roots:
        home.slack.workspace.post(ESCALATIONS, DEVELOPER, f"On it {root}", thread_ts=root)
    await look(home)
    for root in roots:
        await until_stored(home, f"On it {root}", SenderType.DEVELOPER)
    asked: list[str] = []
    real = History.exists

    async def shows(self: History, channel: str, ts: str) -> bool:
        asked.append(ts)
        return await real(self, channel, ts)

    monkeypatch.setattr(History, "exists", shows)
    await look(home)
    assert asked == []
    assert await resent(home) == 2


async def test_report_that_is_gone_from_the_channel_is_deleted(home: CaseScene) -> None:
    workspace = home.slack.workspace
    say_before_all(home, REPORTS)
    await opened(home)
    for each in list(workspace.message(REPORTS, home.thread.ts).replies):
        workspace.delete(REPORTS, each.ts)
    workspace.delete(REPORTS, home.thread.ts)
    workspace.post(REPORTS, BYSTANDER, "Good evening")
    await look_twice(home)
    await until_gone(home, "The cart total is wrong")


async def test_message_missed_before_a_close_does_not_reopen_the_case(home: CaseScene) -> None:
    await opened(home)
    reply(home, "It is in Firefox")
    await home.reporter("never mind", MessageKind.CLOSE)
    await home.until_status(CaseStatus.RESOLVED)
    await look(home)
    await until_stored(home, "It is in Firefox")
    async with home.database.begin() as tx:
        assert not (await CaseStore(tx).snapshot("BUG-1")).has_unread
    assert (await home.statuses())[-1] == CaseStatus.RESOLVED


async def test_report_from_before_the_workers_first_start_is_found(home: CaseScene) -> None:
    """The gateway followed the channel then, and Slack could not deliver to it."""
    since = float(home.thread.ts) - 60
    request = {"deep": True, "channels": [REPORTS], "at": since}
    client = home.environment.client
    handle = await client.start_workflow(
        CATCH_UP_WORKFLOW, CatchUpState(), id=CATCH_UP_ID, task_queue=CORE_QUEUE,
        start_signal=CATCH_UP_REQUESTED, start_signal_args=[request],
    )  # fmt: skip
    await handle.result()
    assert await resent(home) == 1


@pytest.mark.parametrize(
    "args", [[], [{}], [3], [{"channels": "C1", "at": 1}], [{"channels": ["C1"], "at": "soon"}]]
)
def test_request_without_readable_channels_names_none(args: list[object]) -> None:
    assert parse_request(args) == (True, {})


async def test_refused_author_is_not_let_in_later(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await install(home, before_report=True)
    with monkeypatch.context() as closed:

        async def refuse(self: EventRouter, route: Route) -> Handled:
            return Handled(AuthorRefusal.GUEST)

        closed.setattr(EventRouter, "deliver", refuse)
        await look(home)
    reply(home, "And now I am a member")
    home.slack.workspace.edit(REPORTS, home.thread.ts, "The cart total is very wrong")
    await look(home)
    assert await resent(home) == 1, "the later message, and no refused one"


async def test_channel_that_is_followed_again_starts_over(home: CaseScene) -> None:
    await install(home, before_report=True)
    async with home.database.begin() as tx:
        await CatchUpStore(tx, identity.TEAM).unfollow_others([SUMMARIES])
    await look(home)
    assert await resent(home) == 0


async def test_shallow_pass_finds_a_reply_under_an_old_root(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow_old(home, 3600)
    await opened(home)
    await look(home)
    reply(home, "It happens again")
    monkeypatch.setattr("threadline.threads.contract.LOOK_BACK", 1800.0)
    await look(home, deep=False)
    assert await resent(home) == 1
