"""What to do with a question is decided before the agent is asked: it goes on, asks back, or ends with a person."""

import asyncio

import pytest

from tests.operator.test_turn_workflow import operator
from tests.support.conversation_memory import AWAY, SILENT, Tool, calls
from tests.support.conversation_workflow import BEN, talking
from tests.support.temporal import skipping_time
from threadline.conversations.contract import ActRequest, WordKind
from threadline.conversations.decision_contract import Step
from threadline.conversations.model.conversation import ConversationLimits, ConversationMarks
from threadline.conversations.operator_contract import Begun
from threadline.decisions.model import Course, Reason
from threadline.errors import Permanent, Transient
from threadline.models.model import ModelReply, OutcomeKind

GOES_ON = Step(Course.PROCEED, about="REASON_ONLY: proceed (0.90)")
WAITS = Step(about="RETRIEVE")


async def test_what_is_sure_goes_on_to_the_agent_and_nothing_is_looked_up() -> None:
    async with talking(ModelReply("You are welcome.")) as talk:
        talk.desk.decided[1, 1] = [GOES_ON]
        await talk.say("thanks")
        assert await talk.until_said(1) == "You are welcome."
    assert talk.desk.decisions == ["decide 1.1"]
    assert talk.desk.escalations == []


async def test_what_is_to_be_looked_up_is_weighed_behind_that_and_answered_then() -> None:
    async with talking(ModelReply("It is 990 a month [1].")) as talk:
        talk.desk.decided[1, 1] = [WAITS, GOES_ON]
        await talk.say("what does the Enterprise plan cost?")
        await talk.until_said(1)
    assert talk.desk.decisions == ["decide 1.1", "look_up 1.1", "weigh 1.1"]


async def test_more_is_looked_up_once_and_no_more_than_once() -> None:
    async with talking(ModelReply("never")) as talk:
        more = Step(Course.RETRIEVE_MORE)
        talk.desk.decided[1, 1] = [WAITS, more]
        talk.desk.decided[1, 2] = [WAITS, Step(Course.CLARIFY)]
        await talk.say("compare your plans with theirs")
        assert await talk.until_said(1) == "(clarified by the engine)"
    assert talk.desk.decisions == [
        *("decide 1.1", "look_up 1.1", "weigh 1.1"),
        *("decide 1.2", "look_up 1.2", "weigh 1.2"),
    ]
    assert talk.desk.asked == []


@pytest.mark.parametrize(
    ("course", "kind"), [(Course.CLARIFY, OutcomeKind.CLARIFIED), (Course.ESCALATE, OutcomeKind.ESCALATED)]
)
async def test_a_question_and_a_person_who_takes_over_end_the_turn_before_the_agent_is_asked(
    course: Course, kind: OutcomeKind
) -> None:
    async with talking(ModelReply("And this?")) as talk:
        talk.desk.decided[1, 1] = [Step(course)]
        await talk.say("I need help with your product.")
        await talk.until_said(1)
        assert talk.desk.settled[1].kind is kind
        handed = ["open 1"] if kind is OutcomeKind.ESCALATED else []
        await talk.until(lambda: talk.desk.handed == handed, "a person is asked where one takes over, and only there")
        assert talk.desk.asked == []
        await talk.say("the export")
        assert await talk.until_said(2) == "And this?"


async def test_a_turn_whose_decision_cannot_be_made_goes_on_without() -> None:
    async def away() -> None:
        raise Transient("The model cannot be reached.")

    async with talking(ModelReply("Still here.")) as talk:
        talk.desk.troubles["decide"] = [away] * 3
        await talk.say("hello?")
        assert await talk.until_said(1) == "Still here."
    assert talk.desk.decisions == [*["decide 1.1"] * 3, "give_up_deciding 1.1"]


async def test_a_sensitive_word_alone_ends_with_a_person_where_the_decision_cannot_be_made() -> None:
    async def refused() -> None:
        raise Permanent("The key is wrong.")

    async with talking(ModelReply("never")) as talk:
        talk.desk.troubles["decide"] = [refused]
        talk.desk.undecided = Step(Course.ESCALATE)
        await talk.say("I want a refund")
        assert await talk.until_said(1) == "(escalated by the engine)"
    assert talk.desk.asked == []


async def test_an_answer_that_cannot_be_made_ends_with_a_person() -> None:
    async with talking(*[AWAY] * 6, limits=ConversationLimits(model_patience=600), server=skipping_time) as talk:
        talk.desk.decided[1, 1] = [GOES_ON]
        await talk.say("what is our SLA?")
        await talk.until_known("waiting for the model")
        await talk.later(minutes=11)
        assert await talk.until_said(1) == "(escalated by the engine)"
        assert [each.reason for each in talk.desk.escalations] == [Reason.RESPONSE_ERROR]


async def test_a_turn_in_which_the_operator_fails_as_well_ends_with_a_person() -> None:
    async with talking(*[ModelReply("")] * 4) as talk:
        talk.desk.ways[1] = Begun(ConversationMarks(), falls_through=True)
        talk.desk.decided[1, 1] = [GOES_ON]
        await talk.say("create a proposal")
        assert await talk.until_said(1) == "(escalated by the engine)"
        assert [each.reason for each in talk.desk.escalations] == [Reason.RESPONSE_ERROR]
        assert "pass on 1 behind 2" in talk.desk.around


@pytest.mark.parametrize(("ends_well", "reasons"), [(False, [Reason.TOOL_FAILURE]), (True, [])])
async def test_a_critical_tool_that_fails_for_good_brings_a_person_beside_the_answer(
    ends_well: bool, reasons: list[Reason]
) -> None:
    async def book(request: ActRequest) -> str:
        if request.call.id == "calendar.book:2" and ends_well:
            return "booked"
        raise Permanent("The calendar is away.")

    tools: dict[str, Tool] = {"calendar.book": book}
    async with talking(
        calls("calendar.book:1", critical=True),
        calls("calendar.book:2", critical=True),
        ModelReply("That is how it ended."),
        tools=tools,
    ) as talk:
        talk.desk.decided[1, 1] = [GOES_ON]
        await talk.say("book a meeting with me tomorrow at ten")
        assert await talk.until_said(1) == "That is how it ended."
        assert [each.reason for each in talk.desk.escalations] == reasons
        await talk.until(lambda: talk.desk.handed == ["open 1"] * len(reasons), "a person is asked where it failed")


async def test_another_call_of_the_same_reply_mends_no_critical_failure() -> None:
    async def update(request: ActRequest) -> str:
        if request.call.id == "crm.update:1":
            raise Permanent("The record is away.")
        return "updated"

    tools: dict[str, Tool] = {"crm.update": update}
    both = calls("crm.update:1", "crm.update:2", critical=True)
    async with talking(both, ModelReply("The second one is done."), tools=tools) as talk:
        talk.desk.decided[1, 1] = [GOES_ON]
        await talk.say("put both on record")
        await talk.until_said(1)
        assert [each.reason for each in talk.desk.escalations] == [Reason.TOOL_FAILURE]


async def test_what_is_said_to_the_bot_while_it_only_overhears_makes_no_silence_wrong() -> None:
    async with talking(SILENT, ModelReply("Hello, Ben.")) as talk:
        talk.desk.ways[1] = Begun(ConversationMarks(addressed_due=True), overhears=True)
        talk.desk.decided[1, 1] = [Step(Course.ESCALATE)]
        await talk.say("shall we do it, Anna?", BEN)
        await talk.until(lambda: 1 in talk.desk.settled, "what was overheard is over")
        assert talk.desk.settled[1].kind is OutcomeKind.SILENT
        assert len(talk.desk.asked) == 1
    assert talk.desk.decisions == []


async def test_who_calls_the_bot_does_not_wait_for_a_model_with_what_it_only_overheard() -> None:
    async with talking(ModelReply("Hello."), AWAY, ModelReply("It is 990 a month.")) as talk:
        talk.desk.ways[2] = Begun(ConversationMarks(), overhears=True)
        await talk.say("hello")
        await talk.until_said(1)
        await talk.say("shall we do it, Anna?", BEN, addressed=False)
        await talk.until_known("waiting for the model")
        await talk.say("what does Enterprise cost?", BEN)
        assert await talk.until_said(3) == "It is 990 a month."
        assert talk.desk.settled[2].kind is OutcomeKind.SILENT
        assert talk.desk.words == []


async def test_what_people_say_to_each_other_and_what_is_the_operators_is_not_decided() -> None:
    async with talking(ModelReply("Hello."), SILENT, ModelReply("Done.")) as talk:
        talk.desk.decided[1, 1] = [GOES_ON]
        talk.desk.decided[2, 1] = talk.desk.decided[3, 1] = [Step(Course.ESCALATE)]
        await talk.say("hello")
        await talk.until_said(1)
        await talk.say("shall we do it, Anna?", BEN, addressed=False)
        await talk.until(lambda: 2 in talk.desk.settled, "what was overheard is over")
        talk.desk.ways[3] = operator()
        await talk.say("submit rfp_abc123")
        await talk.until(lambda: 3 in talk.desk.settled, "the operator's turn is over")
        assert [talk.desk.settled[turn].kind for turn in (2, 3)] == [OutcomeKind.SILENT, OutcomeKind.ANSWERED]
    assert talk.desk.decisions == ["decide 1.1"]


async def test_who_says_to_stop_while_it_is_decided_is_obeyed_and_the_agent_is_not_asked() -> None:
    deciding, going_on = asyncio.Event(), asyncio.Event()

    async def long() -> None:
        deciding.set()
        await going_on.wait()

    async with talking(ModelReply("never")) as talk:
        talk.desk.decided[1, 1] = [GOES_ON]
        talk.desk.troubles["decide"] = [long]
        await talk.say("what is our SLA?")
        await deciding.wait()
        await talk.stop()
        await talk.until(lambda: 1 in talk.desk.settled, "the turn is over")
        going_on.set()
        assert talk.desk.settled[1].kind is OutcomeKind.STOPPED
        assert talk.desk.asked == []


@pytest.mark.parametrize("taken", [True, False])
async def test_who_waits_for_a_person_is_told_when_nobody_could_be_shown_it(taken: bool) -> None:
    async def refused() -> None:
        raise Permanent("Slack has archived channel C1.")

    async with talking(ModelReply("Here is how.")) as talk:
        talk.desk.ways[1] = Begun(ConversationMarks(), ends=OutcomeKind.SILENT if taken else None, relays=True)
        talk.desk.troubles["relay_to_person"] = [refused]
        await talk.say("to which account?")
        await talk.until(lambda: 1 in talk.desk.settled, "the turn is over")
        assert [(word.kind, word.about) for word in talk.desk.words] == [(WordKind.NOT_SHOWN, "1")] * taken


@pytest.mark.parametrize("left", [True, False])
async def test_who_wrote_what_a_person_closed_before_it_was_shown_is_told_where_nobody_else_answers(left: bool) -> None:
    async with talking(ModelReply("Here is how."), ModelReply("And here.")) as talk:
        talk.desk.ways[1] = Begun(ConversationMarks(), ends=OutcomeKind.SILENT if left else None, relays=True)
        talk.desk.ways[2] = Begun(ConversationMarks(), relays=True)
        talk.desk.closed_at = {1} if left else {1, 2}
        await talk.say("to which account?")
        await talk.until(lambda: 1 in talk.desk.settled, "the first turn is over")
        assert [(word.kind, word.about) for word in talk.desk.words] == [(WordKind.NOT_SHOWN, "1")] * left
        talk.desk.left = {2} if left else set()
        talk.desk.closed_at |= {len(talk.desk.handed) + 2}
        await talk.say("and when?")
        await talk.until(lambda: talk.desk.handed.count("relay 2") == 2, "the second turn is over")
        if left:
            await talk.until(lambda: len(talk.desk.words) == 2, "its writer is told, too")
        await talk.say("thanks")
        await talk.until(lambda: 3 in talk.desk.settled, "the third turn is over")
    assert [word.about for word in talk.desk.words] == ["1", "2"] * left


async def test_what_a_turn_takes_up_on_its_way_is_shown_to_who_reads_along() -> None:
    async with talking(ModelReply("Here is how.")) as talk:
        talk.desk.ways[1] = Begun(ConversationMarks(), relays=True)
        talk.desk.ways[2] = Begun(ConversationMarks(), ends=OutcomeKind.SILENT, relays=True)
        await talk.say("how do I export?")
        await talk.until_said(1)
        await talk.say("to which account?")
        await talk.until(lambda: 2 in talk.desk.settled, "the second turn is over")
        assert talk.desk.handed == ["relay 1", "relay 1", "relay 2"]
