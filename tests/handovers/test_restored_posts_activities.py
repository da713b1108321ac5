"""After a restore, the posts of a handover are found in both threads of Slack, and not posted
again.
"""

import time

from sqlalchemy import text as sql

from tests.handovers.scene import HandoverScene
from tests.handovers.test_answer_activities import answers, arrives, edited, shown, written
from threadline.handovers.contract import Reminder
from threadline.handovers.model import UNDO
from threadline.threads.installation_store import RestoreWindow
from threadline_devstack.slack.identity import ESCALATIONS


async def restore(scene: HandoverScene, *, with_answers: bool = False) -> None:
    """The database knows only the card's post, and the messages under it only `with_answers`."""
    async with scene.talk.database.begin() as tx:
        if not with_answers:
            await tx.execute(sql("DELETE FROM handover_answers"))
        await tx.execute(sql(r"DELETE FROM posts WHERE key NOT LIKE '%\:card'"))
    scene.talk.activities.deps.outbox.lost.window = RestoreWindow(0.0, time.time() + 1_000_000)


async def test_reply_and_its_preview_are_found(taken: HandoverScene) -> None:
    said = written(taken, "We pay it back.")
    await arrives(taken, said)
    before = taken.said(), taken.said(ESCALATIONS)
    await restore(taken)
    await arrives(taken, said)
    assert (taken.said(), taken.said(ESCALATIONS)) == before
    await arrives(taken, edited(said, "We pay it back today."))
    assert len(taken.previews()) == len(answers(taken)) == 1
    assert "today" in answers(taken)[0]
    assert "today" in str(taken.previews()[0].blocks)


async def test_found_preview_shows_the_present_state_of_the_reply(taken: HandoverScene) -> None:
    said = written(taken, "We pay it back.")
    await arrives(taken, said)
    await restore(taken)
    taken.hold = 60.0
    await shown(taken, said)
    (preview,) = taken.previews()
    assert UNDO in str(preview.blocks)


async def test_reply_by_the_button_is_found(taken: HandoverScene) -> None:
    """The backup has the reply, which was sent later."""
    taken.hold = 60.0
    await taken.replied("We pay it back.")
    await taken.talk.rows("UPDATE handover_answers SET send_at = now() RETURNING 1")
    await taken.send_replies()
    before = taken.said(), taken.said(ESCALATIONS)
    await restore(taken, with_answers=True)
    await taken.talk.rows("UPDATE handover_answers SET reply_state = 'held' RETURNING 1")
    await taken.talk.run(taken.activities.open_handover, taken.ref)
    await taken.talk.rows("UPDATE handover_answers SET send_at = now() RETURNING 1")
    await taken.send_replies()
    assert (taken.said(), taken.said(ESCALATIONS)) == before


async def test_message_of_the_asker_is_found_under_the_card(taken: HandoverScene) -> None:
    await taken.hears(2, "to which account?", "x " * 9000)
    before = taken.said(ESCALATIONS)
    await restore(taken)
    await taken.relay(2)
    assert taken.said(ESCALATIONS) == before
    await taken.hears(3, "and when?")
    assert "and when?" in taken.said(ESCALATIONS)[-1]


async def test_reminder_and_notice_about_a_late_reply_are_found(waiting: HandoverScene) -> None:
    await waiting.talk.run(waiting.activities.remind_handover, Reminder(waiting.ref, 1))
    late = written(waiting, "And a coupon.")
    await waiting.pressed(close=True, at=float(late.ts) - 1)
    await arrives(waiting, late)
    before = waiting.said(ESCALATIONS)
    await restore(waiting)
    await waiting.talk.rows("UPDATE handovers SET reminded = 0 RETURNING 1")
    await arrives(waiting, late)
    await waiting.talk.rows("UPDATE handovers SET closed_by = '', closed_at = NULL RETURNING 1")
    await waiting.talk.run(waiting.activities.remind_handover, Reminder(waiting.ref, 1))
    assert waiting.said(ESCALATIONS) == before
