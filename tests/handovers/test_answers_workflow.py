"""What people write under a card, and what Slack did not deliver of it: found, said once, and nothing else touched."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import text as sql

from tests.handovers.test_handover_workflow import PERSON, House, handover_house, house
from tests.support.conversation_activities import make_talk
from tests.support.temporal import until
from threadline.handovers.model import CLOSE
from threadline.slack.history import History
from threadline.threads.catch_up_activities import LiveCatchUpActivities
from threadline.threads.catch_up_contract import PageRequest, WindowDone
from threadline_devstack.slack.identity import BOT_USER, ESCALATIONS, GENERAL, TEAM
from threadline_devstack.slack.model import Message

__all__ = ["handover_house", "house", "make_talk"]

pytestmark = pytest.mark.timeout(120)


@dataclass
class Looks:
    """The catch-up over the escalations' channel, on the gateway's own road to Temporal."""

    house: House
    found: list[int] = field(default_factory=list)

    async def look(self) -> int:
        """A deep look; returns how many events it has signalled."""
        talk = self.house.talk
        history = History(talk.speaking._slack)
        looking = LiveCatchUpActivities(
            talk.database,
            history,
            self.house.gateway.pass_on,
            {ESCALATIONS: True},
            team=TEAM,
            bot_user=BOT_USER,
            quiet=0,
        )
        async with talk.database.begin() as work:
            await work.followed.install([ESCALATIONS], time.time() - 1000)
        plan = await talk.run(looking.begin_look, True)
        (window,) = [each for each in plan.windows if each.channel == ESCALATIONS]
        await talk.run(looking.read_history, PageRequest(window, plan.began, window.latest))
        await talk.run(looking.finish_channel, WindowDone(window, plan.began, plan.deep))
        await talk.run(looking.choose_threads, plan)
        self.found.append((await talk.run(looking.compare_threads, plan)).sent)
        return self.found[-1]

    async def never_stored(self) -> list[str]:
        async with self.house.talk.database.begin() as work:
            return list(await work.followed.never_stored())


async def until_dealt_with(house: House, count: int) -> None:
    """Wait until so many things that people did under the card need nothing more."""

    async def kept() -> bool:
        return len(await house.talk.rows("SELECT message_id FROM handover_answers")) == count

    await until(kept, f"{count} things are dealt with")


async def until_gone(house: House, words: str) -> None:
    async def gone() -> bool:
        return not any(words in each for each in house.said())

    await until(gone, f"{words!r} is not to be read any more")


def whole(house: House) -> list[str]:
    """What the bot says in the asker's thread, with its blocks."""
    return [f"{each.text} {each.blocks}" for each in house.talk.posted(GENERAL) if each.thread_ts]


def edited(card: Message, said: Message, text: str, at: str) -> dict[str, Any]:
    """What Slack's event of an edit under the card has of its own."""
    now = {"ts": said.ts, "user": said.user, "text": text, "thread_ts": card.ts, "edited": {"ts": at}}
    return {"subtype": "message_changed", "ts": at, "message": now, "previous_message": {"text": "", "ts": said.ts}}


def deleted(card: Message, said: Message) -> dict[str, Any]:
    """The same, of a deletion."""
    gone = {"ts": said.ts, "user": PERSON, "thread_ts": card.ts, "parent_user_id": BOT_USER}
    return {"subtype": "message_deleted", "deleted_ts": said.ts, "previous_message": gone}


async def notes(house: House) -> list[str]:
    """What the agent reads of the people's answers."""
    return [message.content for key, message in await house.talk.transcript() if key.startswith("h:")]


async def test_an_answer_that_slack_did_not_deliver_is_found_once_with_its_edit_and_its_deletion(house: House) -> None:
    workspace, looks = house.talk.slack.workspace, Looks(house)
    async with house.working():
        await house.escalated()
        card = await house.card()
        told = await house.reply(card, PERSON, "We look into it.")
        await house.until_said("We look into it.")
        await until_dealt_with(house, 1)
        missed = workspace.post(ESCALATIONS, PERSON, "We pay it back.", thread_ts=card.ts)
        assert await looks.look() == 1
        await house.until_said("We pay it back.")
        await until_dealt_with(house, 2)
        assert [await looks.look() for _ in range(4)] == [0, 0, 0, 0]

        workspace.edit(ESCALATIONS, missed.ts, "We pay the half back.", by=PERSON)
        assert await looks.look() == 1
        await house.until_said("We pay the half back.")
        await until_dealt_with(house, 3)
        assert await looks.look() == 0

        workspace.delete(ESCALATIONS, told.ts, by=PERSON)
        assert await looks.look() == 1
        await until_gone(house, "We look into it.")
        await until_dealt_with(house, 4)
        assert await looks.look() == 0
    assert await looks.never_stored() == []
    assert sum("We pay the half back." in each for each in house.said()) == 1


async def test_of_a_long_answer_that_is_changed_or_deleted_no_part_stays_and_the_agent_reads_no_word(
    house: House,
) -> None:
    long = "\n\n".join(f"{number} {'x' * 900}" for number in range(30)) + "\n\nAnother customer's name"
    longer = f"{long} for ever\n\n{'y' * 9000}\n\nThe very end"
    async with house.working():
        await house.escalated()
        card = await house.card()
        said = await house.reply(card, PERSON, long)
        await until_dealt_with(house, 1)
        assert sum("Another customer's name" in each for each in whole(house)) == 1 < len(house.said())

        await house.event(card, said, **edited(card, said, longer, "1790000000.000200"))
        await until_dealt_with(house, 2)
        assert sum("name for ever" in each for each in whole(house)) == 1
        assert "The very end" in whole(house)[-1]

        await house.event(card, said, **edited(card, said, "Short.", "1790000000.000300"))
        await until_dealt_with(house, 3)
        assert not any("Another customer's name" in each or "The very end" in each for each in whole(house))
        assert await notes(house) == [f"{PERSON}, a person of the team, answered: Short."]

        await house.event(card, said, **deleted(card, said))
        await until_dealt_with(house, 4)
    assert not any("Short." in each for each in whole(house))
    assert any("(deleted by its author)" in each for each in house.said())
    assert await notes(house) == [f"{PERSON}, a person of the team, answered: (deleted by its author)"]


async def test_where_the_asker_cannot_be_reached_the_person_is_told_and_what_follows_is_not_held_up(
    house: House,
) -> None:
    workspace = house.talk.slack.workspace
    async with house.working():
        await house.escalated()
        card = await house.card()
        said = await house.reply(card, PERSON, "It is on its way.")
        await until_dealt_with(house, 1)

        workspace.archive(GENERAL)
        await house.reply(card, PERSON, "It is delayed.")
        await house.until_said("Your message was not posted in the other thread", ESCALATIONS)
        await house.event(card, said, **deleted(card, said))
        await house.until_said("Your change was not made in the other thread", ESCALATIONS)
        await until_dealt_with(house, 3)

        workspace.channel(GENERAL).is_archived = False
        await house.reply(card, PERSON, "It comes on Monday.")
        await house.until_said("It comes on Monday.")
        await until_dealt_with(house, 4)
    assert not any("It is delayed." in each for each in whole(house))
    assert await notes(house) == [
        f"{PERSON}, a person of the team, answered: (deleted by its author)",
        f"{PERSON}, a person of the team, answered: It comes on Monday.",
    ]
    assert any("Slack has archived" in each and f"<@{PERSON}>" in each for each in house.said(ESCALATIONS))


async def test_what_is_written_under_a_closed_card_and_then_edited_is_nowhere_but_there(house: House) -> None:
    workspace = house.talk.slack.workspace
    async with house.working():
        await house.escalated()
        card = await house.card()
        await house.press(card, PERSON, CLOSE)  # nobody has taken it
        assert await house.ended() == ""
        said = await house.reply(card, PERSON, "One more thing.")
        await until_dealt_with(house, 1)
        (notice,) = [each for each in house.talk.posted(ESCALATIONS) if "This handover is closed" in each.text]
        # Slack counts in each channel by itself: another post of ours may have the same timestamp in the asker's.
        theirs = workspace.channel(GENERAL).messages
        theirs[notice.ts] = replace(house.talk.posted(GENERAL)[-1], ts=notice.ts)
        before = whole(house)
        await house.event(card, said, **edited(card, said, "One more thing, and another.", "1790000000.000200"))
        await until_dealt_with(house, 2)
    assert whole(house) == before
    assert not any("One more thing" in each or "has taken this over" in each for each in house.said())
    assert any("has closed the handover" in each for each in house.said())
    assert await notes(house) == []
    assert await house.talk.rows("SELECT key FROM slack_posts WHERE key LIKE 'handover:%:answer:%'") == []


async def test_an_answer_that_arrives_behind_its_deletion_is_said_to_nobody_and_takes_nothing(house: House) -> None:
    async with house.working():
        await house.escalated()
        card = await house.card()
        said = house.talk.slack.workspace.post(ESCALATIONS, PERSON, "Another customer's name", thread_ts=card.ts)
        await house.event(card, said, **edited(card, said, "Another customer's first name", "1790000000.000200"))
        await until_dealt_with(house, 1)
        await house.event(card, said, **deleted(card, said))
        await until_dealt_with(house, 2)
        before = whole(house)
        await house.event(card, said)
        await until_dealt_with(house, 3)
        await house.event(card, said, **edited(card, said, "Another customer's last name", "1790000000.000300"))
        await until_dealt_with(house, 4)
    assert whole(house) == before
    assert await notes(house) == []
    kept = await house.talk.rows("SELECT deleted FROM handover_answers WHERE message_type = 'message'")
    assert kept == [{"deleted": True}]
    assert await house.talk.rows("SELECT message_id FROM handover_answers WHERE message_text <> ''") == []
    assert await house.talk.rows("SELECT turn FROM handovers WHERE taken_by <> ''") == []


async def test_of_edits_in_any_order_the_newest_is_read_before_and_behind_their_original(house: House) -> None:
    async with house.working():
        await house.escalated()
        card = await house.card()
        said = house.talk.slack.workspace.post(ESCALATIONS, PERSON, "On Monday.", thread_ts=card.ts)
        for number, (words, at) in enumerate((("On Friday.", "400"), ("On Tuesday.", "200")), start=1):
            await house.event(card, said, **edited(card, said, words, f"1790000000.000{at}"))
            await until_dealt_with(house, number)
        await house.event(card, said)
        await until_dealt_with(house, 3)
        assert [each for each in house.said() if "On " in each] == [f"<@{PERSON}> answers\nOn Friday."]

        await house.event(card, said, **edited(card, said, "On Wednesday.", "1790000000.000300"))
        await until_dealt_with(house, 4)
    assert [each for each in house.said() if "On " in each] == [f"<@{PERSON}> answers\nOn Friday."]
    assert await notes(house) == [f"{PERSON}, a person of the team, answered: On Friday."]
    kept = await house.talk.rows("SELECT message_text FROM handover_answers WHERE message_text <> ''")
    assert kept == [{"message_text": "On Friday."}] * 2, "the answer's and its newest edit's"


async def test_an_answer_that_was_said_before_the_end_and_not_written_down_is_not_told_to_have_reached_nobody(
    house: House,
) -> None:
    async with house.working():
        await house.escalated()
        card = await house.card()
        said = await house.reply(card, PERSON, "It is on its way.")
        await until_dealt_with(house, 1)
        async with house.talk.database.begin() as work:
            await work.connection.execute(sql("DELETE FROM handover_answers"))
        await house.press(card, PERSON, CLOSE)
        await house.ended()
        await house.event(card, said)
        await until_dealt_with(house, 1)
    assert sum("It is on its way." in each for each in house.said()) == 1
    assert not any("was not posted in the other thread" in each for each in house.said(ESCALATIONS))
    assert await notes(house) == [f"{PERSON}, a person of the team, answered: It is on its way."]


async def test_a_conversation_that_a_person_had_is_forgotten_with_all_of_its_posts(house: House) -> None:
    async with house.working():
        await house.escalated()
        card = await house.card()
        await house.reply(card, PERSON, "It is on its way.")
        await until_dealt_with(house, 1)
        await house.press(card, PERSON, CLOSE)
        await house.ended()
    async with house.talk.database.begin() as work:
        await work.posts.claim(f"handover:{house.ref.key}5:card", "", "handover", ESCALATIONS, None, 0.0, 1.0)
        assert await work.conversations.prune(time.time() + 1000) == 1
    kept = await house.talk.rows("SELECT key FROM slack_posts")
    assert kept == [{"key": f"handover:{house.ref.key}5:card"}], "another turn's"
