"""What jobs do when their time has come, one method for each type."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol
from zoneinfo import ZoneInfo

from threadline.db.engine import Database
from threadline.jobs import blocks as sentences
from threadline.jobs import job_types
from threadline.jobs.job_types import Arguments, DeadlineReminder, FollowUp, StatusDigest
from threadline.jobs.model import AgentJob, job_question_id
from threadline.rfps.model import OPEN, Rfp, RfpNotFound, find_rfp_ids
from threadline.rfps.store import RfpStore
from threadline.slack import formatting
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread, clean_text
from threadline.slack.store import UserStore
from threadline.threads.model import IncomingMessage, MessageKind, SenderType
from threadline.threads.outbox import Outbox, Post

MOST_LISTED = 50
"""RFPs of one digest; it says that there are more."""


class Asking(Protocol):
    """Puts questions to the conversation of a thread, in somebody's name."""

    async def may_ask(self, thread: Thread, user_id: str) -> None:
        """Raises `Permanent` when what is asked in their name is not answered there, and `Transient`."""
        ...

    async def ask(self, thread: Thread, message: IncomingMessage) -> None:
        """Hand a message over; the same one again is nothing new. Raises as `may_ask`."""
        ...


class Admission(Protocol):
    async def admit(self, channel: str, user_id: str) -> str:
        """The id of a channel in which the bot may post for somebody. Raises `Permanent` or `Transient`."""
        ...


@dataclass(frozen=True)
class Task:
    """One run of a job: `team` whose it is, `number` which run."""

    team: str
    job: AgentJob
    number: int

    @property
    def thread(self) -> Thread:
        return Thread(self.team, self.job.channel, self.job.thread_ts)

    def key(self, kind: str) -> str:
        """Of what this run says."""
        return f"job:{self.job.job_id}:run:{self.number}:{kind}"


class JobWork:
    """Every post has a key of the job, the run and its kind, so that a run which is repeated says nothing twice.

    Args:
        asking: where a follow-up's question goes.
        clock: seconds since 1970.
    """

    def __init__(
        self, database: Database, outbox: Outbox, channels: Admission, asking: Asking, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._channels = channels
        self._asking = asking
        self._clock = clock

    async def do(self, task: Task) -> str:
        """A sentence on what was done. Raises `Permanent` or `Transient`."""
        given: Arguments = job_types.read(job_types.type_of(task.job.job_type), task.job.arguments)
        match given:
            case StatusDigest():
                return await self._digest(task, given)
            case DeadlineReminder():
                return await self._remind(task, given)
            case FollowUp():
                return await self._follow_up(task, given)

    async def say(self, task: Task, kind: str, rendered: tuple[Rendered, ...], channel: str = "") -> str:
        """Post in a channel, or else in the job's thread; returns the `ts`."""
        place, thread_ts = (channel, None) if channel else (task.job.channel, task.job.thread_ts)
        return await self._outbox.publish(Post(task.key(kind), place, thread_ts, rendered))

    async def _digest(self, task: Task, given: StatusDigest) -> str:
        channel = await self._channels.admit(given.channel or task.job.channel, task.job.author.user_id)
        async with self._database.begin() as work:
            found = await RfpStore(work.tx).listed(task.team, open_only=True, limit=MOST_LISTED + 1)
            user = await UserStore(work.tx).get(task.team, task.job.author.user_id)
        text = sentences.digest(_lines(found[:MOST_LISTED], self._today(task)), more=len(found) > MOST_LISTED)
        foot = sentences.asked_for(task.job.job_id, user.display_name if user else "")
        rendered = formatting.notice(f"{text}\n\n{foot}", headline="Open RFPs")
        await self.say(task, job_types.STATUS_DIGEST, rendered, channel)
        return f"Posted a digest of {len(found[:MOST_LISTED])} open RFPs in {channel}."

    async def _remind(self, task: Task, given: DeadlineReminder) -> str:
        try:
            async with self._database.begin() as work:
                rfp = await RfpStore(work.tx).get(task.team, given.rfp_id)
        except RfpNotFound as gone:
            return f"Posted no reminder: {gone}."
        if rfp.status not in OPEN or rfp.due_date is None:
            why = f"is {sentences.spaced(rfp.status)}" if rfp.due_date else "has no due date"
            return f"Posted no reminder: {rfp.rfp_id} {why}."
        user, channel = task.job.author.user_id, ""
        if given.channel:
            channel = await self._channels.admit(given.channel, user)
        text = sentences.deadline(_line(rfp, self._today(task)), task.job.job_id)
        rendered = formatting.notice(text, mentions=(user,), headline="A deadline is near")
        await self.say(task, job_types.DEADLINE_REMINDER, rendered, channel)
        return f"Posted a reminder: {rfp.rfp_id} is due on {rfp.due_date.isoformat()}."

    async def _follow_up(self, task: Task, given: FollowUp) -> str:
        """First what is asked and for whom, then the question itself, which stands at that post in the thread."""
        user = task.job.author.user_id
        await self._channels.admit(task.job.channel, user)  # who has asked may have left since
        await self._asking.may_ask(task.thread, user)  # nothing is announced that is then not done
        rendered = formatting.notice(
            sentences.follow_up(given.question, task.job.job_id), mentions=(user,), headline="A follow-up"
        )
        ts = await self.say(task, job_types.FOLLOW_UP, rendered)
        identity = job_question_id(task.team, task.job.job_id, task.number)
        text = clean_text(_about(given))
        question = IncomingMessage(
            identity, MessageKind.MESSAGE, SenderType.UNKNOWN, user, text, task.job.channel, ts, addressed=True
        )
        await self._asking.ask(task.thread, question)
        return "Asked the operator in the thread."

    def _today(self, task: Task) -> date:
        return datetime.fromtimestamp(self._clock(), ZoneInfo(task.job.schedule.time_zone)).date()


def _about(given: FollowUp) -> str:
    """The question, with the RFP that it is about unless it names one."""
    named = find_rfp_ids(given.question)
    return given.question if named or not given.rfp_id else f"{given.question} ({given.rfp_id})"


def _lines(found: Sequence[Rfp], today: date) -> list[str]:
    return [_line(each, today) for each in found]


def _line(rfp: Rfp, today: date) -> str:
    facts = [sentences.due(rfp.due_date, today), sentences.spaced(rfp.status)]
    if rfp.owner:
        facts.append(f"owner {sentences.inline(rfp.owner)}")
    client = f" for {sentences.inline(rfp.client)}" if rfp.client else ""
    return f"**{sentences.inline(rfp.title)}**{client} (`{rfp.rfp_id}`): {', '.join(facts)}"
