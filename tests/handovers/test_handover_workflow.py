"""HandoverWorkflow on Temporal, Postgres and Slack's wire: the card is shown, taken, answered and
closed.
"""

import time
from collections.abc import AsyncIterator

import pytest
from temporalio.api.history.v1 import HistoryEvent

from tests.gateway.conftest import KnownThreads
from tests.handovers.scene import ASKER, OTHER, PERSON, HandoverWorkflowScene
from tests.support.conversation_activities import Make
from tests.support.decision_activities import engine_of
from tests.support.temporal import real_time, until
from threadline.conversations.store.conversation import ConversationStore
from threadline.gateway.router import EventRouter
from threadline.gateway.routes import RoutingConfig
from threadline.handovers.contract import Reminder
from threadline.handovers.model import CLOSE, LOOK_EVERY, MAX_REMINDERS, REPLY, TAKE, UNDO
from threadline.slack.history import History
from threadline.threads.catch_up import LiveCatchUpActivities, unstored_messages
from threadline.threads.catch_up_store import CatchUpStore
from threadline.threads.contract import ChannelRead, PageRequest, PlanRequest
from threadline.threads.faults import InstallationFaults
from threadline.threads.model import BUTTON_PRESSED
from threadline.threads.workflow_client import WorkflowClient
from threadline.wiring.threads import thread_sources
from threadline_devstack.slack.identity import BOT_ID, BOT_USER, ESCALATIONS, GENERAL, TEAM

pytestmark = pytest.mark.timeout(120)
PAUSE = 15.0
"""Seconds for which Slack refuses posts."""


@pytest.fixture
async def handover(make_talk: Make) -> AsyncIterator[HandoverWorkflowScene]:
    async with real_time() as environment:
        routing = RoutingConfig("", "", ESCALATIONS, BOT_USER, BOT_ID, team=TEAM)
        engine = engine_of(make_talk())
        open_view = engine.talk.activities.deps.slack.open_view
        gateway = EventRouter(routing, environment.client, KnownThreads(), open_view=open_view)
        workflows = WorkflowClient(environment.client)
        yield HandoverWorkflowScene(
            engine, workflows=workflows, environment=environment, gateway=gateway
        )


@pytest.mark.records("handover_taken")
async def test_person_takes_answers_reads_the_asker_and_closes(
    handover: HandoverWorkflowScene,
) -> None:
    talk = handover.talk
    async with handover.working():
        card = await handover.card()
        await handover.write(card, OTHER, "lol who is this guy, anyone?")
        await handover.until_kept(1)
        for part in (
            "I want my money back",
            "sensitive",
            "confidence",
            "archives/C0GENERAL",
            f"<@{ASKER}>",
        ):
            assert part in str(card.blocks)
        await handover.press(card, PERSON, TAKE)
        await handover.until_said("has taken this over")

        await handover.reply(card, PERSON, "We pay it back today.")
        await handover.until_said("We pay it back today.")
        assert not any("lol" in each for each in handover.said())

        await handover.hears(2, "thank you, to which account?")
        await handover.relay(2)
        assert sum("to which account?" in each for each in handover.said(ESCALATIONS)) == 1

        await handover.press(card, PERSON, CLOSE)
        assert await handover.ended() == PERSON
    assert any("has closed the handover" in each for each in handover.said())
    answers = [each for each in handover.said() if "We pay it back" in each]
    assert answers == [f"<@{PERSON}> answers\nWe pay it back today."]
    after = talk.slack.workspace.message(ESCALATIONS, card.ts)
    assert "Closed by" in str(after.blocks)
    assert "actions" not in [block["type"] for block in after.blocks]
    await talk.said("and now?")
    assert (await talk.begin(3)).ends is None
    assert any(
        "We pay it back today." in message.content for _, message in await talk.transcript()
    )
    (row,) = await talk.rows("SELECT outcome FROM decisions")
    assert row["outcome"] == "taken_over"


async def look(handover: HandoverWorkflowScene) -> int:
    """A deep catch-up of the escalations' channel; returns the number of events that it
    signalled.
    """
    talk = handover.talk
    activities = LiveCatchUpActivities(
        talk.database,
        History(talk.activities.deps.slack),
        handover.gateway.handle,
        thread_sources(BOT_USER),
        {ESCALATIONS: True},
        team=TEAM,
        bot_user_id=BOT_USER,
        faults=InstallationFaults(talk.database, talk.activities.deps.outbox, ESCALATIONS),
        settle_time=0,
    )
    async with talk.database.begin() as tx:
        await CatchUpStore(tx, TEAM).follow_channels([ESCALATIONS], time.time() - 1000)
    plan = await talk.run(activities.plan_catch_up, PlanRequest(deep=True))
    (window,) = [each for each in plan.windows if each.channel == ESCALATIONS]
    await talk.run(activities.read_history_page, PageRequest(window, plan.began, window.latest))
    await talk.run(activities.record_channel, ChannelRead(ESCALATIONS, plan.deep))
    await talk.run(activities.select_threads, plan)
    return (await talk.run(activities.compare_threads, plan)).sent


async def test_catch_up_finds_a_missed_answer_its_edit_and_a_deletion_once(
    handover: HandoverWorkflowScene,
) -> None:
    workspace = handover.talk.slack.workspace
    async with handover.working():
        card = await handover.card()
        told = await handover.reply(card, PERSON, "We look into it.")
        await handover.until_said("We look into it.")
        await handover.until_kept(1)
        missed = workspace.post(ESCALATIONS, PERSON, "reply: We pay it back.", thread_ts=card.ts)
        assert await look(handover) == 1
        await handover.until_said("We pay it back.")
        await handover.until_kept(2)
        assert [await look(handover) for _ in range(4)] == [0, 0, 0, 0]

        workspace.edit(ESCALATIONS, missed.ts, "reply: We pay the half back.", by=PERSON)
        assert await look(handover) == 1
        await handover.until_said("We pay the half back.")
        await handover.until_kept(3)
        assert await look(handover) == 0

        workspace.delete(ESCALATIONS, told.ts, by=PERSON)
        assert [await look(handover) for _ in range(2)] == [0, 1], (
            "a message that is missing twice is deleted"
        )
        await handover.until_kept(4)
        assert await look(handover) == 0
    assert not any("We look into it." in each for each in handover.said())
    assert sum("We pay the half back." in each for each in handover.said()) == 1
    async with handover.talk.database.begin() as tx:
        assert await unstored_messages(tx, TEAM, thread_sources(BOT_USER)) == []


async def test_events_while_all_workers_are_away_are_handled_once_later(
    handover: HandoverWorkflowScene,
) -> None:
    async with handover.working():
        card = await handover.card()
    body = handover.click(card, PERSON, TAKE)
    for _ in range(2):  # delivered again
        assert (await handover.gateway.handle(body)).outcome == "button_press"
    said = await handover.reply(card, PERSON, "It is on its way.")
    await handover.event(card, said)
    async with handover.working():
        await handover.until_said("It is on its way.")
        await handover.press(card, PERSON, CLOSE)
        assert await handover.ended() == PERSON
    assert sum("It is on its way." in each for each in handover.said()) == 1
    assert sum("has taken this over" in each for each in handover.said()) == 1


async def test_reply_takes_an_untaken_handover(handover: HandoverWorkflowScene) -> None:
    async with handover.working():
        card = await handover.card()
        press = handover.click(card, PERSON, TAKE)
        await handover.reply(card, OTHER, "Let me see.")
        await handover.until_said("Let me see.")
        await handover.until_said(f"<@{OTHER}> has taken this over")
        shown = handover.talk.slack.workspace.message(ESCALATIONS, card.ts)
        assert f"Taken by <@{OTHER}>" in str(shown.blocks)
        assert (await handover.state())["taken_by"] == OTHER
        await until(handover.only_looks, "nobody is reminded any more")
        assert (await handover.gateway.handle(press)).signalled
        await handover.until_whispered(PERSON, f"<@{OTHER}> has already taken this")
        await handover.reply(card, OTHER, "We pay it back.")
        await handover.until_said("We pay it back.")
    presses = [each for each in (await handover.handle.fetch_history()).events if _is_press(each)]
    assert len(presses) == 3, "each reply and each press is one signal"


async def test_modal_of_the_reply_button_is_sent_to_the_asker(
    handover: HandoverWorkflowScene,
) -> None:
    slack = handover.talk.slack
    async with handover.working():
        card = await handover.card()
        assert (
            await handover.gateway.handle(handover.click(card, PERSON, REPLY))
        ).outcome == "modal_opened"
        view = slack.workspace.view_of(PERSON)
        assert view
        body = slack._interactions.submit(
            PERSON, view.id, {REPLY: "We pay it back.\nToday, <@U1>."}
        )
        for _ in range(2):  # sent again, as after a lost response
            assert (await handover.gateway.handle(body)).outcome == "modal_sent"
        await handover.until_said("We pay it back.\nToday")
        await handover.until_said(f"<@{PERSON}> has taken this over")
        await handover.press(card, PERSON, CLOSE)
        assert await handover.ended() == PERSON
    assert sum("We pay it back." in each for each in handover.said()) == 1


@pytest.mark.records("handover_undone")
async def test_undo_within_the_seconds_of_the_hold_keeps_a_reply_from_the_asker(
    handover: HandoverWorkflowScene,
) -> None:
    handover.hold = 3600.0
    async with handover.working():
        card = await handover.card()
        await handover.reply(card, PERSON, "We pay nothing.")
        preview = await handover.until_previewed("We pay nothing.")
        await handover.reply(card, PERSON, "We pay it back.")
        await handover.until_previewed("We pay it back.")
        await handover.press(preview, PERSON, UNDO)
        await handover.press(card, PERSON, CLOSE)
        assert await handover.ended() == PERSON
    assert not any("We pay nothing." in each for each in handover.said())
    assert any("We pay it back." in each for each in handover.said())
    undone = handover.talk.slack.workspace.message(ESCALATIONS, preview.ts)
    assert f"<@{PERSON}> has undone it" in str(undone.blocks)


async def test_reply_that_is_held_while_all_workers_are_away_is_sent_once_later(
    handover: HandoverWorkflowScene,
) -> None:
    handover.hold = 2.0
    async with handover.working():
        card = await handover.card()
        await handover.reply(card, PERSON, "We pay it back.")
        await handover.until_previewed("We pay it back.")
    await handover.handle.terminate()
    assert not any("We pay it back." in each for each in handover.said())
    await handover.start()  # as the sweep does
    async with handover.working():
        await handover.until_said("We pay it back.")
        await handover.press(card, PERSON, CLOSE)
        assert await handover.ended() == PERSON
    assert sum("We pay it back." in each for each in handover.said()) == 1


async def test_close_sends_a_held_reply_before_the_end(handover: HandoverWorkflowScene) -> None:
    handover.hold = 3600.0
    async with handover.working():
        card = await handover.card()
        await handover.press(card, PERSON, TAKE)
        await handover.reply(card, PERSON, "We pay it back.")
        await handover.until_previewed("We pay it back.")
        await handover.press(card, PERSON, CLOSE)
        assert await handover.ended() == PERSON
    told = [each for each in handover.said() if "We pay it back." in each or "has closed" in each]
    assert ["We pay it back." in each for each in told] == [True, False]


async def test_word_take_under_the_card_takes_the_handover(
    handover: HandoverWorkflowScene,
) -> None:
    async with handover.working():
        card = await handover.card()
        press = handover.click(card, PERSON, TAKE)
        await handover.write(card, OTHER, "take")
        await handover.until_said(f"<@{OTHER}> has taken this over")
        assert (await handover.gateway.handle(press)).signalled
        await handover.until_whispered(PERSON, f"<@{OTHER}> has already taken this")
        await handover.press(card, OTHER, CLOSE)
        assert await handover.ended() == OTHER


def _is_press(event: HistoryEvent) -> bool:
    return event.workflow_execution_signaled_event_attributes.signal_name == BUTTON_PRESSED


@pytest.mark.parametrize("reminded", [0, MAX_REMINDERS], ids=["taken", "never taken"])
async def test_run_ends_once_its_handover_is_deleted(
    handover: HandoverWorkflowScene, reminded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def all_reminded() -> bool:
        return len(handover.reminders()) == reminded

    async def pruned() -> bool:
        """A locked row is left for the next time."""
        async with handover.talk.database.begin() as tx:
            return await ConversationStore(tx).prune(time.time() + 100_000) == 1

    async def looked_twice() -> bool:
        return await handover.fired() >= reminded + 2

    monkeypatch.setattr("threadline.handovers.workflow.LOOK_EVERY", 0.3)
    handover.remind_every = 0.2 if reminded else 3600.0
    async with handover.working():
        card = await handover.card()
        if reminded:
            await until(all_reminded, "people are reminded")
        else:
            await handover.press(card, PERSON, TAKE)
            await handover.until_said("has taken this over")
        await until(looked_twice, "the workflow looks for its record")
        assert (await handover.state())["open"], "a look ends nothing that is on record"
        await until(pruned, "the conversation is deleted")
        await handover.ended()


async def test_presses_count_while_slack_refuses_posts_which_come_later(
    handover: HandoverWorkflowScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The asker's channel is archived: a person takes the handover, replies and closes it
    meanwhile.
    """

    async def closed() -> bool:
        (row,) = await handover.talk.rows("SELECT closed_by FROM handovers")
        return bool(row["closed_by"] == PERSON)

    monkeypatch.setattr("threadline.threads.model.FIRST_MENDING_DELAY", 0.3)
    workspace = handover.talk.slack.workspace
    async with handover.working():
        card = await handover.card()
        workspace.archive(GENERAL)
        await handover.press(card, PERSON, TAKE)
        await handover.reply(card, PERSON, "We pay it back today.")
        await handover.until_kept(1)
        await handover.press(card, PERSON, CLOSE)
        await until(closed, "the handover is closed")
        assert "Closed by" not in "".join(handover.said())
        workspace.channel(GENERAL).is_archived = False
        assert await handover.ended() == PERSON
    said = handover.said()
    for words in ("has taken this over", "We pay it back today.", "has closed the handover"):
        assert sum(words in each for each in said) == 1, words


async def test_refused_reminder_is_sent_once_slack_takes_it(
    handover: HandoverWorkflowScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused() -> bool:
        return await handover.fired() >= 2

    async def reminded() -> bool:
        return len(handover.reminders()) == 1

    monkeypatch.setattr("threadline.threads.model.FIRST_MENDING_DELAY", 0.3)
    handover.remind_every = 3.0
    async with handover.working():
        card = await handover.card()
        handover.remind_every = 3600.0
        handover.talk.slack.faults.denied = "invalid_auth"
        await until(refused, "the reminder is refused twice")
        handover.talk.slack.faults.denied = ""
        await until(reminded, "people are reminded")
        assert (await handover.state())["reminded"] == 1
        await handover.press(card, PERSON, CLOSE)
        await handover.ended()


@pytest.mark.records("handover_guest")
async def test_guest_can_neither_take_nor_close(handover: HandoverWorkflowScene) -> None:
    guest = handover.guest_joins()
    async with handover.working():
        card = await handover.card()
        for button in (TAKE, CLOSE):
            await handover.press(card, guest, button)
        await handover.until_whispered(guest, "Ask a member of this workspace", times=2)
        await handover.press(card, PERSON, TAKE)
        await handover.until_said("has taken this over")
        await handover.press(card, PERSON, CLOSE)
        assert await handover.ended() == PERSON
    assert not any(guest in each for each in handover.said())


async def test_five_reminders_are_sent_over_two_runs_and_then_only_looks_remain(
    handover: HandoverWorkflowScene,
) -> None:
    async def reminded() -> bool:
        return bool(handover.reminders())

    async def reminded_five_times() -> bool:
        """The workflow has gone on from the last reminder as well."""
        return len(handover.reminders()) == 5 and await handover.timers() == [LOOK_EVERY]

    handover.remind_every = 0.2
    async with handover.working():
        card = await handover.card()
        await until(reminded, "people are reminded")
        await handover.handle.terminate()
        for number in (2, 3):
            await handover.talk.run(
                handover.activities.remind_handover, Reminder(handover.ref, number)
            )
        await handover.start()
        await until(reminded_five_times, "people are reminded five times")
        history = await handover.handle.fetch_history()
        assert sum(each.HasField("timer_started_event_attributes") for each in history.events) == 3
        assert (await handover.state())["reminded"] == 5
        await handover.press(card, PERSON, CLOSE)
        await handover.ended()
    assert len(handover.reminders()) == 5


@pytest.mark.records("handover_reminded")
async def test_taking_a_handover_stops_its_reminders(handover: HandoverWorkflowScene) -> None:
    async def reminded() -> bool:
        return bool(handover.reminders())

    handover.remind_every = 0.2
    async with handover.working():
        card = await handover.card()
        await until(reminded, "people are reminded")
        await handover.press(card, PERSON, TAKE)
        await handover.until_said("has taken this over")
        assert await handover.timers() == [LOOK_EVERY]
        await handover.press(card, PERSON, CLOSE)
        await handover.ended()


@pytest.mark.usefixtures("activation_order")
async def test_cancel_while_a_post_is_retried_drops_no_click(
    handover: HandoverWorkflowScene,
) -> None:
    async with handover.working():
        card = await handover.card()
        handover.talk.slack.faults.rate_limit("chat.postMessage", retry_after=PAUSE)
        await handover.press(card, PERSON, TAKE)
        await until(handover.failing("show_handover"), "showing who has taken it fails")
        await handover.press(card, PERSON, CLOSE)
        await handover.handle.cancel()
        assert await handover.ended() == PERSON
    assert any("has closed the handover" in each for each in handover.said())


@pytest.mark.usefixtures("activation_order")
async def test_cancel_while_a_reminder_is_retried_ends_nothing(
    handover: HandoverWorkflowScene,
) -> None:
    handover.remind_every = 1.0
    async with handover.working():
        card = await handover.card()
        handover.talk.slack.faults.rate_limit("chat.postMessage", retry_after=PAUSE)
        await until(handover.failing("remind_handover"), "the reminder fails")
        await handover.press(card, PERSON, TAKE)
        await handover.handle.cancel()
        await handover.press(card, PERSON, CLOSE)
        assert await handover.ended() == PERSON
