"""What of a thread the model is sent, and what holds for a turn."""

import json

import pytest

from tests.conversations.dialogues import REGISTRY, THREAD, bot, brief, call, person, placed, result
from threadline.conversations import context_window as context
from threadline.conversations import turn_note as briefing
from threadline.conversations.context_window import TIGHT, Budget, Past
from threadline.conversations.prompt import INSTRUCTIONS, SUMMARISE
from threadline.models.chat_model import Prompt
from threadline.models.model import Message, Role, ToolCall, ToolChoice
from threadline.threads.messages import FileRef
from threadline.tools import access
from threadline.tools.access import Allowed
from threadline.tools.context import Ports

ALL = access.allowed(REGISTRY, Ports(), read_only=False)
NOTHING = Past("", ())


def asked(past: Past, *current: Message, allowed: Allowed = ALL, tight: bool = False) -> Prompt:
    return context.prompt_of(THREAD, past, current, (REGISTRY, allowed), ToolChoice.AUTO, tight=tight)


def test_the_system_prompt_and_the_tools_are_the_same_whatever_a_turn_is_about() -> None:
    one = asked(NOTHING, brief(1, actor="Ann").message(), person("a"))
    other = asked(Past("We spoke.", ()), brief(9, actor="Bob", records=("project P-1",)).message(), person("b"))
    assert one.instructions == other.instructions == INSTRUCTIONS
    assert json.dumps(one.tools) == json.dumps(other.tools)
    assert one.cache_key == other.cache_key
    assert len(one.cache_key) == 32
    assert THREAD.channel not in one.cache_key


def test_calls_have_the_providers_names_in_the_prompt_and_their_own_in_the_transcript() -> None:
    made = bot("", call("1"), ToolCall("2", "tickets.close_one"), ToolCall("3", "gone.long since!"))
    current = [brief(1).message(), person("close it"), made, *(result(each) for each in "123")]
    names = [each.name for message in asked(NOTHING, *current).messages for each in message.calls]
    offered = [tool["name"] for tool in asked(NOTHING, *current).tools]
    assert names[:2] == ["tickets_search", REGISTRY.definitions(["tickets.close_one"])[0]["name"]]
    assert set(names[:2]) <= set(offered)
    assert names[2].startswith("gone_long_since_")
    assert [each.name for each in made.calls] == ["tickets.search", "tickets.close_one", "gone.long since!"]


def test_a_read_only_turn_is_offered_nothing_that_changes_something() -> None:
    allowed = access.allowed(REGISTRY, Ports(), read_only=True)
    assert [tool["name"] for tool in asked(NOTHING, person("a"), allowed=allowed).tools] == ["tickets_search"]


def test_the_summary_stands_in_front_and_the_briefings_of_earlier_turns_are_left_out() -> None:
    entries = placed(
        [person("x"), bot("y"), brief(2).message(), person("a"), bot("b"), brief(3).message(), person("c")]
    )
    before, current = context.parted(entries, 3)
    prompt = asked(Past("They spoke of x.", tuple(before)), *(message for _, message in current))
    assert [each.content for each in prompt.messages[:5]] == ["[Earlier] They spoke of x.", "x", "y", "a", "b"]
    assert [each.role for each in prompt.messages[5:]] == [Role.SYSTEM, Role.USER]
    assert prompt.messages[5].content.startswith("[Context]")
    assert not any(each.opaque for each in prompt.messages if each.role is not Role.ASSISTANT)


def test_a_call_whose_turn_was_stopped_is_not_sent_without_its_result() -> None:
    prompt = asked(Past("", placed([person("a"), bot("", call("1")), bot("I have stopped.")])), person("b"))
    assert [each.content for each in prompt.messages] == ["a", "I have stopped.", "b"]


def test_twenty_messages_that_fit_are_sent_whole() -> None:
    past = Past("", placed([person(str(number)) for number in range(18)]))
    assert context.cut(past, [person("new")], Budget()).kept == past.messages


def test_of_twenty_one_the_oldest_are_summarised() -> None:
    past = Past("", placed([person(str(number)) for number in range(20)]))
    cut = context.cut(past, [person("new")], Budget())
    assert (len(cut.older), len(cut.kept)) == (3, 17)
    assert (cut.until, cut.since) == (3, 4)
    assert cut.older + cut.kept == past.messages


def test_a_summary_that_is_there_is_extended_by_what_is_older_now() -> None:
    past = Past("Ann wants SHOP-1.", placed([person(str(number)) for number in range(30)], first=12))
    cut = context.cut(past, [person("new")], Budget())
    prompt = context.summary_prompt(past, cut.older)
    assert prompt.instructions == SUMMARISE
    assert (prompt.tools, prompt.tool_choice) == ((), ToolChoice.NONE)
    assert prompt.messages[0].content.startswith("Summary so far: Ann wants SHOP-1.\n")
    assert "Person: 0\n" in prompt.messages[0].content
    assert f"Person: {len(cut.older)}\n" not in prompt.messages[0].content
    assert cut.until == 12 + len(cut.older) - 1


def test_a_summary_is_made_of_calls_and_results_too_and_of_no_more_than_it_can_be() -> None:
    older = placed([bot("", call("1", arguments='{"words": "checkout"}')), result("1", "x" * 100_000)] * 40)
    piece = context.piece(older)
    assert 20 < len(piece) < len(older)
    text = context.summary_prompt(NOTHING, piece).messages[0].content
    assert 'calls tickets.search {"words": "checkout"}' in text
    assert len(text) < 60_000
    assert context.piece(older[:1]) == older[:1]


def test_a_cut_never_parts_a_call_from_its_result() -> None:
    calls = [call(str(number)) for number in range(6)]
    group = [bot("", *calls), *(result(each.id) for each in calls)]
    past = Past("", placed([*(person(str(number)) for number in range(10)), *group, person("a"), *group, person("b")]))
    for messages in range(2, 30):
        cut = context.cut(past, [person("new")], Budget(messages, 12_000))
        assert not cut.kept or cut.kept[0][1].role in (Role.USER, Role.ASSISTANT)


def test_when_the_turn_alone_takes_all_the_room_nothing_earlier_is_sent_and_nothing_of_the_turn_is_cut() -> None:
    past = Past("", placed([person("a"), bot("b")]))
    cut = context.cut(past, [person(str(number)) for number in range(30)], Budget())
    assert (len(cut.older), cut.kept, cut.since) == (2, (), 3)


def test_of_a_huge_message_the_beginning_and_the_end_are_shown_with_a_note() -> None:
    [shown] = context.from_people([("", f"begin {'x' * 40_000} end", ())], Budget())
    assert shown.content.startswith("begin x")
    assert shown.content.endswith("x end")
    assert "of 40,010 characters are left out here" in shown.content
    assert context.size(shown.content) < 16_200


def test_many_messages_at_once_share_half_of_the_budget_and_the_small_ones_are_whole() -> None:
    said = [("", "x" * 40_000, ()), *[("", f"number {number}", ()) for number in range(99)]]
    shown = context.from_people(said, Budget())
    assert [each.content for each in shown[1:]] == [text for _, text, _ in said[1:]]
    assert context.size(shown[0].content) > 10_000
    assert sum(context.size(each.content) for each in shown) <= 24_200


def test_a_file_is_named_to_the_model_that_cannot_read_it() -> None:
    [shown] = context.from_people([("Ann", "look", [FileRef("F1", "error.log")])], Budget())
    assert shown.content == "look\n[Attached, and not readable here: error.log]"
    assert shown.author == "Ann"


@pytest.mark.parametrize("text", ["", "short", "ä" * 5_000, "😀" * 5_000, "\ud800" * 5_000, "a" * 9_000 + "😀" * 9_000])
@pytest.mark.parametrize("limit", [100, 1_000, 4_000])
def test_what_is_shortened_fits(text: str, limit: int) -> None:
    assert context.size(context.shortened(text, limit)) <= limit + 100
    if context.size(text) <= limit:
        assert context.shortened(text, limit) == text


def test_where_the_whole_was_too_long_huge_messages_of_the_turn_are_cut() -> None:
    current = [brief(1).message(), person("a"), bot("", call("1")), result("1", "x" * 19_000)]
    sizes = [context.size(each.content) for each in asked(NOTHING, *current, tight=True).messages]
    assert max(sizes) <= TIGHT + 100
    assert len(sizes) == len(asked(NOTHING, *current).messages)


def test_tokens_are_counted_for_text_and_for_calls() -> None:
    assert context.tokens(person("x" * 400)) == 104
    assert context.tokens(bot("", call("1", "tickets.search", "x" * 386))) == 104


def test_a_briefing_comes_back_from_its_note_and_nothing_else_is_taken_for_one() -> None:
    given = brief(3, others=("Bob",), several=True, read_only=True, because="the project P-1 is locked", ids=("P-1",))
    assert briefing.read(given.message()) == given
    assert briefing.read(None) is None
    for other in (person("a"), bot("b", opaque=given.message().opaque), Message(Role.SYSTEM, "[Side Effect] x"),
                  Message(Role.SYSTEM, "x", opaque="{}"), Message(Role.SYSTEM, "x", opaque="not json")):  # fmt: skip
        assert briefing.read(other) is None


def test_a_briefing_tells_the_model_what_holds_for_the_turn() -> None:
    note = brief(
        2,
        others=("Bob (U2)", "Cy"),
        clocks=(("America/Los_Angeles", ("Ann (U1)", "Cy")), ("Asia/Tokyo", ("Bob (U2)",))),
        begun_late=True,
        several=True,
        addressed=False,
        read_only=True,
        because="the project P-1 is locked",
        records=("project P-1",),
        ids=("P-1", "SHOP-2"),
    ).message()
    assert note.role is Role.SYSTEM
    assert note.content.splitlines() == [
        "[Context] It is Wednesday, 2026-02-25 06:13 UTC.",
        "For Ann (U1) and Cy it is Tuesday, 2026-02-24 22:13 (America/Los_Angeles): they mean its days and times.",
        "For Bob (U2) it is Wednesday, 2026-02-25 15:13 (Asia/Tokyo): they mean its days and times.",
        "What was said here before you were called is not shown to you: where it matters, say so and ask for it.",
        "Ann (U1), Bob (U2) and Cy wrote what follows.",
        "What you do for one of them names that person by the id.",
        "You were not spoken to: people talk with each other here. Answer only what is meant for you.",
        "This thread is about project P-1.",
        "Read-only: the project P-1 is locked. What would change something is not offered.",
        "Ids in the latest results, the newest result first, each in its own order: P-1, SHOP-2.",
    ]


def test_a_briefing_of_a_later_version_is_read_by_an_earlier_one() -> None:
    note = brief(2).message()
    later = json.dumps({**json.loads(note.opaque), "mood": "good"})
    assert briefing.read(Message(Role.SYSTEM, note.content, opaque=later)) == brief(2)
