"""The notices of a case: each audience reads only what it may know."""

import pytest

from threadline.cases import sentences
from threadline.cases.contract import NoticeKind
from threadline.cases.model import Reason
from threadline.conversations.contract import WordKind

URL = "https://github.com/acme/shop/pull/7"


@pytest.mark.parametrize("kind", NoticeKind)
def test_notice_names_no_command_setting_or_file(kind: NoticeKind) -> None:
    words = sentences.notice(kind, "BUG-1")
    assert not any(internal in words for internal in ("`", "THREADLINE", ": .", "/"))
    assert "canary" in sentences.notice(kind, "BUG-1", "canary") or kind not in {
        NoticeKind.NOBODY_CALLED,
        NoticeKind.FIX_REFUSED,
    }


@pytest.mark.parametrize("reason", sentences._ENDED)
def test_end_shows_the_address_of_a_fix_to_developers_alone(reason: Reason) -> None:
    reporters = sentences.ended("BUG-1", reason, fix=sentences.fix_left())
    developers = sentences.ended("BUG-1", reason, fix=sentences.fix_left(URL))
    assert "://" not in reporters
    assert (URL in developers) == (reason is not Reason.FIX_MERGED)


def test_escalation_is_told_in_the_words_for_the_reporter() -> None:
    assert "We look into it." in sentences.with_people("BUG-1", "We look into it.")


@pytest.mark.parametrize("kind", WordKind)
def test_word_beside_an_answer_names_nothing_internal_and_the_time(kind: WordKind) -> None:
    for until in (0.0, 1_772_000_000.0):
        words = sentences.word(kind, until)
        assert not any(internal in words for internal in ("`", "THREADLINE", "://", ".py"))
        assert ("06:13 UTC" in words) == (kind is WordKind.MODEL_AWAY and until > 0)


def test_missing_answer_is_told_with_its_reason() -> None:
    assert "Check OPENAI_API_KEY." in sentences.no_answer("Check OPENAI_API_KEY.")
