"""Messages are recognised by rule: a closing one only if each of its parts is known."""

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from threadline.threads.phrases import (
    MAX_CLOSE,
    STOP_SIGNS,
    is_bare_close,
    is_close,
    is_greeting,
    is_small_talk,
    is_stop,
    is_thanks,
    is_wordless,
    thumb,
)

CLOSES = [
    "Never mind!",
    "nevermind, thanks",
    "please close",
    "Close it please.",
    "you can close this case",
    "cancel",
    "forget it",
    "false alarm",
    "<@U0BOT> never mind :pray:",
    "no longer needed",
]
TALK = [
    "don't close this",
    "never mind the first log, here is a better one",
    "close the dialog and it crashes",
    "never mind? really?  it still fails",
    "",
    "🙂",
]
THANKS = [
    "thanks",
    "Thank you!",
    "great, thanks a lot",
    "ok",
    "works now, thank you so much",
    "perfect :tada:",
    "thx",
]


def kept(judge: Callable[[str], bool], texts: Iterable[str]) -> list[str]:
    """Return the texts that a rule recognises."""
    return [text for text in texts if judge(text)]


def test_close_phrase_closes_and_nothing_else_does() -> None:
    assert kept(is_close, CLOSES) == CLOSES
    assert kept(is_close, [*TALK, *THANKS, "thanks but still broken"]) == []


MESSAGES = tomllib.loads((Path(__file__).parent / "closing_messages.toml").read_text("utf-8"))


def labelled(kind: str) -> list[str]:
    """Return the labelled messages of a kind."""
    return [text for texts in MESSAGES[kind].values() for text in texts]


def test_closing_phrase_with_a_reason_on_the_authors_side_closes() -> None:
    messages = labelled("close")
    assert kept(is_close, messages) == messages


def test_message_that_only_seems_to_withdraw_the_report_closes_nothing() -> None:
    assert kept(is_close, labelled("ask")) == []


def test_phrase_about_a_message_or_one_of_several_things_closes_nothing() -> None:
    messages = [
        "ignore that message",
        "please ignore that one",
        "Please delete the message",
        "cancel the request",
        "can be deleted",
    ]
    assert kept(is_close, messages) == []


def test_message_that_goes_on_with_the_report_closes_nothing() -> None:
    messages = [*labelled("open"), *GOES_ON, *(f"{each} <@U1>" for each in labelled("open"))]
    messages = [each for each in messages if each != "cancel"]
    assert kept(is_close, messages) == []


@pytest.mark.parametrize(
    "word", ["but", "still", "however", "again", "aber", "trotzdem", "mais", "pero", "mas"]
)
def test_word_that_goes_on_keeps_every_closing_message_open(word: str) -> None:
    assert kept(is_close, [f"{each}, {word} it is odd" for each in labelled("close")]) == []
    assert kept(is_close, [f"{word} {each}" for each in labelled("close")]) == []


def test_question_closes_nothing() -> None:
    assert kept(is_close, [f"{each}?" for each in [*CLOSES, *labelled("close")]]) == []


def test_long_message_closes_nothing() -> None:
    padded = [f"{each}{', thanks' * 30}" for each in labelled("close")]
    assert all(len(each) > MAX_CLOSE for each in padded)
    assert kept(is_close, padded) == []


def test_close_with_a_reason_is_no_answer_to_a_question() -> None:
    reasons = [f"{each}, it was my VPN" for each in ("please ignore", "cancel it", "close it")]
    assert kept(is_close, reasons) == reasons
    assert kept(is_bare_close, [*reasons, *labelled("ask"), *labelled("open")]) == []


BARE = [
    *(
        "cancel",
        "Cancel!",
        "close",
        "Drop.",
        "*Cancel*",
        "`cancel`",
        "ok, cancel",
        "please cancel",
        "cancel it please",
    ),
    *(
        "close it",
        "drop that",
        "cancel this",
        "drop this now",
        "ignore it",
        "ignore that, thanks",
        "you can close it",
    ),
]
"""Closing phrases that may answer "which button did you press?", or "shall I cancel the
export?".
"""
WHOLE = [
    *(
        "never mind",
        "Never mind that!",
        "forget it",
        "false alarm",
        "no longer needed",
        "no longer an issue",
    ),
    *(
        "close this",
        "please close this case",
        "cancel the case",
        "drop the bug",
        "you can close this one",
    ),
]


def test_bare_closing_verb_differs_from_a_whole_phrase() -> None:
    assert kept(is_close, [*BARE, *WHOLE]) == [*BARE, *WHOLE]
    assert kept(is_bare_close, [*BARE, *WHOLE, *TALK, *THANKS]) == BARE


def test_thanks_is_thanks_unless_more_is_said() -> None:
    assert kept(is_thanks, THANKS) == THANKS
    more = ["thanks but still broken", "thanks, and it also fails in Firefox"]
    assert kept(is_thanks, ["never mind", *TALK, *more]) == []


def test_greeting_is_one_unless_more_is_said() -> None:
    greetings = ["hi", "Hello!", "<@U0BOT> hey there :wave:", "Good morning, team", "hello again"]
    assert kept(is_greeting, greetings) == greetings
    assert (
        kept(
            is_greeting, ["", ":wave:", "hi, what is new?", "hello world", "good", "high", *THANKS]
        )
        == []
    )


def test_message_of_emoji_alone_has_no_words() -> None:
    emoji = ["", "🙂", ":+1:", "👍 :tada: !!", "<@U0BOT>"]
    assert kept(is_wordless, emoji) == emoji
    assert kept(is_wordless, [f"{each} it is back" for each in emoji]) == []


STOPS = [
    "stop",
    "STOP STOP",
    "stop it",
    "no, wait, stop that!!",
    "stop working",
    "stop everything right now",
    "halt",
    "abort",
    "<@U0BOT> stop",
    "🛑",
    "⛔️ !",
    *(f":{name}:" for name in sorted(STOP_SIGNS)),
]
GOES_ON = [
    "",
    "🙂",
    ":eyes:",
    "<@U0BOT>",
    "don't stop",
    "stop the build",
    "when does it stop?",
    "cancel",
    "cancel that appointment",
    "stop, and then create three items",
    "unstoppable",
    ":no_entry_sign:",
    "🛑 at the crossing",
]


def test_stop_word_stops_and_nothing_else_does() -> None:
    assert kept(is_stop, STOPS) == STOPS
    assert (
        kept(is_stop, [*GOES_ON, *THANKS, "never mind the first log, here is a better one"]) == []
    )


def test_thumb_counts_in_every_skin_tone_and_no_other_reaction_does() -> None:
    assert [thumb(each) for each in ("+1", "+1::skin-tone-2", "thumbsup")] == [True] * 3
    assert [thumb(each) for each in ("-1", "-1::skin-tone-6", "thumbsdown")] == [False] * 3
    others = ("", "heart", "octagonal_sign", "+1x", "point_up::skin-tone-2", "::skin-tone-2")
    assert [thumb(each) for each in others] == [None] * 6


SMALL_TALK = """
    Hi! | hello there | Good morning, team :wave: | <@U1> thanks a lot! | Thank you so much
    | Hey, how are you?
    | Danke schön! | merci beaucoup | ¡Hola! | Grazie | Спасибо! | 你好 | ありがとうございます | شكرا
    | bye, have a nice day | Guten Morgen | good job, thanks
"""
REQUESTS = """
    ok | yes | no thanks, cancel it | hi, what does it cost? | thanks, and the second? | hire
    | tyre | hello world fails | good | danke, und die zweite? | what is up with the server
"""


@pytest.mark.parametrize("text", SMALL_TALK.split("|"))
def test_small_talk_is_nothing_to_decide(text: str) -> None:
    assert is_small_talk(text)


@pytest.mark.parametrize("text", ["", *REQUESTS.split("|")])
def test_text_with_a_request_is_no_small_talk(text: str) -> None:
    assert not is_small_talk(text)
