"""The notices of a case: each audience reads only what it may know."""

import pytest

from threadline.cases import sentences
from threadline.cases.contract import NoticeKind
from threadline.cases.model import Reason
from threadline.conversations.contract import WordKind

URL = "https://github.com/acme/shop/pull/7"


@pytest.mark.parametrize("kind", NoticeKind)
def test_no_notice_without_a_detail_names_commands_settings_or_files(kind: NoticeKind) -> None:
    words = sentences.notice(kind, "BUG-1")
    assert not any(internal in words for internal in ("`", "THREADLINE", ": .", "/"))
    assert "canary" in sentences.notice(kind, "BUG-1", "canary") or kind not in {
        NoticeKind.NOBODY_CALLED,
        NoticeKind.FIX_REFUSED,
    }


@pytest.mark.parametrize("reason", sentences._ENDED)
def test_an_end_says_of_a_fix_only_what_its_audience_may_know(reason: Reason) -> None:
    reporters = sentences.ended("BUG-1", reason, fix=sentences.fix_left())
    developers = sentences.ended("BUG-1", reason, fix=sentences.fix_left(URL))
    assert "://" not in reporters
    assert (URL in developers) == (reason is not Reason.FIX_MERGED)


def test_an_escalation_is_told_in_the_agents_words_for_the_reporter_or_in_neutral_ones() -> None:
    assert sentences.with_people("BUG-1", "We look into it.").endswith("We look into it.")
    assert sentences.with_people("BUG-1", "").endswith("will take it from here.")


@pytest.mark.parametrize("kind", WordKind)
@pytest.mark.parametrize("until", [0.0, 1_772_000_000.0])
def test_a_word_beside_an_answer_says_what_to_do_and_when(kind: WordKind, until: float) -> None:
    words = sentences.word(kind, until)
    assert 50 < len(words) < 500
    assert not any(internal in words for internal in ("`", "THREADLINE", "://", ".py"))
    assert ("until 06:13 UTC" in words) == (kind is WordKind.MODEL_AWAY and until > 0)


def test_what_a_person_is_told_of_the_model_is_a_sentence_with_the_reason() -> None:
    assert sentences.no_answer("Check OPENAI_API_KEY.").endswith(" Check OPENAI_API_KEY.")
    assert "OPENAI_API_KEY" in sentences.NO_MODEL
