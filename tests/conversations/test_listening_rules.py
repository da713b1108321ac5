"""The rule for silence, as a table of facts."""

import pytest

from threadline.conversations.model.listening import (
    Attention,
    Heard,
    Listen,
    attention,
    begins_conversation,
    leads_with_other,
)

ANSWER = Attention.ANSWER
WEIGH = Attention.WEIGH
STORE = Attention.STORE


@pytest.mark.parametrize(
    ("heard", "mentioned", "meant", "every"),
    [
        (Heard(), STORE, WEIGH, ANSWER),
        (Heard(calls_bot=True), ANSWER, ANSWER, ANSWER),
        (Heard(calls_bot=True, leads_with_other=True), ANSWER, ANSWER, ANSWER),
        (Heard(answers_question=True), STORE, ANSWER, ANSWER),
        (Heard(leads_with_other=True), STORE, STORE, STORE),
        (Heard(follows_people=True), STORE, WEIGH, STORE),
        (Heard(is_muted=True), STORE, STORE, STORE),
        (Heard(is_muted=True, answers_question=True), STORE, STORE, STORE),
        (Heard(is_muted=True, calls_bot=True), ANSWER, ANSWER, ANSWER),
        (Heard(is_muted=True, calls_bot=True, is_request=False), STORE, STORE, STORE),
        (Heard(is_muted=True, has_person=True), WEIGH, WEIGH, WEIGH),
        (Heard(leads_with_other=True, has_person=True), WEIGH, WEIGH, WEIGH),
    ],
)
def test_each_mode_answers_what_it_promises(
    heard: Heard, mentioned: Attention, meant: Attention, every: Attention
) -> None:
    decided = [attention(listen, heard) for listen in Listen]
    assert decided == [mentioned, meant, every]


@pytest.mark.parametrize(
    "words",
    [
        "<@U2> can you look?",
        "<@U2|ana> can you look?",
        "  <@U2>: look",
        "hey <@U2>, look",
        "Hi, <@U2> look",
        "ok thanks <@U2>!",
        "cc <@U2>",
        "> <@U2> look",
        "*<@W2>* look",
        "<!subteam^S1|@dev> the build is red",
        "<@U2> <@U3> lunch?",
        "Danke <@U2>",
    ],
)
def test_words_that_name_somebody_first_are_for_them(words: str) -> None:
    assert leads_with_other(words)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "can you ask <@U2>?",
        "the list of <@U2> is wrong",
        "<!here> does anybody know?",
        "<#C2|general> is full",
        "<https://a.example> is down",
        "`<@U2>` is a mention",
        "thanks",
    ],
)
def test_words_that_mention_nobody_first_are_for_no_one_else(words: str) -> None:
    assert not leads_with_other(words)


@pytest.mark.parametrize(
    ("listen", "words", "by_app", "has_more", "begins"),
    [
        (Listen.EVERY, "the export is slow", False, False, True),
        (Listen.EVERY, "", False, True, True),
        (Listen.EVERY, "", False, False, False),
        (Listen.EVERY, "<@U2> lunch?", False, False, False),
        (Listen.EVERY, "the build is red", True, False, False),
        (Listen.MEANT, "the export is slow", False, False, False),
        (Listen.MENTIONED, "the export is slow", False, False, False),
    ],
)
def test_a_new_message_begins_a_conversation_only_where_every_message_is_answered(
    listen: Listen, words: str, by_app: bool, has_more: bool, begins: bool
) -> None:
    assert begins_conversation(listen, words, by_app=by_app, has_more=has_more) is begins
