"""The activities of a fix at the code host; results are the case's marks, and arguments are references."""

from abc import ABC, abstractmethod

from temporalio import activity

from threadline.cases.contract import TurnRef
from threadline.cases.model import Marks
from threadline.threads.activity_options import ActivityOptions, activity_options, retry_policy

FORGE = ActivityOptions(start_to_close=660, retry=retry_policy(2, 120), schedule_to_close=3600)
"""After an hour without the code host people are told, and may ask again."""


class FixActivities(ABC):
    """What is done at the code host. Run in the core worker, which alone may push."""

    @activity_options(FORGE)
    @activity.defn
    @abstractmethod
    async def open_pull_request(self, turn: TurnRef) -> Marks:
        """Bring the turn's fix to the code host, and say so in the summary thread."""

    @activity_options(ActivityOptions(start_to_close=660, retry=retry_policy(2, 60, attempts=5)))
    @activity.defn
    @abstractmethod
    async def check_pull_request(self, bug_id: str) -> Marks:
        """Ask the code host whether the case's fix was merged; a merge is recorded and resolves the case."""
