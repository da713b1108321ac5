"""The activities of a fix at the code host; results are the case's marks, and arguments are references."""

from abc import ABC, abstractmethod

from temporalio import activity

from threadline.cases.contract import TurnRef
from threadline.cases.model import Marks


class FixActivities(ABC):
    """What is done at the code host. Run in the core worker, which alone may push."""

    @activity.defn
    @abstractmethod
    async def open_pull_request(self, turn: TurnRef) -> Marks:
        """Bring the turn's fix to the code host, and say so in the summary thread."""

    @activity.defn
    @abstractmethod
    async def check_pull_request(self, bug_id: str) -> Marks:
        """Ask the code host whether the case's fix was merged; a merge is recorded and resolves the case."""
