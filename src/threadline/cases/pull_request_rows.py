"""The one pull request of a case."""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases import case_row
from threadline.cases.model import Marks
from threadline.cases.tables import pull_requests

PullRequestState = Literal["open", "merged", "closed"]


@dataclass(frozen=True)
class PullRequestRecord:
    """`number` is None where the code host knows branches alone; `commit` is its newest; `turn` made that."""

    repository: str
    branch: str
    url: str
    number: int | None
    commit: str
    turn: int
    state: PullRequestState = "open"


class PullRequests:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def of(self, bug_id: str) -> PullRequestRecord | None:
        row = (
            await self._connection.execute(select(pull_requests).where(pull_requests.c.bug_id == bug_id))
        ).one_or_none()
        if row is None:
            return None
        return PullRequestRecord(row.repository, row.branch, row.url, row.number, row.commit, row.turn, row.state)

    async def save(self, bug_id: str, request: PullRequestRecord) -> Marks:
        """Keep it as it is at the code host now; a later fix, a merge or a closing replaces what was known."""
        await case_row.lock(self._connection, bug_id)
        merged_at = func.now() if request.state == "merged" else None
        row = {**vars(request), "merged_at": merged_at}
        known = insert(pull_requests).values(bug_id=bug_id, opened_at=func.now(), **row)
        await self._connection.execute(known.on_conflict_do_update(index_elements=["bug_id"], set_=row))
        await case_row.write(self._connection, bug_id)
        return await case_row.marks(self._connection, bug_id)
