"""The rule that decides whether a stored message that Slack's history does not show was deleted by
a person or forgotten by Slack.

Slack forgets messages that no person deleted: by a retention policy of the workspace or of one
channel, by the limit of a free plan, when a channel or a sandbox is created again, when a page
breaks off, or when a thread is not found for a while. In these cases the oldest messages are
missing, or many at once, or all newer ones. A person's deletion leaves one gap, with older and
newer messages around it. Only such a gap is believed, and only after two passes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MIN_LOOKS = 2
"""Passes of the catch-up that must find a message absent before its deletion is believed."""
MAX_IN_THREAD = 3
"""Most absent messages of one thread that are believed."""
MAX_IN_CHANNEL = 10
"""Most absent messages of one channel within `PERIOD` that are believed, however few each thread
has.
"""
MAX_IN_WORKSPACE = 30
"""The same limit for all channels together."""
PERIOD = 86_400.0
"""Seconds over which the absent messages of a channel and of the workspace are counted."""

SHORTEST_RETENTION = 86_400.0
"""Seconds of Slack's shortest retention policy, one day."""

_SLACKBOT = "USLACKBOT"
_SAID = frozenset({"", "bot_message", "file_share", "me_message", "thread_broadcast"})
"""Subtypes of messages that a person or an app wrote. The others are Slack's own messages, which
may outlive them.
"""


class Verdict(StrEnum):
    BELIEVED = "believed"
    WAITING = "waiting"
    DOUBTED = "doubted"


@dataclass(frozen=True)
class Absence:
    """A stored message that Slack does not show.

    - `looks`: passes that found it absent since Slack last showed it, this pass included;
    - `is_root`: it begins its thread;
    - `thread_is_whole`: Slack showed the thread from its root to its last page;
    - `older_is_shown`, `newer_is_shown`: Slack shows an older, or a newer, message of the same
      channel;
    - `in_thread`: messages of its thread that are absent now;
    - `in_channel`, `in_workspace`: messages that were found absent there within `PERIOD`.
    """

    looks: int
    is_root: bool
    thread_is_whole: bool
    older_is_shown: bool
    newer_is_shown: bool
    in_thread: int
    in_channel: int
    in_workspace: int


@dataclass(frozen=True)
class Judgement:
    """The verdict on an absent message. `reason` tells the admin the cause of a doubt; empty
    without one.
    """

    verdict: Verdict
    reason: str = ""


def judge(absence: Absence) -> Judgement:
    """Decide whether an absent message was deleted by a person."""
    if absence.looks < MIN_LOOKS:
        return Judgement(Verdict.WAITING)
    doubt = _doubt(absence)
    return Judgement(Verdict.DOUBTED, doubt) if doubt else Judgement(Verdict.BELIEVED)


def _doubt(absence: Absence) -> str:
    if absence.in_thread > MAX_IN_THREAD:
        return "many messages of one thread are missing at once"
    if absence.in_channel > MAX_IN_CHANNEL or absence.in_workspace > MAX_IN_WORKSPACE:
        return "messages are missing from many threads at once"
    if not absence.thread_is_whole and not (absence.is_root and absence.in_thread == 1):
        return "Slack does not show the whole thread"
    if not absence.older_is_shown:
        return (
            "Slack shows nothing older in the channel, as after a retention policy or a limit of "
            "the plan"
        )
    if not absence.newer_is_shown:
        return "Slack shows nothing newer in the channel"
    return ""


def is_evidence(message: Mapping[str, Any], team: str) -> bool:
    """Return whether a message of the history proves that Slack still has messages of its age.

    Slack's own messages may outlive those of people. In a shared channel each company's retention
    policy covers its own people only, so messages of other workspaces prove nothing.
    """
    if (message.get("subtype") or "") not in _SAID or message.get("user") == _SLACKBOT:
        return False
    homes = {message.get("team"), message.get("user_team")} - {None, ""}
    return homes <= {team}
