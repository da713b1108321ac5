"""The words that make a thread quiet, in many languages, and the words that do not."""

import pytest

from threadline.conversations.model.quiet import LONGEST_QUIET, QuietOrder, parse_quiet_order

QUIET = (
    "quiet",
    "Be quiet, please!",
    "ok, be quiet now",
    "shhh",
    "psst",
    "mute",
    "Mute the thread.",
    "silence",
    "shut up",
    "don't reply",
    "quiet @threadline",
    "sei still",
    "Ruhe bitte",
    "Silence !",
    "tais-toi",
    "ne réponds plus, s'il te plaît",
    "¡Silencio!",
    "cállate",
    "silêncio por favor",
    "zitto",
    "wees stil",
    "cicho",
    "тихо",
    "sessiz ol",
    "שקט",
    "اسكت",
    "चुप रहो",
    "静かに。",
    "静かにしてください",
    "安静",
    "조용히 해주세요",
    "เงียบ",
    "im lặng",
    "🤫",
    ":shushing_face:",
    ":mute: 🔇",
)
TALK = (
    "",
    "thanks",
    "please",
    "stop",
    "is it quiet in here?",
    "quiet?",
    "it is quiet today",
    "quiet hours are from 9 to 10",
    "mute the alert of the build",
    "still waiting",
    "silence the alarm in staging",
    "be quiet for 0 minutes",
    "mute for 3 bananas",
    "for 2 hours",
    ":wave:",
    "静かに動くサーバー",
)


@pytest.mark.parametrize("words", QUIET)
def test_a_whole_message_that_asks_for_quiet_is_an_order(words: str) -> None:
    assert parse_quiet_order(words) == QuietOrder()


@pytest.mark.parametrize("words", TALK)
def test_other_words_are_no_order(words: str) -> None:
    assert parse_quiet_order(words) is None


@pytest.mark.parametrize(
    "words",
    [
        "unmute",
        "wake up!",
        "you can talk again",
        "wach auf",
        "réveille-toi",
        "despierta",
        "起きて",
    ],
)
def test_words_that_end_the_quiet_are_an_order(words: str) -> None:
    assert parse_quiet_order(words) == QuietOrder(wakes=True)


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("mute for 2 hours", 7200),
        ("please be quiet for an hour", 3600),
        ("mute 30m", 1800),
        ("sei still für 2 Stunden", 7200),
        ("silence 1d please", 86400),
        ("quiet for 9999 weeks", LONGEST_QUIET),
    ],
)
def test_an_order_may_name_its_time(words: str, seconds: float) -> None:
    assert parse_quiet_order(words) == QuietOrder(seconds=seconds)
