"""Help is short, fits its place and the offered tools, and its buttons ask what they show."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.slack.limits import check
from threadline.conversations.blocks import help_message
from threadline.conversations.help import (
    ABILITIES,
    ASK_EXAMPLE,
    INTERNAL_TOOLSETS,
    MAX_EXAMPLES,
    CaseChannelIds,
    Help,
    HelpPlace,
    build_help,
    example_id,
    is_example,
)
from threadline.conversations.model.conversation import ConversationTurn, OutcomeKind
from threadline.conversations.posting import TurnAnswer, has_buttons
from threadline.conversations.store.turns import SettledTurn
from threadline.jobs.model import is_job_question, job_question_id
from threadline.slack.model import Thread
from threadline.threads import phrases
from threadline.threads.basis import Basis
from threadline.threads.model import edit_id, message_id, reaction_id, stop_id
from threadline.wiring.toolsets import TOOLS
from threadline_devstack.slack.blocks import check_blocks

MAX_LINES = 6
MAX_LINE = 160
MAX_LABEL = 75
"""Slack's limit for the label of a button."""
CHANNELS = CaseChannelIds("C0REPORTS", frozenset({"C0SUMMARIES", "C0ESCALATE"}))
PLACES = ("C0REPORTS", "C0SUMMARIES", "C0ESCALATE", "D0ANNA", "C0GENERAL", "G0PRIVATE")
EVERY_TOOLSET = frozenset(each.toolset for each in TOOLS)
OFFERS: Sequence[frozenset[str]] = (
    frozenset(),
    EVERY_TOOLSET,
    *(frozenset({each}) for each in sorted(EVERY_TOOLSET)),
)
EVERY_HELP = [
    build_help(channel, toolsets, channels, greets=greets, has_model=has_model)
    for channel in PLACES
    for toolsets in OFFERS
    for channels in (CHANNELS, CaseChannelIds())
    for greets in (False, True)
    for has_model in (False, True)
]


def shown(channel: str, toolsets: frozenset[str] = EVERY_TOOLSET) -> Help:
    return build_help(channel, toolsets, CHANNELS)


@pytest.mark.parametrize(
    ("channel", "place"),
    [
        ("C0REPORTS", HelpPlace.REPORTS),
        ("C0SUMMARIES", HelpPlace.DEVELOPERS),
        ("C0ESCALATE", HelpPlace.DEVELOPERS),
        ("D0ANNA", HelpPlace.DIRECT),
        ("C0GENERAL", HelpPlace.CHANNEL),
        ("G0PRIVATE", HelpPlace.CHANNEL),
        ("", HelpPlace.CHANNEL),
    ],
)
def test_place_follows_from_the_channel(channel: str, place: HelpPlace) -> None:
    assert CHANNELS.place_of(channel) is place
    assert CaseChannelIds().place_of("C0REPORTS") is HelpPlace.CHANNEL


@pytest.mark.parametrize(
    ("channel", "told"),
    [
        ("C0REPORTS", ("bug reports", "new message", "BUG number", "never mind", "Stop")),
        ("C0SUMMARIES", ("each case", "fix", "never mind", "direct message", "Stop")),
        ("D0ANNA", ("write to me here", "<#C0REPORTS>", "BUG number", "stop", "Never mind")),
        ("C0GENERAL", ("Mention me", "<#C0REPORTS>", "BUG number", "stop", "Never mind")),
    ],
)
def test_help_is_about_its_place(channel: str, told: tuple[str, ...]) -> None:
    assert [each for each in told if each not in shown(channel).text] == []


def test_help_without_a_channel_for_reports_links_to_none() -> None:
    assert "<#" not in build_help("C0GENERAL", EVERY_TOOLSET, CaseChannelIds()).text


@pytest.mark.parametrize(
    ("toolsets", "line", "examples"),
    [
        (set(), "questions about this thread.", ()),
        ({"lamps"}, "questions about this thread.", ()),
        ({"cases"}, "bugs.", ("Which bugs are open?",)),
        (
            {"qa", "rfp"},
            "our documents and RFPs.",
            ("How do refunds work?", "Which RFPs are open?"),
        ),
        (
            {"calendar", "appointments", "ci"},
            "appointments and builds.",
            ("What is booked next week?", "Which builds failed lately?"),
        ),
    ],
)
def test_help_offers_what_the_tools_can_do(
    toolsets: set[str], line: str, examples: tuple[str, ...]
) -> None:
    given = shown("C0GENERAL", frozenset(toolsets))
    assert f"I can help with {line}" in given.text
    assert given.examples == examples
    assert ("Press an example" in given.text) is bool(examples)


def test_each_toolset_has_an_example_or_is_internal() -> None:
    named = [name for each in ABILITIES for name in each.toolsets]
    assert len(named) == len(set(named))
    assert set(named) | INTERNAL_TOOLSETS == EVERY_TOOLSET
    assert INTERNAL_TOOLSETS.isdisjoint(named)


def test_help_without_a_model_offers_nothing_to_ask() -> None:
    given = build_help("C0GENERAL", EVERY_TOOLSET, CHANNELS, has_model=False)
    assert given.examples == ()
    assert "I cannot answer questions yet: please ask the admin" in given.text
    assert "I can help" not in given.text


def test_channels_of_cases_have_no_buttons_since_they_have_no_conversations() -> None:
    assert [shown(each).examples for each in PLACES[:3]] == [(), (), ()]


def test_greeting_is_greeted_and_a_cry_for_help_is_not() -> None:
    for channel in PLACES:
        greeted = build_help(channel, EVERY_TOOLSET, CHANNELS, greets=True)
        assert greeted.text == f"Hi there! :wave: {shown(channel).text}"


def test_help_has_at_most_six_short_lines_and_four_buttons() -> None:
    for each in EVERY_HELP:
        lines = each.text.splitlines()
        assert 0 < len(lines) <= MAX_LINES
        assert all(line.strip() and len(line) <= MAX_LINE for line in lines)
        assert len(each.examples) <= MAX_EXAMPLES
        assert len(set(each.examples)) == len(each.examples)
        assert all(0 < len(label) <= MAX_LABEL for label in each.examples)


def test_help_names_stop_and_never_mind_everywhere() -> None:
    for each in EVERY_HELP:
        bold = [words.lower() for words in re.findall(r"\*([^*]+)\*", each.text)]
        assert {"stop", "never mind"} <= set(bold)
    assert phrases.is_stop("stop")
    assert phrases.is_close("never mind")


def test_no_description_or_name_of_a_tool_is_in_the_help() -> None:
    for given in {"\n".join((each.text, *each.examples)) for each in EVERY_HELP}:
        assert [each.name for each in TOOLS if each.does in given or each.name in given] == []


def test_message_of_a_help_is_one_that_slack_accepts() -> None:
    for each in EVERY_HELP:
        message = help_message(each.text, each.examples)
        check([message])
        check_blocks([dict(block) for block in message.blocks])


def test_each_button_asks_the_words_on_it() -> None:
    message = help_message("Press one:", ("Which bugs are open?", "Which RFPs are open?"))
    buttons = message.blocks[-1]["elements"]
    assert [(each["text"]["text"], each["action_id"]) for each in buttons] == [
        ("Which bugs are open?", f"{ASK_EXAMPLE}:1"),
        ("Which RFPs are open?", f"{ASK_EXAMPLE}:2"),
    ]
    assert all(each["value"] == each["text"]["text"] for each in buttons)
    assert [each["type"] for each in help_message("Nothing to press.").blocks] == ["section"]


def test_help_is_recognised_after_a_restore_though_it_has_buttons() -> None:
    turn = ConversationTurn(Thread("T1", "C1", "1789999990.000100"), 1)
    settled = SettledTurn(
        OutcomeKind.REPLIED_BY_RULE, "Press one:", "U1", False, 0, datetime.now(UTC), None
    )
    asked = ("1789999990.000100",)
    answer = TurnAnswer(turn, settled, (), asked, ("Which bugs are open?",))
    parts = answer.render()
    assert has_buttons(parts)
    assert answer.post(parts).basis == Basis("answer", turn.thread.key, asked, asked)
    assert replace(answer, examples=None).post(parts).basis is None


def test_only_the_id_of_a_pressed_example_is_one() -> None:
    thread = ("T1", "C1", "1789999990.000100")
    pressed = example_id(*thread, f"{ASK_EXAMPLE}:2", "U1")
    others = (
        message_id(*thread),
        edit_id(*thread, "1789999991.000100"),
        stop_id(*thread, "U1", "1789999991.000100"),
        reaction_id(*thread, "U1", "+1", "1789999991.000100"),
        job_question_id("T1", "JOB-1", 2),
    )
    assert is_example(pressed)
    assert not is_job_question(pressed)
    assert not any(map(is_example, others))
