"""Values of a thread: the workflow that it belongs to, and the keys of what it was sent."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadline.slack.model import Thread

_WORKFLOW_ID = re.compile(r"[a-z]+(:[^:]+){2}:[0-9]+\.[0-9]+(:[0-9]+)?")


@dataclass(frozen=True)
class ThreadOwner:
    """Who gets what people write in a thread: one row of the table `threads`.

    `kind` begins with the feature: `case:report`, `case:summary`, `case:escalation`, `conversation`, `handover`.
    """

    workflow_id: str
    kind: str

    @property
    def feature(self) -> str:
        """`case`, `conversation` or `handover`."""
        return self.kind.partition(":")[0]

    @property
    def thread(self) -> Thread:
        """The thread that the workflow is named after: a case's report, or where a conversation is held.

        The id of every such workflow begins with `<prefix>:<team>:<channel>:<ts>`.
        """
        _, team, channel, ts, *_ = self.workflow_id.split(":")
        return Thread(team, channel, ts)


def owner_in(payload: Mapping[str, Any]) -> ThreadOwner | None:
    """The owner that the metadata of a root names, which `threads.outbox` wrote; None when it names none."""
    workflow_id, kind = payload.get("workflow_id"), payload.get("kind")
    if not isinstance(workflow_id, str) or not isinstance(kind, str) or not _WORKFLOW_ID.fullmatch(workflow_id):
        return None
    return ThreadOwner(workflow_id, kind)


def is_new(seen: dict[str, None], key: str, most: int) -> bool:
    """Whether a key was not seen before. It is remembered; of more than `most` keys the oldest are forgotten.

    Workflows run this: it must not change for open ones.
    """
    if key in seen:
        return False
    seen[key] = None
    while len(seen) > most:
        del seen[next(iter(seen))]
    return True
