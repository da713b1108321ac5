"""Whether a request needs an RFP: the phrases of the design, what it took out, and which step goes before which."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.operator.model.scope import (
    MEANING,
    PHRASES,
    QUERIES,
    REMOVED,
    WAYS,
    Branch,
    Phrase,
    Requirement,
    Step,
    branch,
    decide,
    operations_requiring_scope,
    which_rfp,
)
from threadline.rfps.rfp_ids import scope_of

DESIGN = {
    Step.FREE: [
        "new rfp",
        "brand new",
        "it's new",
        "upload the file",
        "upload this",
        "can you upload",
        "search for",
        "find a new",
        "what can you",
        "what tools",
    ],
    Step.JOB: ["schedule job", "agent job", "job list", "job status", "query jobs", "runner"],
    Step.WRITE: [
        "journal entry",
        "add to journal",
        "append journal",
        "opportunity state",
        "update opportunity",
        "patch opportunity",
        "update rfp",
        "update the rfp",
    ],
    Step.RELATED: ["rfp", "proposal", "opportunity", "bid"],
}
"""As the design lists them."""
GENERAL = ["what is", "tell me about", "show me", "list", "search"]
TAKEN_OUT = [
    "opportunity",
    "journal",
    "state",
    "patch",
    "rfp review",
    "seed tasks",
    "assign task",
    "complete task",
]
ANSWER = {Step.FREE: False, Step.JOB: False, Step.WRITE: True, Step.RELATED: None}
FORMS = [(form, each) for each in PHRASES for form in (each.text, *each.forms)]
FRAMES = ["{}", "Hi, {}!", "<@U1> please: *{}* (today)", "_{}_", "so `{}`?", "a\n{}\nb", "“{}”.", "> {}", "<#C1|x> {}"]


def written(phrase: str) -> str:
    return phrase.replace("rfp_…", "rfp_abc123").replace("…", "it as")


def test_the_table_has_the_phrases_of_the_design_in_its_order_and_one_of_its_example() -> None:
    told = {step: [each.text for each in PHRASES if each.step is step] for step in DESIGN}
    told[Step.FREE].remove("upload … new")
    assert told == DESIGN
    assert [each.text for each in QUERIES] == GENERAL
    assert list(REMOVED) == TAKEN_OUT
    assert [each.step for each in PHRASES] == sorted(each.step for each in PHRASES)
    assert len({form for form, _ in FORMS}) == len(FORMS)


def test_every_step_and_every_branch_is_told_in_words() -> None:
    assert list(MEANING) == list(Step)
    assert list(WAYS) == list(Branch)


@pytest.mark.parametrize(("step", "text"), [(step, each) for step, texts in DESIGN.items() for each in texts])
@pytest.mark.parametrize("frame", FRAMES)
def test_every_phrase_of_the_design_decides_at_its_step(step: Step, text: str, frame: str) -> None:
    for said in (frame.format(text), frame.format(text.upper()), frame.format(text.replace("'", "’"))):
        found = decide(said)
        assert (found.required, found.step, found.phrase, found.exception) == (ANSWER[step], step, text, "")
        assert operations_requiring_scope(said) is ANSWER[step]


@pytest.mark.parametrize(("form", "phrase"), FORMS)
def test_every_form_in_the_table_counts_as_its_phrase(form: str, phrase: Phrase) -> None:
    found = decide(f"So, {written(form)}, today")
    assert (found.required, found.step, found.phrase) == (ANSWER[phrase.step], phrase.step, phrase.text)


@pytest.mark.parametrize("phrase", TAKEN_OUT)
def test_what_the_design_took_out_makes_no_request_need_an_rfp(phrase: str) -> None:
    written_here = [form for form, each in FORMS if each.step is Step.WRITE]
    assert phrase not in written_here
    for frame in FRAMES:
        found = decide(frame.format(phrase))
        assert found.required is (None if phrase in ("opportunity", "rfp review") else False)
        assert found.step in (Step.RELATED, Step.DEFAULT)


@pytest.mark.parametrize(
    ("text", "required"),
    [
        ("What's in the journal?", False),
        ("Write something in the journal of it", False),
        ("Which state is the site in?", False),
        ("Who reviews that patch?", False),
        ("Do the RFP review with Ada", None),
        ("Is the opportunity still there?", None),
        ("seed tasks and assign task 3 to Ada, complete task 2", False),
    ],
)
def test_sentences_with_what_was_taken_out(text: str, required: bool | None) -> None:
    assert operations_requiring_scope(text) is required


@pytest.mark.parametrize("text", DESIGN[Step.JOB])
def test_a_job_is_of_an_rfp_when_the_message_names_one(text: str) -> None:
    for said in (f"{text} for rfp_abc123", f"RFP_ABC123: {text}", f"{text} <https://a.example/rfp_abc123|here>"):
        assert decide(said) == Requirement(True, Step.JOB, text, "rfp_abc123")
    for said in (text, f"{text} for the rfp", f"{text} for rfp_...", f"{text} as in rfp_answer.pdf"):
        assert decide(said) == Requirement(False, Step.JOB, text)


@pytest.mark.parametrize("query", GENERAL)
@pytest.mark.parametrize("text", DESIGN[Step.RELATED])
def test_what_has_to_do_with_rfps_is_free_in_a_general_question(query: str, text: str) -> None:
    for said in (f"{query} the {text}", f"the {text}: {query.upper()}"):
        assert decide(said) == Requirement(False, Step.RELATED, text, query)


@pytest.mark.parametrize("query", GENERAL)
def test_a_general_question_changes_nothing_at_another_step(query: str) -> None:
    assert decide(f"{query} a journal entry") == Requirement(True, Step.WRITE, "journal entry")
    assert decide(f"{query} that") == Requirement(False, Step.DEFAULT)


@pytest.mark.parametrize(("earlier", "later"), list(combinations(DESIGN, 2)))
def test_an_earlier_step_goes_before_a_later_one_wherever_its_phrase_stands(earlier: Step, later: Step) -> None:
    firsts = [each for each in PHRASES if each.step is earlier]
    for first, second in product(firsts, (each for each in PHRASES if each.step is later)):
        for said in (
            f"{written(first.text)} and {written(second.text)}",
            f"{written(second.text)}, {written(first.text)}",
        ):
            found = decide(said)
            assert (found.step, found.required) == (earlier, ANSWER[earlier]), said


def test_an_id_makes_a_job_need_its_rfp_whatever_else_is_said_later_in_the_order() -> None:
    assert operations_requiring_scope("agent job: add to journal of rfp_1") is True
    assert operations_requiring_scope("search for an agent job of rfp_1") is False
    assert operations_requiring_scope("show me the job status of rfp_1") is True


@pytest.mark.parametrize(
    "text",
    [
        "Is this forbidden?",
        "We renew rfpx",
        "it's news to me",
        "reupload thisness",
        "frontrunner",
        ":runner: on my way",
        "<@U1|runner> <#C1|new rfp> <https://a.example/search?q=new+rfp&bid=1> hello",
        "my_runner and agent_job_list",
        "what tooling",
        "brand newest",
        "add to journalism",
        "research forum",
        "",
        "   ",
        "👍",
    ],
)
def test_parts_of_words_names_emoji_and_addresses_are_no_phrases(text: str) -> None:
    assert decide(text) == Requirement(False, Step.DEFAULT)


@pytest.mark.parametrize(
    "text",
    ["renew rfp_7", "That is new: rfp_7", "My rfp, brand: new", "Update. Opportunity knocks", "a journal, entry"],
)
def test_words_of_a_phrase_stand_together(text: str) -> None:
    assert decide(text).step in (Step.RELATED, Step.DEFAULT)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("It's a brand-new\none", "brand new"),
        ("please update *the* _RFP_, it is won", "update the rfp"),
        ("update rfp_abc123: won", "update rfp"),
        ("<https://a.example|Add to journal> that we met", "add to journal"),
        ("the rfp's deadline", "rfp"),
        ("Two bids came", "bid"),
    ],
)
def test_phrases_as_people_write_them(text: str, phrase: str) -> None:
    assert decide(text).phrase == phrase


@pytest.mark.parametrize(
    ("text", "decides"),
    [
        ("upload new prices", True),
        ("Upload the signed v1.2 of that as a new one", True),
        ("Upload that. Is there something new?", False),
        ("upload it as the newest", False),
        (f"upload {'very ' * 40}new", False),
        ("a new upload", False),
    ],
)
def test_an_upload_of_something_new_is_said_in_one_sentence(text: str, *, decides: bool) -> None:
    assert (decide(text).phrase == "upload … new") is decides


@pytest.mark.parametrize(
    ("rfp_id", "required", "way"),
    [
        ("", False, Branch.A),
        ("", None, Branch.B),
        ("", True, Branch.C),
        ("rfp_1", False, Branch.D),
        ("rfp_1", None, Branch.D),
        ("rfp_1", True, Branch.D),
    ],
)
def test_every_request_has_its_branch(rfp_id: str, required: bool | None, way: Branch) -> None:
    assert branch(rfp_id, required) is way


def test_two_branches_delegate_and_one_of_them_falls_through() -> None:
    assert [each for each in Branch if each.delegates] == [Branch.A, Branch.B]
    assert [each for each in Branch if each.falls_through] == [Branch.B]


@pytest.mark.parametrize(
    ("text", "bound", "rfp_id", "required", "step", "way"),
    [
        (
            "Update the status to proposal submitted for rfp_abc123",
            "",
            "rfp_abc123",
            None,
            Step.RELATED,
            Branch.D,
        ),
        ("What can you do?", "", "", False, Step.FREE, Branch.A),
        ("Upload this file as a new opportunity", "", "", False, Step.FREE, Branch.A),
        ("What's the status?", "rfp_xyz789", "rfp_xyz789", False, Step.DEFAULT, Branch.D),
        ("What's the status?", "", "", False, Step.DEFAULT, Branch.A),
        ("Schedule a job that posts a digest every Monday", "", "", False, Step.DEFAULT, Branch.A),
        ("Upload this as new", "", "", False, Step.FREE, Branch.A),
        ("Add a journal entry: they called", "", "", True, Step.WRITE, Branch.C),
    ],
)
def test_the_example_flows_of_the_design_go_their_way(
    text: str, bound: str, rfp_id: str, required: bool | None, step: Step, way: Branch
) -> None:
    found = decide(text)
    assert scope_of(text, bound).rfp_id == rfp_id
    assert (found.required, found.step, branch(rfp_id, found.required)) == (required, step, way)


def test_example_3_is_decided_by_the_pattern_that_it_names() -> None:
    assert decide("Upload this file as a new opportunity").phrase == "upload … new"


def test_who_is_asked_for_an_id_is_told_both_ways_to_answer() -> None:
    asked = which_rfp("polaris")
    assert asked == (
        "Which RFP is this about? Include an id like `rfp_...` or bind this thread with: `@polaris link rfp_...`"
    )
    assert scope_of(asked).rfp_id == ""


@given(st.text() | st.lists(st.sampled_from([form for form, _ in FORMS] + GENERAL + list("<>|_*`: \n…"))).map(" ".join))
def test_any_text_is_decided_with_its_reason(text: str) -> None:
    found = decide(text)
    assert (found.phrase == "") == (found.step is Step.DEFAULT)
    assert operations_requiring_scope(text) is found.required
    assert found.required is True or found.step is not Step.WRITE
    assert branch("", found.required) in Branch


@pytest.mark.timeout(10)
@pytest.mark.parametrize("piece", ["upload ", "<", "<a|", ":a", "rfp_", "_", "new rf", "update the ", " ", "upload. "])
def test_forty_thousand_characters_cost_no_more_than_others(piece: str) -> None:
    assert decide(piece * (40_000 // len(piece))).step in Step
