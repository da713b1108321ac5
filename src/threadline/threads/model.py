"""Values of a thread: the workflow that it belongs to, the keys of what it was sent, and presses of its buttons."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from threadline.slack.model import Thread

MAX_SEEN_PRESSES = 500
"""Presses whose keys are kept, to drop what is delivered again; the record decides once in any case."""
MAX_PRESS_EVENTS = 2_000
"""Events in the history of one run that waits for presses: somebody who presses again and again does not fill it."""
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


@dataclass(frozen=True)
class ButtonPress:
    """Somebody pressed a button of a card.

    `action_id` (Slack's word) says which button, and `value` what it was made for. `key` is the same when the press is
    delivered again. `at`: when, in seconds since 1970, by Slack's clock; 0 where that was not to be read. `channel` and
    `thread_ts` say where the person is answered.
    """

    user_id: str
    action_id: str
    value: str
    key: str
    at: float
    channel: str
    thread_ts: str


@dataclass(kw_only=True)
class ButtonState:
    """What a workflow that waits for presses carries into its next run. Each feature adds its card.

    `presses` are those that nobody has looked at, `seen` the keys of the last ones.
    """

    presses: list[ButtonPress] = field(default_factory=list)
    seen: dict[str, None] = field(default_factory=dict)

    def accept(self, press: ButtonPress) -> None:
        """Keep a press unless it was delivered before."""
        if is_new(self.seen, press.key, MAX_SEEN_PRESSES):
            self.presses.append(press)
