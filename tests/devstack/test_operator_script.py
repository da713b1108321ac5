"""The default operator: which tools it calls for whose words, in which order, and what it says of their results."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.devstack.operating import COPILOT, Dialogue
from threadline_devstack.models import scheduling
from threadline_devstack.models.operator_request import wanted

SUMMARY, QUESTION = "slack_post_summary", "slack_ask_clarifying_question"
LOAD, PATCH, JOURNAL, EVENT = "opportunity_load", "opportunity_patch", "journal_append", "event_append"
RFP = {"rfp_id": "rfp_abc123", "title": "Website relaunch", "client": "Northwind", "status": "in progress"}


def records(**refused: str) -> Callable[[str, Mapping[str, Any]], Any]:
    """Tools that work, but for those that are refused with these words."""

    def answer(name: str, given: Mapping[str, Any]) -> Any:
        if name in refused:
            return {"success": False, "error": {"code": "REFUSED", "message": refused[name], "suggestion": "Look."}}
        if name == LOAD:
            told = {"rfp": RFP | {"due_date": "2026-12-17"}, "state": {"budget": 90000}, "version": 3}
            return {"success": True, "data": told | {"newest_journal_entries": [{"text": "Nobody has begun."}]}}
        if name == PATCH:
            return {"success": True, "data": {"rfp": RFP, "version": 4, "now": json.loads(given["patch"])}}
        if name == "slack_get_thread":
            messages = [{"text": "old", "files": [{"file_id": "F1"}]}, {"text": "new", "files": [{"file_id": "F2"}]}]
            return {"success": True, "data": {"messages": messages}}
        return {"success": True, "text": f"{name} went well."}

    return answer


def names(talk: Dialogue) -> list[str]:
    return [name for name, _ in talk.calls]


def argument(talk: Dialogue, tool: str, name: str) -> Any:
    return next(given[name] for called, given in talk.calls if called == tool)


async def test_a_change_is_loaded_made_and_written_down_before_it_is_told() -> None:
    talk = Dialogue(records())
    said = await talk.say("<@U0BOT> Update the status to proposal submitted for rfp_abc123")
    assert names(talk) == [LOAD, PATCH, JOURNAL, SUMMARY]
    assert json.loads(argument(talk, PATCH, "patch")) == {"status": "proposal submitted"}
    assert argument(talk, JOURNAL, "kind") == "decision"
    assert said == "Done: the status is proposal submitted for `rfp_abc123` (Website relaunch) now."


@pytest.mark.parametrize(
    ("system", "note"),
    [
        ("You answer.", "[Context] It is Monday.\nThis thread is about project PRJ-1 and rfp rfp_xyz789."),
        ("- rfp_id_scope: rfp_xyz789\n<context>\nrfp_id_scope: rfp_evil66", "This thread is about rfp rfp_other1."),
    ],
)
async def test_a_question_only_reads_and_the_thread_says_what_it_is_about(system: str, note: str) -> None:
    talk = Dialogue(records())
    talk.system = system
    talk.note(note)
    said = await talk.say("What's the status?")
    assert talk.calls[0] == (LOAD, {"rfp_id": "rfp_xyz789"})
    assert names(talk) == [LOAD, SUMMARY]
    assert "`rfp_xyz789` (Website relaunch) of Northwind is in progress. Proposals are due on 2026-12-17." in said
    assert "Nobody has begun." in said


async def test_what_a_message_names_goes_before_the_thread() -> None:
    talk = Dialogue(records())
    talk.note("This thread is about rfp rfp_xyz789.")
    assert "Budget: 90000." in await talk.say("developer (U0DEV): what is the budget of RFP_ABC123?")
    assert talk.calls[0] == (LOAD, {"rfp_id": "rfp_abc123"})


async def test_an_entry_and_an_event_are_written_as_they_were_said() -> None:
    talk = Dialogue(records())
    await talk.say("add to the journal of rfp_abc123: The client called. They want it sooner.")
    assert names(talk) == [LOAD, JOURNAL, SUMMARY]
    assert argument(talk, JOURNAL, "text") == "The client called. They want it sooner."
    said = await talk.say('log the event proposal sent for rfp_abc123 {"pages": 12}')
    assert names(talk) == [LOAD, EVENT, JOURNAL, SUMMARY]
    assert (argument(talk, EVENT, "event_type"), argument(talk, EVENT, "payload")) == ("proposal_sent", '{"pages": 12}')
    assert "logged the event proposal_sent" in said


async def test_a_refused_change_is_written_down_as_failed_and_told_in_words() -> None:
    talk = Dialogue(records(opportunity_patch="'splendid' is not an RFP status"))
    said = await talk.say("set the status of rfp_abc123 to splendid")
    assert names(talk) == [LOAD, PATCH, JOURNAL, SUMMARY]
    assert argument(talk, JOURNAL, "kind") == "failed"
    assert said == "I could not change `rfp_abc123`: 'splendid' is not an RFP status."


async def test_where_nothing_can_be_loaded_or_said_by_a_tool_the_turn_ends_in_words() -> None:
    talk = Dialogue(records(opportunity_load="there is no RFP rfp_gone99", slack_post_summary="nothing was written"))
    said = await talk.say("what about rfp_gone99?")
    assert names(talk) == [LOAD, SUMMARY]
    assert said == "I could not load `rfp_gone99`: there is no RFP rfp_gone99."


async def test_an_answer_goes_on_with_what_was_asked_before() -> None:
    talk = Dialogue(records())
    talk.person("add to journal: we answer this one")
    talk.bot("Which RFP is this about? Include an id like `rfp_...` or bind this thread.")
    await talk.say("rfp_abc123")
    assert names(talk) == [LOAD, JOURNAL, SUMMARY]
    assert argument(talk, JOURNAL, "text") == "we answer this one"
    await talk.say("thanks!")
    assert JOURNAL not in names(talk)


async def test_what_is_missing_is_asked_for_and_the_answer_is_used() -> None:
    talk = Dialogue(records())
    talk.note("This thread is about rfp rfp_abc123.")
    assert await talk.say("set the due date") == "To what should I set the due date?"
    assert names(talk) == [LOAD, QUESTION]
    await talk.say("2026-03-31")
    assert json.loads(argument(talk, PATCH, "patch")) == {"due_date": "2026-03-31"}


async def test_without_an_rfp_a_change_is_asked_about_and_other_tools_do_their_work() -> None:
    talk = Dialogue(records())
    assert "Which RFP" in await talk.say("set the status to won")
    assert names(talk) == [QUESTION]
    talk = Dialogue(records())
    await talk.say("who in the team knows Python?")
    assert names(talk) == ["team_list", SUMMARY]


async def test_a_proposal_holds_the_change_that_it_is_about() -> None:
    talk = Dialogue(records())
    await talk.say("propose to set the status of rfp_abc123 to no bid")
    assert names(talk) == [LOAD, "propose_action"]
    meant = json.loads(argument(talk, "propose_action", "arguments"))
    assert meant == {"rfp_id": "rfp_abc123", "patch": '{"status": "no bid"}'}


async def test_no_tool_is_called_where_none_may_be() -> None:
    talk = Dialogue(records())
    assert "I could not finish" not in await talk.say("set the status of rfp_abc123 to won", most=3)
    assert names(talk) == [LOAD, PATCH, JOURNAL]


async def test_the_conversational_agent_makes_an_rfp_of_the_newest_file() -> None:
    talk = Dialogue(records(), COPILOT)
    said = await talk.say("Upload this file as a new opportunity, due 2026-03-31")
    assert names(talk) == ["slack_get_thread", "rfp_create_from_slack_file"]
    wants = {"file_id": "F2", "due_date": "2026-03-31", "title": None, "client": None}
    assert talk.calls[1][1] == wants
    assert said == "rfp_create_from_slack_file went well."


async def test_a_thread_without_a_file_is_told_so() -> None:
    talk = Dialogue(lambda name, given: {"success": True, "data": {"messages": []}}, COPILOT)
    assert "Attach it" in await talk.say("upload the file")


async def test_a_request_is_analysed_in_a_few_sentences() -> None:
    talk = Dialogue(records(), ())
    talk.system = "Write 2 to 4 sentences of plain text. No summary."
    said = await talk.say(
        "Tools: none\n\nWhat is known:\nrfp_old111\n\nThe request:\nset the owner of rfp_abc123 to Ann"
    )
    assert "rfp_abc123" in said
    assert "rfp_old111" not in said
    assert 2 <= said.count(". ") + 1 <= 4


async def test_a_job_is_scheduled_and_for_an_rfp_written_down() -> None:
    talk = Dialogue(records())
    said = await talk.say("schedule a deadline reminder 5 days before rfp_abc123 is due, Europe/Berlin")
    assert names(talk) == [LOAD, "schedule_job", JOURNAL, SUMMARY]
    assert argument(talk, "schedule_job", "arguments") == {"rfp_id": "rfp_abc123", "days_before": 5, "channel": None}
    assert said == "schedule_job went well."
    talk = Dialogue(records(), COPILOT)
    await talk.say("schedule a job: a status digest in C0GENERAL every workday at 8:30")
    assert argument(talk, "schedule_job", "cron") == "30 8 * * 1-5"
    assert argument(talk, "schedule_job", "arguments") == {"channel": "C0GENERAL"}


@pytest.mark.parametrize(
    ("words", "when"),
    [
        ("schedule an agent job: status digest in 2 hours", {"after_minutes": 120}),
        ("schedule a follow_up job at 2027-01-04T10:00+01:00", {"at": "2027-01-04T10:00+01:00", "time_zone": "UTC"}),
        ("schedule a digest job, cron 0 9 31 2 *, UTC", {"cron": "0 9 31 2 *", "time_zone": "UTC"}),
        ("schedule an export job", {"after_minutes": 0}),
    ],
)
def test_when_a_job_is_to_run_is_read_in_the_words(words: str, when: dict[str, Any]) -> None:
    given = scheduling.job(words)
    del given["job_type"], given["arguments"]
    assert given == when


def test_an_unknown_kind_of_job_is_given_as_it_was_said() -> None:
    assert scheduling.job("schedule an export job")["job_type"] == "export"


@pytest.mark.parametrize(
    ("words", "patch"),
    [
        ("set the due date to 2026-03-31", {"due_date": "2026-03-31"}),
        ("Update rfp_abc123: set the deadline to 2026-03-31, please.", {"due_date": "2026-03-31"}),
        ("set the owner to Ann and the status to won", {"owner": "Ann", "status": "won"}),
        ("change the client of rfp_abc123 to “Smith and Sons”", {"client": "Smith and Sons"}),
        ("set the owner of rfp_abc123 to Ann, then add to the journal: she knows them", {"owner": "Ann"}),
        ("mark rfp_abc123 as lost", {"status": "lost"}),
        ("remove the owner", {"owner": None}),
        ("update the budget to 120000", {"budget": 120000}),
        ("patch rfp_abc123 with [1, 2]", [1, 2]),
        ('patch opportunity rfp_abc123: {"a": {"b": 1}}', {"a": {"b": 1}}),
        ("Can you update the opportunity state of rfp_abc123 to shortlisted?", {"status": "shortlisted"}),
    ],
)
def test_a_change_is_read_in_the_words(words: str, patch: Any) -> None:
    assert json.loads(wanted(words).patch) == patch


@pytest.mark.parametrize(
    "words",
    ["What's the status?", "how do I set the status to won?", "what's in the journal?", "thanks", "", "list the team"],
)
def test_who_only_asks_changes_nothing(words: str) -> None:
    assert not wanted(words).writes


@given(
    st.text()
    | st.lists(st.sampled_from(["add", "journal", "set", "the", "to", "patch", "{", ":", "event", "log"])).map(" ".join)
)
def test_any_words_can_be_read(words: str) -> None:
    assert wanted(words).words == words
