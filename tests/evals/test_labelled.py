"""The labelled sets are large enough and complete, and name each error in them in one sentence."""

from collections import Counter
from pathlib import Path

import pytest

from tests.evals import labelled
from tests.evals.labelled import DECISIONS, DOCUMENTS, QUESTIONS, Kind, WrongSet
from threadline.decisions.model import DecisionType
from threadline.knowledge.documents import parse_document
from threadline.knowledge.languages import UNSTEMMED
from threadline.knowledge.model import DocumentType

DESIGN = {
    DecisionType.RETRIEVE: {
        "What's your enterprise pricing?",
        "What's your refund policy?",
        "How do I integrate with Salesforce?",
    },
    DecisionType.REASON_ONLY: {
        "Thanks, that helps!",
        "Can you summarize what we discussed?",
        "Yes, let's proceed.",
    },
    DecisionType.USE_TOOL: {
        "Book a meeting with me.",
        "Update my company name to Acme Corp.",
        "Send me a follow-up email.",
    },
    DecisionType.CLARIFY: {
        "I need help with your product.",
        "How much does it cost?",
        "Can you integrate?",
    },
    DecisionType.ESCALATE: {
        "I want a refund for the entire year.",
        "Your agent gave me wrong information and I lost money.",
        "Can I get a custom contract with special terms?",
    },
}


def test_the_documents_are_of_all_types_and_some_have_expired_on_the_day_of_the_questions() -> (
    None
):
    read = [parse_document(path.name, path.read_bytes()).document for path in DOCUMENTS.iterdir()]
    day = labelled.questions().as_of
    assert len(read) >= 25
    assert {each.terms.type for each in read} == set(DocumentType)
    assert sum(each.terms.expires is not None and each.terms.expires < day for each in read) >= 3
    with_blanks = [each for each in read if each.language != UNSTEMMED]
    assert len(with_blanks) >= 30
    assert all(len(each.body.split()) >= 140 for each in with_blanks)
    assert all(len(each.body) >= 300 for each in read)


def test_the_questions_are_enough_of_each_kind_and_about_nearly_all_documents() -> None:
    asked = labelled.questions().all
    counts = Counter(each.kind for each in asked)
    assert len(asked) >= 60
    assert (
        counts[Kind.PARAPHRASED] >= 25,
        counts[Kind.TYPOS] >= 10,
        counts[Kind.REPLACED] >= 5,
    ) == (True, True, True)
    assert (counts[Kind.IDENTIFIERS] >= 30, counts[Kind.LANGUAGES] >= 25) == (True, True)
    assert len({each.document for each in asked}) >= 20


def test_the_decisions_are_enough_of_each_and_have_the_designs_examples() -> None:
    examples = labelled.decisions()
    counts = Counter(each.right for each in examples)
    assert len(examples) >= 80
    assert min(counts[action] for action in DecisionType) >= 12
    assert {
        action: {each.situation.query for each in examples if each.design and each.right is action}
        for action in DecisionType
    } == DESIGN


def test_each_difficulty_of_a_query_occurs() -> None:
    examples = labelled.decisions()
    about = {each.about for each in examples}
    assert {
        "injection",
        "language",
        "sarcasm",
        "gibberish",
        "sensitive word",
        "follow-up",
    } <= about
    assert any(
        "issue" in each.situation.query and not each.situation.sensitive for each in examples
    )
    assert {each.right for each in examples if "refund" in each.situation.sensitive} >= {
        DecisionType.RETRIEVE,
        DecisionType.ESCALATE,
    }


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            "section: Starter,",
            "section: Beginner,",
            "expects pricing-2026.md, 'Beginner', and there is: Starter, Team",
        ),
        ("document: trials.md", "document: trial.md", "no such document, but acceptable-use.md"),
        ("section: Team,", "", "typos, entry 1, section: Field required"),
        ("as_of: 2026-06-01", "as_of: soon", "as_of: .*date"),
        ("conect saleforce", "forgott my pasword", "asks twice: forgott my pasword. Leave one"),
        ("typos:\n", "typos: [\n", "is no YAML"),
        ("typos:\n", "mistyped:\n", "typos: Field required"),
    ],
)
def test_an_error_in_the_questions_is_named_in_a_sentence(
    tmp_path: Path, before: str, after: str, says: str
) -> None:
    with pytest.raises(WrongSet, match=says):
        labelled.questions(changed(QUESTIONS, tmp_path, before, after))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("CLARIFY:\n", "ASK:\n", "CLARIFY: Field required"),
        (
            'query: "thanks"',
            'query: " "',
            "REASON_ONLY, entry 4, query: String should have at least 1 character",
        ),
        ('query: "thanks"', 'query: "Good morning!"', "asks twice: Good morning!. Leave one"),
    ],
)
def test_an_error_in_the_decisions_is_named_in_a_sentence(
    tmp_path: Path, before: str, after: str, says: str
) -> None:
    with pytest.raises(WrongSet, match=says):
        labelled.decisions(changed(DECISIONS, tmp_path, before, after))


def test_a_missing_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrongSet, match=r"away.yaml cannot be read: No such file"):
        labelled.decisions(tmp_path / "away.yaml")


def changed(path: Path, folder: Path, before: str, after: str) -> Path:
    """Return a copy with one error."""
    text = path.read_text("utf-8")
    assert before in text
    copy = folder / path.name
    copy.write_text(text.replace(before, after, 1), "utf-8")
    return copy
