"""Closing is read by rule, and only when nothing else is said."""

import pytest

from threadline.threads.phrases import STOP_SIGNS, is_close, is_stop, is_thanks, is_wordless, thumb

CLOSES = [
    "never mind",
    "Never mind!",
    "nevermind, thanks",
    "ok never mind",
    "close this",
    "please close",
    "Close it please.",
    "you can close this case",
    "cancel this",
    "cancel",
    "forget it",
    "false alarm",
    "<@U0BOT> never mind :pray:",
    "no longer needed",
]
TALK = [
    "don't close this",
    "do not close it",
    "never mind the first log, here is a better one",
    "the modal won't close",
    "close the dialog and it crashes",
    "I can't cancel this order",
    "never mind? really?  it still fails",
    "wait, still broken",
    "",
    "🙂",
]
THANKS = ["thanks", "Thank you!", "great, thanks a lot", "ok", "works now, thank you so much", "perfect :tada:", "thx"]


@pytest.mark.parametrize("text", CLOSES)
def test_a_whole_close_phrase_closes(text: str) -> None:
    assert is_close(text)


@pytest.mark.parametrize("text", [*TALK, *THANKS, "thanks but still broken"])
def test_anything_else_does_not_close(text: str) -> None:
    assert not is_close(text)


@pytest.mark.parametrize("text", THANKS)
def test_thanks_is_thanks(text: str) -> None:
    assert is_thanks(text)


@pytest.mark.parametrize(
    "text", [*CLOSES[:1], *TALK, "thanks but still broken", "thanks, and it also fails in Firefox"]
)
def test_thanks_with_more_to_say_is_no_thanks(text: str) -> None:
    assert not is_thanks(text)


@pytest.mark.parametrize("text", ["", "🙂", ":+1:", "👍 :tada: !!", "<@U0BOT>"])
def test_a_message_of_emoji_alone_has_no_words(text: str) -> None:
    assert is_wordless(text)
    assert not is_wordless(f"{text} it is back")


STOPS = [
    "stop",
    "Stop!",
    "STOP STOP",
    "stop it",
    "stop please",
    "please stop now",
    "no, wait, stop that!!",
    "ok stop :pray:",
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
    "do not stop",
    "stop the build",
    "when does it stop?",
    "is it a full stop",
    "cancel",
    "cancel that",
    "cancel it",
    "cancel my appointment",
    "cancel that appointment",
    "stop, and then create three items",
    "unstoppable",
    ":no_entry_sign:",
    "🛑 at the crossing",
]


@pytest.mark.parametrize("text", STOPS)
def test_a_whole_word_to_stop_stops(text: str) -> None:
    assert is_stop(text)


@pytest.mark.parametrize("text", [*GOES_ON, *THANKS, "never mind the first log, here is a better one"])
def test_anything_else_goes_on(text: str) -> None:
    assert not is_stop(text)


@pytest.mark.parametrize("name", ["+1", "-1", "+1::skin-tone-2", "-1::skin-tone-6", "thumbsup", "thumbsdown"])
def test_a_thumb_counts_in_every_tone_of_skin(name: str) -> None:
    assert thumb(name) is (name[0] == "+" or name == "thumbsup")


@pytest.mark.parametrize("name", ["", "heart", "octagonal_sign", "+1x", "point_up::skin-tone-2", "::skin-tone-2"])
def test_another_reaction_is_no_thumb(name: str) -> None:
    assert thumb(name) is None
