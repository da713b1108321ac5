"""Job types, each with its name and arguments."""

from typing import Any

import pytest

from threadline.jobs.model import STATUS_DIGEST, JobRefused, find_job_type, read_arguments


def test_type_is_known_in_any_spelling_of_its_name() -> None:
    for name in (" Status-Digest ", "status digest"):
        assert find_job_type(name).name == STATUS_DIGEST


def test_unknown_type_is_refused_with_the_list_of_types() -> None:
    with pytest.raises(JobRefused, match="status_digest, deadline_reminder, follow_up") as refusal:
        find_job_type("x" * 1000)
    assert len(str(refusal.value)) < 600


@pytest.mark.parametrize(
    ("name", "given", "refusal"),
    [
        ("status_digest", {"rfp_id": "rfp_a1b"}, "rfp_id is not valid for a status_digest"),
        ("deadline_reminder", {}, "it takes rfp_id, days_before, channel"),
        (
            "deadline_reminder",
            {"rfp_id": "rfp_a1b", "days_before": -1},
            "days_before is not valid",
        ),
        ("follow_up", {"question": ""}, "question is not valid"),
        ("follow_up", {"question": "x" * 3_001}, "question is not valid"),
    ],
)
def test_arguments_that_do_not_fit_the_type_are_refused(
    name: str, given: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(JobRefused, match=refusal):
        read_arguments(find_job_type(name), given)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("status_digest", {}),
        ("deadline_reminder", {"rfp_id": "rfp_a1b"}),
        ("follow_up", {"question": "How far is it?"}),
    ],
)
def test_stored_arguments_can_be_read_again(name: str, given: dict[str, Any]) -> None:
    read = read_arguments(find_job_type(name), given)
    assert read_arguments(find_job_type(name), read.model_dump()) == read
