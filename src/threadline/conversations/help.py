"""Help for people in Slack: at most six short lines about the place in which they ask, and example
requests for buttons. Pure.

The descriptions of tools are written for models, so no text here contains one. A press of an
example becomes a message of the person who pressed; `gateway/interactions.py` builds it.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from threadline.threads.model import message_id

ASK_EXAMPLE = "ask_example"
"""Beginning of the names of the buttons of examples: `ask_example:1`."""
MAX_EXAMPLES = 4
"""Buttons under one help."""
_EXAMPLE_ID = re.compile(r":ask_example:[0-9]+:[A-Z0-9]+$")


class HelpPlace(StrEnum):
    """The kinds of channels for which the help differs."""

    REPORTS = "reports"
    DEVELOPERS = "developers"
    DIRECT = "direct"
    CHANNEL = "channel"


@dataclass(frozen=True)
class CaseChannelIds:
    """The channels of cases, by their ids; empty where they are not known."""

    reports: str = ""
    developers: frozenset[str] = frozenset()

    def place_of(self, channel: str) -> HelpPlace:
        """Return the place that a channel is."""
        if channel and channel == self.reports:
            return HelpPlace.REPORTS
        if channel in self.developers:
            return HelpPlace.DEVELOPERS
        return HelpPlace.DIRECT if channel.startswith("D") else HelpPlace.CHANNEL


@dataclass(frozen=True)
class Ability:
    """A subject that the bot can help with.

    - `example`: a request that a person would type. It changes nothing, since people press a
      button to see what happens;
    - `toolsets`: the help mentions it if a tool of one of them is offered.
    """

    name: str
    example: str
    toolsets: tuple[str, ...]


ABILITIES = (
    Ability("our documents", "How do refunds work?", ("qa",)),
    Ability("bugs", "Which bugs are open?", ("cases",)),
    Ability("RFPs", "Which RFPs are open?", ("rfp", "opportunity", "journal", "event", "team")),
    Ability("estimates", "Which projects have an estimate?", ("estimates",)),
    Ability("appointments", "What is booked next week?", ("appointments", "calendar")),
    Ability("Jira tickets", "Which Jira tickets are open?", ("jira",)),
    Ability("builds", "Which builds failed lately?", ("ci",)),
    Ability("customers", "Which customers do we know?", ("crm",)),
    Ability("scheduled jobs", "Which jobs are scheduled?", ("agent", "schedule", "job")),
    Ability("emails", "Draft a thank-you email to me.", ("email",)),
    Ability("this thread", "Summarise this thread.", ("slack", "memory")),
)
"""One row for each subject, the most asked for first."""
INTERNAL_TOOLSETS = frozenset({"propose"})
"""Toolsets that no person asks for by name."""


@dataclass(frozen=True)
class Help:
    """A help: its text in mrkdwn, and the requests on its buttons."""

    text: str
    examples: tuple[str, ...] = ()


def build_help(
    channel: str,
    toolsets: Collection[str],
    channels: CaseChannelIds,
    *,
    greets: bool = False,
    has_model: bool = True,
) -> Help:
    """Return the help for a channel.

    Args:
        channel: the channel's id.
        toolsets: the toolsets of the tools that are offered to the people who ask.
        channels: the channels of cases.
        greets: begin with a greeting.
        has_model: whether a language model is configured, without which requests get no answer.
    """
    place = channels.place_of(channel)
    if place in _FIXED:
        head, *lines = _FIXED[place]
        return Help("\n".join([_opening(head, greets=greets), *lines]))
    abilities = [each for each in ABILITIES if not set(each.toolsets).isdisjoint(toolsets)]
    examples = tuple(each.example for each in abilities[:MAX_EXAMPLES]) if has_model else ()
    lines = [
        _opening(_HEAD, greets=greets),
        _subjects_line(abilities) if has_model else _NO_MODEL,
        _HOW_TO_ASK[place],
        *([_report_line(channels.reports)] if channels.reports else []),
        _HOW_TO_STOP,
        *([_BEFORE_BUTTONS] if examples else []),
    ]
    return Help("\n".join(lines), examples)


def example_id(team: str, channel: str, ts: str, button: str, user: str) -> str:
    """Return the id of the message that a press becomes. It is the same for repeated presses of a
    person, so that the example is asked once.

    Args:
        team: our workspace.
        channel: the channel of the help.
        ts: the message with the help.
        button: the name of the button, which begins with `ASK_EXAMPLE`.
        user: the person who pressed.
    """
    return f"{message_id(team, channel, ts)}:{button}:{user}"


def is_example(message: str) -> bool:
    """Return whether a message with this id is a press of an example, so that Slack has no such
    message.
    """
    return _EXAMPLE_ID.search(message) is not None


def asked_by(name: str, example: str) -> str:
    """Return the line before the answer to an example, which people cannot see as a message."""
    return f"_{name} asked:_ {example}"


def _opening(head: str, *, greets: bool) -> str:
    return f"Hi there! :wave: {head}" if greets else head


def _subjects_line(abilities: Sequence[Ability]) -> str:
    *names, last = [each.name for each in abilities] or [_ANY_THREAD]
    listed = f"{', '.join(names)} and {last}" if names else last
    return f"• I can help with {listed}."


def _report_line(reports: str) -> str:
    return f"• Found a bug? Post it in <#{reports}>. It gets a BUG number, and I look into it."


_ANY_THREAD = "questions about this thread"
"""The subject where no toolset is offered."""
_HEAD = "Ask me in plain words, and I answer in the thread."
_HOW_TO_ASK = {
    HelpPlace.DIRECT: "• Just write to me here, or mention me in any channel that I am in.",
    HelpPlace.CHANNEL: "• Mention me to ask something. You can also send me a direct message.",
}
_HOW_TO_STOP = "• Write *stop* to stop me. *Never mind* closes a bug report of yours."
_BEFORE_BUTTONS = "Press an example, and I answer it here:"
_NO_MODEL = "• I cannot answer questions yet: please ask the admin to set up my language model."
_ELSEWHERE = (
    "• For anything else, send me a direct message or mention me in another channel. *Stop* stops "
    "me there."
)
_FIXED = {
    HelpPlace.REPORTS: (
        "This channel is for bug reports.",
        "• Write in a new message what happened and what you expected. Files and logs help.",
        "• Your report gets a BUG number, and I look into it right away.",
        "• Please answer in the thread of your report: I ask there when something is missing.",
        "• Write *never mind* in that thread, and I close the report at once.",
        _ELSEWHERE,
    ),
    HelpPlace.DEVELOPERS: (
        "Here I post what I find out about bugs, in one thread for each case.",
        "• Answer in the thread of a case, and I read it before my next step.",
        "• Ask me there for a fix, and I draft one for your review.",
        "• Tell me there when a case is done. Its reporter can also close it with *never mind*.",
        _ELSEWHERE,
    ),
}
"""The help of the channels of cases, which have no conversations and so no examples."""
