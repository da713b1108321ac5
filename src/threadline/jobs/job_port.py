"""What the tools about jobs need: a team's jobs, put on record and started."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from threadline.jobs.model import AgentJob, JobQuery, JobStanding, NewJob, WantedJob
from threadline.slack.model import Thread
from threadline.tools.model import Author, Change, Effect, Operation


class JobDesk(Protocol):
    """A team's jobs.

    Raises:
        JobNotFound, JobRefused, RfpNotFound: the message says what to do instead; nothing was changed.
        Permanent, Transient: the channel is not one for who asks, or Slack, Temporal or the database is away.
    """

    async def plan(self, thread: Thread, user_id: str, wanted: WantedJob, now: datetime) -> NewJob:
        """What would be scheduled; nothing is written."""
        ...

    async def schedule(self, change: Change, author: Author, wanted: WantedJob) -> AgentJob:
        """Put it on record, and start what runs it, once for each operation."""
        ...

    async def found(self, team: str, query: JobQuery, limit: int) -> Sequence[tuple[AgentJob, JobStanding | None]]:
        """The newest first, each with how Temporal has it; None of one that is over, or while Temporal does not say."""
        ...

    async def status(self, team: str, job_id: str) -> tuple[AgentJob, JobStanding | None]: ...

    async def cancel(self, change: Change, job_id: str, user_id: str) -> AgentJob:
        """It is not to run any more, once for each operation; a run that has begun goes on to its end.

        For who asked for it, for an approver, and in a channel where it was asked for or posts; else `JobRefused`.
        """
        ...

    async def effect(self, operation: Operation) -> Effect | None:
        """What the operation did; None when it changed nothing."""
        ...
