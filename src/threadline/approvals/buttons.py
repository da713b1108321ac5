"""An approval: what waits for somebody's word about a proposed action, and the clicks on its two buttons."""

import re
from dataclasses import dataclass, field

from threadline.slack.model import Thread
from threadline.threads.model import is_new

APPROVE, REJECT = "approval_approve", "approval_reject"
"""The buttons' ids (`action_id` in Slack's words)."""
REMEMBERED = 500
"""Clicks whose keys are kept, to drop what is delivered again; the record decides once in any case."""

_VALUE = re.compile(r"(ACT-[0-9]{1,18}):([0-9a-f]{64})")


@dataclass(frozen=True)
class ButtonClick:
    """Somebody pressed a button of an approval.

    `key` is the same when the click is delivered again. `at`: when, in seconds since 1970, by Slack's clock; 0 where
    that was not to be read. `channel` and `thread_ts` say where whoever clicked is answered.
    """

    user_id: str
    action_hash: str
    approve: bool
    key: str
    at: float
    channel: str
    thread_ts: str


@dataclass
class Approval:
    """One proposed action that waits; what its workflow starts with, and carries into its next run.

    `clicks` are those that nobody has looked at, `seen` the keys of the last ones.
    """

    team: str
    action_id: str
    clicks: list[ButtonClick] = field(default_factory=list)
    seen: dict[str, None] = field(default_factory=dict)

    def take(self, click: ButtonClick) -> None:
        """Keep a click unless it was delivered before."""
        if is_new(self.seen, click.key, REMEMBERED):
            self.clicks.append(click)


def button_value(action_id: str, action_hash: str) -> str:
    """What a button carries: which action it was made for, and for what exactly."""
    return f"{action_id}:{action_hash}"


def button_read(value: str) -> tuple[str, str] | None:
    """The action's id and hash; None for what is no button of an approval."""
    found = _VALUE.fullmatch(value)
    return (found[1], found[2]) if found else None


def turn_of(correlation_id: str, thread: Thread) -> int:
    """The turn whose message shows what was proposed in it; 0 where the correlation id names none."""
    turn = correlation_id.removeprefix(f"{thread.key}:")
    return int(turn) if turn != correlation_id and turn.isdecimal() else 0
