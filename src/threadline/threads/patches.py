"""One named gate for each change in the order of a workflow's commands, with the day on which it may go.

A case under way goes on as it began; only what is decided after the deploy goes the new way:

    if patches.DRAIN_FIRST.passed():
        return None

A gate may go when no run is open that began before its deploy: `threadline replay` with the code that lacks it says so.
"""

from dataclasses import dataclass
from datetime import date

from temporalio import workflow


@dataclass(frozen=True)
class Gate:
    """`name` is in histories, and never used again for another change."""

    name: str
    may_go: date

    def passed(self) -> bool:
        """Whether this run takes the new way; false while it replays what was decided on the old one."""
        return workflow.patched(self.name)


DRAIN_FIRST = Gate("drain-before-continuing", date(2027, 6, 1))
"""A run that is to continue as new stores what is pending, until the next run can take it, and begins no step."""

SWEEP_TALKS = Gate("sweep-conversations", date(2027, 6, 1))
"""The sweep looks after conversations, too."""

CASES_FIRST = Gate("catch-up-cases-first", date(2027, 6, 1))
"""The catch-up looks at conversations, after it has looked at the cases."""

WAYS = Gate("ways-of-turns", date(2027, 6, 1))
"""A turn's way is found before the model is asked, and what it has shown is remembered."""

DECISIONS = Gate("decisions", date(2027, 6, 1))
"""What to do with a question is decided before the conversational agent is asked."""

GATES = (DRAIN_FIRST, SWEEP_TALKS, CASES_FIRST, WAYS, DECISIONS)
"""All that there are."""
