"""What the estimates' tools need: a team's projects, read and changed by thread."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol

from threadline.estimates.model import ItemChange, NewItem, Project, ProjectDetails, Quote, WbsItem
from threadline.slack.model import Thread
from threadline.tools.context import Port
from threadline.tools.operations import Change, Effect, Operation


class EstimateBook(Protocol):
    """A team's projects, as a thread works on them.

    `project` is an id, a name, or empty for the one that the thread is about. The first project that is opened in a
    thread becomes its own. Each change is checked against the project's lock and rate where it is made.

    Raises:
        ProjectNotFound: the team has no such project, or none was named and the thread is about none.
        ProjectLocked, EstimateRefused, RateExceeded: of a change; nothing was changed.
    """

    async def projects(self, team: str, limit: int) -> Sequence[Project]:
        """By name."""
        ...

    async def use(self, thread: Thread, user_id: str, project: str) -> Project:
        """The thread is about this project from now on."""
        ...

    async def details(self, thread: Thread, user_id: str, project: str) -> ProjectDetails: ...

    async def create_items(
        self, change: Change, user_id: str, project: str, new: Sequence[NewItem]
    ) -> tuple[Project, Sequence[WbsItem]]: ...

    async def update_items(
        self, change: Change, user_id: str, project: str, changes: Sequence[ItemChange]
    ) -> tuple[Project, Sequence[WbsItem]]: ...

    async def update_quote_totals(
        self,
        change: Change,
        user_id: str,
        project: str,
        *,
        number: int,
        discount_percent: Decimal | None,
        tax_percent: Decimal | None,
    ) -> tuple[Project, Quote]:
        """`number` 0 is the newest quote; a percentage that is None stays as it is."""
        ...

    async def effect(self, operation: Operation) -> Effect | None:
        """What the operation did; None when it changed nothing."""
        ...


ESTIMATES = Port[EstimateBook](
    "The estimates", "They are in the database: set DATABASE_URL, and fill it with `threadline records load FILE`."
)
