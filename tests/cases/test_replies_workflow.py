"""Developers get one message with the findings, which is kept up to date, and a short reply to
what they write.
"""

import pytest
from sqlalchemy import text

from tests.support.case_scene import CaseScene, HeldTurn, StartCase, outcome
from tests.support.temporal import skipping_time
from threadline.cases.model import Action
from threadline.errors import Permanent
from threadline.threads.model import MessageKind
from threadline.threads.outbox import Outbox, Post
from threadline_devstack.slack.identity import REPORTS, SUMMARIES

pytestmark = pytest.mark.timeout(120)
POST = Action.POST_FINDINGS


def shown(scene: CaseScene) -> list[str]:
    """Return the bot's messages in the summary thread, without its root, the card."""
    return scene.said(SUMMARIES)[1:]


async def until_settled(scene: CaseScene, turns: int) -> None:
    await scene.until_status(*["investigating", "pending_verification"] * turns)
    await scene.until_quiet()


async def test_turn_without_new_findings_posts_its_reply_alone(start_case: StartCase) -> None:
    script = outcome(POST, "the tax is added twice"), outcome(POST, "", reply="Nothing new yet.")
    async with start_case(*script) as scene:
        await scene.report()
        await until_settled(scene, 1)
        before = shown(scene)
        await scene.developer("status?")
        await until_settled(scene, 2)
        assert shown(scene)[: len(before)] == before
        (reply,) = shown(scene)[len(before) :]
        assert "Nothing new yet." in reply
        assert "the tax is added twice" not in reply
        assert "Nothing new yet." in await scene.texts()


async def test_new_findings_replace_the_earlier_ones_and_a_note_names_the_changes(
    start_case: StartCase,
) -> None:
    script = (
        outcome(POST, "the tax is added twice", root_cause="cart.py adds it"),
        outcome(POST, "the tax is rounded twice", root_cause="cart.py adds it", severity="S1"),
    )
    async with start_case(*script) as scene:
        await scene.report()
        await until_settled(scene, 1)
        await scene.developer("look at the rounding")
        await until_settled(scene, 2)
        findings, note = shown(scene)
        assert "the tax is rounded twice" in findings
        assert "the tax is added twice" not in findings
        assert "Severity S1" in findings
        assert "the severity (S2, now S1) and the summary." in note
        assert "root cause" not in note


async def test_findings_that_people_have_deleted_are_posted_again(start_case: StartCase) -> None:
    script = outcome(POST, "the tax is added twice"), outcome(POST, "it is the rounding")
    async with start_case(*script) as scene:
        await scene.report()
        await until_settled(scene, 1)
        messages = scene.slack.workspace.channel(SUMMARIES).messages
        [ts] = [
            ts for ts, each in messages.items() if "the tax is added twice" in str(each.blocks)
        ]
        scene.slack.workspace.delete(SUMMARIES, ts)
        await scene.developer("look at the rounding")
        await until_settled(scene, 2)
        assert scene.times_said("it is the rounding", SUMMARIES) == 1


async def test_findings_grow_and_shrink_in_their_place(start_case: StartCase) -> None:
    script = (
        outcome(POST, "short"),
        outcome(POST, "long " * 3_000),
        outcome(POST, "short again"),
    )
    async with start_case(*script) as scene:
        await scene.report()
        await until_settled(scene, 1)
        await scene.developer("all of it, please")
        await until_settled(scene, 2)
        first, second, *_ = shown(scene)
        assert "(1/" in first
        assert "(2/" in second
        await scene.developer("shorter, please")
        await until_settled(scene, 3)
        first, second, *_ = shown(scene)
        assert "short again" in first
        assert "long" not in second


async def test_turn_that_has_nothing_to_say_posts_nothing(start_case: StartCase) -> None:
    script = outcome(POST, "the tax is added twice"), outcome(POST, "", reply="")
    async with start_case(*script) as scene:
        await scene.report()
        await until_settled(scene, 1)
        before = shown(scene) + scene.said(REPORTS)
        await scene.developer("I think so, too")
        await until_settled(scene, 2)
        assert shown(scene) + scene.said(REPORTS) == before


async def test_same_findings_again_are_no_change(start_case: StartCase) -> None:
    script = outcome(POST, "the tax is added twice"), outcome(POST, "the tax  is added twice ")
    async with start_case(*script) as scene:
        await scene.report()
        await until_settled(scene, 1)
        await scene.developer("are you sure?")
        await until_settled(scene, 2)
        assert scene.times_said("my findings are the same", SUMMARIES) == 1
        assert len(shown(scene)) == 2


async def test_thanks_and_words_to_a_colleague_start_no_turn(start_case: StartCase) -> None:
    async with start_case(outcome(POST), outcome(POST, "", reply="Done.")) as scene:
        await scene.report()
        await until_settled(scene, 1)
        for words in ("thanks!", "<@U77> lunch?", ":+1:"):
            await scene.developer(words)
        await scene.until_quiet()
        assert len(scene.agent.requests) == 1
        await scene.developer("please add a test")
        await until_settled(scene, 2)
        assert scene.agent.batches[1] == ["thanks!", "<@U77> lunch?", ":+1:", "please add a test"]


async def test_question_to_the_reporter_comes_with_a_reply_to_developers(
    start_case: StartCase,
) -> None:
    script = outcome(POST), outcome(Action.ASK_REPORTER, "", reply="I ask for the browser first.")
    async with start_case(*script) as scene:
        await scene.report()
        await until_settled(scene, 1)
        await scene.developer("is it the cache?")
        await scene.until_status("investigating", "awaiting_reporter")
        assert scene.times_said("I ask for the browser first.", SUMMARIES) == 1
        assert scene.times_said("I ask for the browser first.", REPORTS) == 0
        assert scene.times_said("Which browser?", REPORTS) == 1


async def test_question_that_slack_refuses_reaches_the_developers(start_case: StartCase) -> None:
    async with start_case(outcome(POST), outcome(Action.ASK_REPORTER, "")) as scene:
        await scene.report()
        await until_settled(scene, 1)
        scene.slack.faults.refuse("chat.postMessage", "thread_not_found")
        await scene.developer("is it the cache?")
        await until_settled(scene, 2)
        assert scene.times_said("Which browser?", SUMMARIES) == 1
        assert scene.times_said("found it", SUMMARIES) == 1


async def test_findings_that_were_never_posted_come_with_the_next_turn(
    start_case: StartCase,
) -> None:
    async with start_case(outcome(POST), outcome(POST, "", reply="Done.")) as scene:
        await scene.report()
        await until_settled(scene, 1)
        async with scene.database.begin() as tx:
            await tx.execute(text("DELETE FROM posts WHERE key LIKE '%findings'"))
        await scene.developer("any news?")
        await until_settled(scene, 2)
        assert scene.times_said("found it", SUMMARIES) == 2
        assert scene.times_said("Done.", SUMMARIES) == 1


async def test_findings_that_slack_lets_nobody_change_are_posted_again(
    start_case: StartCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced = Outbox.replace

    async def refuse(outbox: Outbox, post: Post) -> bool:
        if post.key.endswith(":findings"):
            raise Permanent("cant_update_message")
        return await replaced(outbox, post)

    monkeypatch.setattr(Outbox, "replace", refuse)
    script = outcome(POST, "the tax"), outcome(POST, "the rounding", reply="I looked again.")
    async with start_case(*script) as scene:
        await scene.report()
        await until_settled(scene, 1)
        await scene.developer("look at the rounding")
        await until_settled(scene, 2)
        assert scene.times_said("the rounding", SUMMARIES) == 1
        assert scene.times_said("I looked again.", SUMMARIES) == 1


async def test_new_severity_without_new_findings_is_shown_and_named_once(
    start_case: StartCase,
) -> None:
    worse = outcome(POST, "", reply="Right.", severity="S1")
    async with start_case(outcome(POST), worse, worse) as scene:
        await scene.report()
        await until_settled(scene, 1)
        for turn, words in enumerate(("it is worse", "and now?"), start=2):
            await scene.developer(words)
            await until_settled(scene, turn)
        findings, *replies = shown(scene)
        assert "Severity S1" in findings
        assert "found it" in findings
        assert ["S2, now S1" in each for each in replies] == [True, False]


async def test_end_without_new_findings_keeps_them_and_gives_the_reply_as_its_reason(
    start_case: StartCase,
) -> None:
    end = outcome(Action.RESOLVED, "", reply="It was deployed and works.")
    async with start_case(outcome(POST), end) as scene:
        await scene.report()
        await until_settled(scene, 1)
        await scene.developer("deployed, it works")
        assert await scene.result() == "resolved"
        assert "found it" in shown(scene)[0]
        assert "It was deployed and works." in shown(scene)[-1]
        assert "is resolved" in shown(scene)[-1]


async def test_words_without_a_turn_put_off_the_end_by_silence(start_case: StartCase) -> None:
    async with start_case(outcome(POST), server=skipping_time) as scene:
        await scene.report()
        await until_settled(scene, 1)
        await scene.later(hours=40)
        await scene.developer("<@U77> please take it, deploy Thursday")
        await scene.until_quiet()
        await scene.later(hours=40)
        assert (await scene.statuses())[-1] == "pending_verification"
        await scene.later(hours=10)
        await scene.until_status("pending_verification", "resolved")
        assert len(scene.agent.requests) == 1


def card(scene: CaseScene) -> str:
    return scene.said(SUMMARIES)[0]


async def until_card(scene: CaseScene, words: str) -> None:
    async def shows() -> bool:
        return words in card(scene)

    await scene.until(shows, f"the card says {words!r}")


async def test_card_shows_the_case_as_it_is(start_case: StartCase) -> None:
    turn = HeldTurn(outcome(POST, "", reply="Done.", severity="S1"))
    async with start_case(outcome(POST), turn) as scene:
        await scene.report()
        await until_settled(scene, 1)
        await until_card(scene, "Waiting for developers")
        assert "Severity S2" in card(scene)
        await scene.developer("this is worse than S2")
        await turn.began.wait()
        await until_card(scene, "Investigating")
        turn.finish.set()
        await until_card(scene, "Waiting for developers")
        assert "Severity S1" in card(scene)
        await scene.reporter("never mind", MessageKind.CLOSE)
        assert await scene.result() == "resolved"
        assert "Closed, as its reporter asked" in card(scene)
        assert scene.times_said("BUG-1: Cart total", SUMMARIES) >= 1


async def test_card_that_people_have_deleted_stops_nothing(start_case: StartCase) -> None:
    async with start_case(outcome(POST), outcome(POST, "", reply="Done.")) as scene:
        await scene.report()
        await until_settled(scene, 1)
        case = await scene.case()
        assert case.summary
        scene.slack.workspace.delete(SUMMARIES, case.summary.ts)
        await scene.reporter("it is worse now")
        await until_settled(scene, 2)
        assert scene.times_said("Done.", SUMMARIES) == 1


async def test_card_that_slack_refuses_is_updated_with_the_next_change(
    start_case: StartCase,
) -> None:
    async with start_case(outcome(POST), outcome(POST, "", reply="")) as scene:
        await scene.report()
        await until_settled(scene, 1)
        await until_card(scene, "Waiting for developers")
        scene.slack.faults.refuse("chat.update", "cant_update_message")
        await scene.developer("any news?")
        await until_settled(scene, 2)
        await scene.reporter("never mind", MessageKind.CLOSE)
        assert await scene.result() == "resolved"
        assert "Closed, as its reporter asked" in card(scene)
