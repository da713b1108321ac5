"""Where a path is played for its recording: a house with a repository, and a recorder of the runs that end in it."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.client import Client, WorkflowHistory

from tests.support.case_scene import House, outcome
from threadline.cases.model import Action
from threadline.investigator.store import TurnOutcome
from threadline_devstack.sample_repository import make_sample_repository

SHOP = "sample-shop"


@dataclass
class Stage:
    home: House
    repository: Path
    runs: list[WorkflowHistory] = field(default_factory=list)

    async def record(self, workflow_id: str = "") -> None:
        """Wait for the end of a workflow (the case's own without an id), and keep that run with those it continues."""
        self.runs += await chain(self.home.environment.client, workflow_id or self.home.handle.id)

    def fix(self, path: str) -> TurnOutcome:
        """What an agent hands over that has added a file."""
        added = (
            f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+fixed\n"
        )
        base = {SHOP: self._git("rev-parse", "main")}
        return outcome(Action.POST_FINDINGS, "fixed it", diffs={SHOP: added}, base=base, has_fix=True)

    def merge_fix(self) -> None:
        self._git("update-ref", "refs/heads/main", "threadline/bug-1")

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.repository), *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()


async def chain(client: Client, workflow_id: str) -> list[WorkflowHistory]:
    """Wait for the end of a workflow: its last run, after those that it continues."""
    handle = client.get_workflow_handle(workflow_id)
    await handle.result()
    run, found = (await handle.describe()).run_id, list[WorkflowHistory]()
    while run:
        history = await client.get_workflow_handle(handle.id, run_id=run).fetch_history()
        found.insert(0, history)
        run = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return found


def shop(folder: Path) -> Path:
    """A repository as its code host has it."""
    repository = folder / f"{SHOP}.git"
    make_sample_repository(repository)
    return repository
