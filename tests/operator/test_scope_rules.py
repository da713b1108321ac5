"""Whether a request needs an RFP, and its branch."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.conversations.model.turn_route import Branch, choose_branch
from threadline.operator.model.routing import (
    PHRASES,
    QUERIES,
    ScopeRequirement,
    ScopeRule,
    ask_for_rfp_id,
    detect_scope_requirement,
)
from threadline.rfps.model import resolve_scope

DESIGN = {
    ScopeRule.FREE: "new rfp, brand new, it's new, upload the file, upload this, can you upload, "
    "search for, find a new, what can you, what tools",
    ScopeRule.JOB: "schedule job, agent job, job list, job status, query jobs, runner",
    ScopeRule.WRITE: "journal entry, add to journal, append journal, opportunity state, "
    "update opportunity, patch opportunity, update rfp, update the rfp",
    ScopeRule.RELATED: "rfp, proposal, opportunity, bid",
}
"""The phrases as the design lists them."""
QUESTIONS = ["what is", "tell me about", "show me", "list", "search"]
ANSWER = {
    ScopeRule.FREE: False,
    ScopeRule.JOB: False,
    ScopeRule.WRITE: True,
    ScopeRule.RELATED: None,
}
FRAMES = [
    "{}",
    "Hi, {}!",
    "<@U1> please: *{}* (today)",
    "_{}_",
    "so `{}`?",
    "a\n{}\nb",
    "“{}”.",
    "> {}",
    "<#C1|x> {}",
]


def test_phrases_are_those_of_the_design_in_order_of_steps() -> None:
    texts = {
        step: ", ".join(p.text for p in PHRASES if p.step is step and p.text != "upload … new")
        for step in DESIGN
    }
    assert texts == DESIGN
    assert [phrase.text for phrase in QUERIES] == QUESTIONS
    assert [phrase.step for phrase in PHRASES] == sorted(phrase.step for phrase in PHRASES)


@pytest.mark.parametrize("step", DESIGN)
def test_each_phrase_decides_at_its_step_in_any_markup(step: ScopeRule) -> None:
    for text, frame in product(DESIGN[step].split(", "), FRAMES):
        for said in (
            frame.format(text),
            frame.format(text.upper()),
            frame.format(text.replace("'", "’")),
        ):
            assert detect_scope_requirement(said) == ScopeRequirement(ANSWER[step], step, text), (
                said
            )


def test_each_form_counts_as_its_phrase() -> None:
    for phrase in PHRASES:
        for form in phrase.forms:
            found = detect_scope_requirement(f"So, {form.replace('rfp_…', 'rfp_abc123')}, today")
            assert (found.required, found.step, found.phrase) == (
                ANSWER[phrase.step],
                phrase.step,
                phrase.text,
            ), form


@pytest.mark.parametrize(
    ("text", "required"),
    [
        ("What's in the journal?", False),
        ("Which state is the site in?", False),
        ("Who reviews that patch?", False),
        ("Do the RFP review with Ada", None),
        ("Is the opportunity still there?", None),
        ("seed tasks and assign task 3 to Ada, complete task 2", False),
    ],
)
def test_phrases_that_the_design_removed_need_no_rfp(text: str, required: bool | None) -> None:
    assert detect_scope_requirement(text).required is required


def test_job_request_needs_an_rfp_when_it_names_one() -> None:
    for said in (
        "job list for rfp_abc123",
        "RFP_ABC123: job list",
        "job list <https://a.example/rfp_abc123|here>",
    ):
        assert detect_scope_requirement(said) == ScopeRequirement(
            True, ScopeRule.JOB, "job list", "rfp_abc123"
        )
    for said in ("job list for the rfp", "job list for rfp_...", "job list as in rfp_answer.pdf"):
        assert detect_scope_requirement(said) == ScopeRequirement(False, ScopeRule.JOB, "job list")


def test_general_question_turns_only_related_phrases_into_free_ones() -> None:
    for query, text in product(QUESTIONS, DESIGN[ScopeRule.RELATED].split(", ")):
        assert detect_scope_requirement(f"the {text}: {query.upper()}") == ScopeRequirement(
            False, ScopeRule.RELATED, text, query
        )
    assert detect_scope_requirement("show me a journal entry") == ScopeRequirement(
        True, ScopeRule.WRITE, "journal entry"
    )
    assert detect_scope_requirement("show me that") == ScopeRequirement(False, ScopeRule.DEFAULT)


def test_phrase_of_an_earlier_step_decides_at_any_place() -> None:
    for earlier, later in combinations(DESIGN, 2):
        first = DESIGN[earlier].split(", ")[0]
        second = DESIGN[later].split(", ")[0]
        for said in (f"{first} and {second}", f"{second}, {first}"):
            assert detect_scope_requirement(said).step is earlier, said


@pytest.mark.parametrize(
    "text",
    [
        "Is this forbidden?",
        "We renew rfpx",
        "it's news to me",
        "reupload thisness",
        ":runner: on my way",
        "<@U1|runner> <#C1|new rfp> <https://a.example/search?q=new+rfp&bid=1> hello",
        "my_runner and agent_job_list",
        "",
        "👍",
    ],
)
def test_parts_of_words_names_emoji_and_addresses_are_no_phrases(text: str) -> None:
    assert detect_scope_requirement(text) == ScopeRequirement(False, ScopeRule.DEFAULT)


@pytest.mark.parametrize(
    "text", ["renew rfp_7", "That is new: rfp_7", "Update. Opportunity knocks", "a journal, entry"]
)
def test_words_of_a_phrase_must_be_adjacent(text: str) -> None:
    assert detect_scope_requirement(text).step in (ScopeRule.RELATED, ScopeRule.DEFAULT)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("It's a brand-new\none", "brand new"),
        ("please update *the* _RFP_, it is won", "update the rfp"),
        ("[Add to journal](https://a.example) that we met", "add to journal"),
        ("the rfp's deadline", "rfp"),
    ],
)
def test_phrases_are_found_as_people_write_them(text: str, phrase: str) -> None:
    assert detect_scope_requirement(text).phrase == phrase


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
def test_upload_of_something_new_is_said_in_one_sentence(text: str, *, decides: bool) -> None:
    assert (detect_scope_requirement(text).phrase == "upload … new") is decides


def test_branch_depends_on_the_rfp_and_the_requirement() -> None:
    assert [choose_branch("", required) for required in (False, None, True)] == [
        Branch.A,
        Branch.B,
        Branch.C,
    ]
    assert {choose_branch("rfp_1", required) for required in (False, None, True)} == {Branch.D}
    assert [each for each in Branch if each.falls_through] == [Branch.B]


@pytest.mark.parametrize(
    ("text", "bound", "rfp_id", "step", "taken"),
    [
        (
            "Update the status to proposal submitted for rfp_abc123",
            "",
            "rfp_abc123",
            ScopeRule.RELATED,
            Branch.D,
        ),
        ("Upload this file as a new opportunity", "", "", ScopeRule.FREE, Branch.A),
        ("What's the status?", "rfp_xyz789", "rfp_xyz789", ScopeRule.DEFAULT, Branch.D),
        ("Schedule a job that posts a digest every Monday", "", "", ScopeRule.DEFAULT, Branch.A),
        ("Add a journal entry: they called", "", "", ScopeRule.WRITE, Branch.C),
    ],
)
def test_example_requests_of_the_design_take_their_branch(
    text: str, bound: str, rfp_id: str, step: ScopeRule, taken: Branch
) -> None:
    found = detect_scope_requirement(text)
    scope = resolve_scope(text, bound)
    assert (scope.rfp_id, found.step, choose_branch(scope.rfp_id, found.required)) == (
        rfp_id,
        step,
        taken,
    )


def test_question_for_an_rfp_shows_how_to_bind_the_thread() -> None:
    asked = ask_for_rfp_id("polaris")
    assert "`@polaris link rfp_...`" in asked
    assert resolve_scope(asked).rfp_id == ""


FORMS = [form for phrase in PHRASES for form in (phrase.text, *phrase.forms)]


@given(
    st.text() | st.lists(st.sampled_from(FORMS + QUESTIONS + list("<>|_*`: \n…"))).map(" ".join)
)
def test_any_text_is_decided_by_a_phrase_or_by_default(text: str) -> None:
    found = detect_scope_requirement(text)
    assert (found.phrase == "") == (found.step is ScopeRule.DEFAULT)
    assert found.required is True or found.step is not ScopeRule.WRITE


@pytest.mark.timeout(10)
def test_forty_thousand_characters_are_decided_in_time() -> None:
    for piece in (
        "upload ",
        "<",
        "<a|",
        ":a",
        "rfp_",
        "_",
        "new rf",
        "update the ",
        " ",
        "upload. ",
    ):
        assert detect_scope_requirement(piece * (40_000 // len(piece))).step in ScopeRule
