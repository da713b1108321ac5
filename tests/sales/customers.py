"""People of a workspace, one of them a guest and one of another company, and a desk that keeps
customers.
"""

from collections.abc import Mapping

from tests.support.tool_scene import ToolScene
from threadline.db.engine import Database
from threadline.db.rate_limits import Rate
from threadline.errors import Transient
from threadline.sales import tools as crm
from threadline.slack.model import User
from threadline.slack.users import UserDirectory
from threadline.tools.context import Services

PEOPLE = {
    "U1": User("T1", name="Ana Silva", email="Ana@Acme.example"),
    "U2": User("T1", name="Ben Okoro", email="ben@shop.example"),
    "UGUEST": User("T1", guest=True, name="Gus", email="gus@acme.example"),
    "UOTHER": User("T9", external=True, name="Olga", email="olga@other.example"),
    "U9": User("T2", name="Nina", email="nina@second.example"),
}


class Directory(UserDirectory):
    """Slack's profiles of people; `away`: Slack does not answer."""

    def __init__(self, people: Mapping[str, User] = PEOPLE) -> None:
        super().__init__(self._find)
        self._people = people
        self.away = False

    async def _find(self, user_id: str) -> User | None:
        if self.away:
            raise Transient("Slack did not answer.")
        return self._people.get(user_id)


def desk_of(
    database: Database, rate: Rate | None = None, people: Directory | None = None
) -> ToolScene:
    services = Services().with_service(UserDirectory, people or Directory())
    return ToolScene(database, crm.TOOLS, rate, services)
