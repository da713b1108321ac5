"""The gateway is away, Slack gives up, and people go on writing: every event is found, and handled
once.
"""

from collections import Counter
from contextlib import AsyncExitStack
from functools import partial

import pytest
from sqlalchemy import text

from tests.support.journey_scene import JourneyScene
from threadline.cases.model import CaseStatus, Reason
from threadline.cases.store.case import CaseStore
from threadline.db.engine import Database
from threadline.slack.model import Thread
from threadline.threads.model import SenderType
from threadline_devstack.slack.identity import (
    BYSTANDER,
    DEVELOPER,
    REPORTER,
    REPORTS,
    SUMMARIES,
    TEAM,
)
from threadline_devstack.stack import Stack

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(400),
]

CLEAR = "The cart total is too high with the discount code SAVE10 and twelve notebooks."
VAGUE = "Something is broken."


class Outage:
    """The events of people while the gateway is away, and their expected effects."""

    def __init__(self, scene: JourneyScene, database: Database) -> None:
        self.scene = scene
        self.slack = scene.slack
        self._database = database
        self.done = 0
        self.stored: Counter[str] = Counter()
        self.unheard: list[str] = []

    async def say(
        self, user: str, channel: str, thread: str, words: str, *, heard: bool = True
    ) -> str:
        self.done += 1
        if heard:
            self.stored[words] += 1
        else:
            self.unheard.append(words)
        return self.slack.say(user, channel, words, thread=thread)

    async def edit(self, ts: str, before: str, after: str) -> None:
        self.done += 1
        self.stored[after] += 1
        self.unheard.append(before)
        self.slack.workspace.edit(REPORTS, ts, after)

    async def delete(self, ts: str, words: str) -> None:
        self.done += 1
        self.unheard.append(words)
        self.slack.workspace.delete(REPORTS, ts)

    async def people_said(self) -> Counter[str]:
        """Every wording that is stored as a person's, as it reads now."""
        query = text(
            "SELECT message_text FROM bug_conversations WHERE sender_type <> :bot"
            " AND message_type IN ('report', 'message', 'close')"
        )
        async with self._database.begin() as tx:
            return Counter((await tx.execute(query, {"bot": SenderType.BOT})).scalars())

    async def heard(self) -> bool:
        said = await self.people_said()
        return all(said[words] == times for words, times in self.stored.items())

    async def found(self) -> bool:
        said = await self.people_said()
        return await self.heard() and not any(said[words] for words in self.unheard)

    async def resent(self) -> Counter[str]:
        async with self._database.begin() as tx:
            rows = await tx.execute(
                text("SELECT message_id, sends FROM catch_up_messages WHERE sends > 0")
            )
            return Counter({row.message_id: row.sends for row in rows})

    async def is_answered(self, scene: JourneyScene) -> bool:
        """Whether every message of a case was used by a turn, or by the case's end."""
        async with self._database.begin() as tx:
            snapshot = await CaseStore(tx).snapshot(scene.bug_id)
        return not snapshot.has_unread and snapshot.status is not CaseStatus.INVESTIGATING

    async def case_of(self, report: str) -> str:
        async with self._database.begin() as tx:
            found = await CaseStore(tx).snapshot_of(Thread(TEAM, REPORTS, report))
        return found.bug_id


async def test_fifty_messages_that_slack_gave_up_on_are_found_and_handled_once(
    stack: Stack,
) -> None:
    async with AsyncExitStack() as opened:
        asked, waiting, closed, ended = [
            await opened.enter_async_context(JourneyScene.on(stack)) for _ in range(4)
        ]
        database = Database(stack.database_url, pool_size=2)
        opened.push_async_callback(database.dispose)
        typo, secret = await _open_cases(asked, waiting, closed, ended)
        outage = Outage(asked, database)
        await waiting.until(
            "nothing is left to be answered", lambda: outage.is_answered(waiting), seconds=90
        )
        await waiting.until_delivered()

        await stack.processes.stop("gateway")
        asked.slack.faults.drop(count=1000)
        reports = await _write(outage, asked, waiting, closed, ended, typo, secret)
        assert outage.done == 50
        asked.slack.faults.slow(method="conversations.replies", seconds=0.5, count=40)
        await stack.processes.restart("gateway")

        async def begun() -> bool:
            return len(await outage.resent()) >= 3

        await asked.until("the catch-up has begun", begun, seconds=150)
        await stack.processes.kill("core")
        await stack.processes.restart("core")
        await asked.until("all that was said is stored", outage.heard, seconds=200)
        # A deletion counts in the second pass that finds it. On a fast machine the deleted message
        # was too fresh for the first pass, and the next one comes after minutes.
        await stack.processes.restart("gateway")
        await asked.until("all of it is stored as it reads now", outage.found, seconds=200)
        asked.slack.faults.clear()

        await _until_answered(outage, asked, waiting, closed, ended)
        for report in reports:
            assert await outage.case_of(report)
        assert await outage.found()
        assert max((await outage.resent()).values()) <= 2, (
            "once, and once more where the worker was killed"
        )
        await asked.until("every post is in Slack", partial(_is_all_shown, database), seconds=120)
        await _assert_stored_once(database)


async def _write(
    outage: Outage,
    asked: JourneyScene,
    waiting: JourneyScene,
    closed: JourneyScene,
    ended: JourneyScene,
    typo: str,
    secret: str,
) -> list[str]:
    """Fifty events; returns the reports among them."""
    reports = []
    for number in range(6):
        report = await outage.say(REPORTER, REPORTS, "", f"Report {number}: {CLEAR}")
        reports.append(report)
        await outage.say(REPORTER, REPORTS, report, f"Detail {number}: only with twelve or more")
        await outage.say(BYSTANDER, REPORTS, report, f"Works for me {number}", heard=False)
    for number in range(4):
        await outage.say(REPORTER, REPORTS, asked.report, f"Answer {number}: {CLEAR}")
        await outage.say(BYSTANDER, REPORTS, asked.report, f"Same here {number}", heard=False)
        await outage.say(
            DEVELOPER, SUMMARIES, waiting.summary, f"I think it is the cart ({number})"
        )
        await outage.say(DEVELOPER, SUMMARIES, "", f"Who is for lunch? {number}", heard=False)
    await outage.edit(typo, "I use Frefox, by the way", "I use Firefox, by the way")
    await outage.delete(secret, "My password is swordfish, in case you need it")
    gone = await outage.say(REPORTER, REPORTS, asked.report, "Wrong thread, sorry", heard=False)
    await outage.delete(gone, "Wrong thread, sorry")
    again = await outage.say(REPORTER, REPORTS, asked.report, "Numbr five")
    outage.stored["Numbr five"] -= 1
    await outage.edit(again, "Numbr five", "Number five")
    await outage.say(REPORTER, REPORTS, closed.report, "It went away")
    await outage.say(REPORTER, REPORTS, closed.report, "close this please")
    await outage.say(REPORTER, REPORTS, ended.report, f"It is back. {CLEAR}")
    await outage.say(BYSTANDER, REPORTS, ended.report, "Told you", heard=False)
    for number in range(6):
        await outage.say(REPORTER, REPORTS, reports[number], f"Postscript {number}")
    return reports


async def _went(scene: JourneyScene, reason: Reason) -> bool:
    return any(step.reason == reason for step in await scene.transitions())


async def _is_all_shown(database: Database) -> bool:
    async with database.begin() as tx:
        waiting = await tx.execute(
            text(
                "SELECT key FROM posts WHERE ts IS NULL AND key !~ "
                "'^BUG-[0-9]+:[a-z_]+:[0-9]+(\\:why)?$'"
            )
        )
        return not waiting.scalars().all()


async def _assert_stored_once(database: Database) -> None:
    async with database.begin() as tx:
        twice = await tx.execute(
            text(
                "SELECT message_id FROM bug_conversations GROUP BY message_id HAVING count(*) > 1"
            )
        )
        assert twice.scalars().all() == []


async def _open_cases(
    asked: JourneyScene, waiting: JourneyScene, closed: JourneyScene, ended: JourneyScene
) -> tuple[str, str]:
    """Open the cases; returns the replies that are edited and deleted later."""
    for scene, report in ((asked, VAGUE), (waiting, CLEAR), (closed, VAGUE), (ended, VAGUE)):
        await scene.write_report(report)
    await waiting.until_status(CaseStatus.PENDING_VERIFICATION, seconds=90)
    for scene in (asked, closed, ended):
        await scene.until_status(CaseStatus.AWAITING_REPORTER, seconds=90)
    await ended.reply(REPORTER, "never mind")
    await ended.until_status(CaseStatus.RESOLVED)
    typo = await waiting.reply(REPORTER, "I use Frefox, by the way")
    secret = await waiting.reply(REPORTER, "My password is swordfish, in case you need it")
    await waiting.until_stored("My password is swordfish, in case you need it", "reporter")
    return typo, secret


async def _until_answered(
    outage: Outage,
    asked: JourneyScene,
    waiting: JourneyScene,
    closed: JourneyScene,
    ended: JourneyScene,
) -> None:
    """Wait until the cases are closed or reopened, and every message is answered."""
    await closed.until(
        "the reporter's word closes the case", lambda: _went(closed, Reason.REPORTER_CLOSED)
    )
    await ended.until("a message reopens the case", lambda: _went(ended, Reason.REOPENED))
    for scene in (asked, waiting, ended):
        await scene.until(
            "every message is answered", partial(outage.is_answered, scene), seconds=120
        )
