"""Job types: each by its name, with what it takes."""

from typing import Any

import pytest

from threadline.jobs import job_types
from threadline.jobs.model import JobRefused


@pytest.mark.parametrize("name", ["status_digest", " Status-Digest ", "status digest"])
def test_a_type_is_known_by_its_name_however_it_is_written(name: str) -> None:
    assert job_types.type_of(name).name == job_types.STATUS_DIGEST


@pytest.mark.parametrize("name", ["", "backup", "status_digest; drop", "x" * 1000])
def test_an_unknown_type_is_refused_with_the_list(name: str) -> None:
    with pytest.raises(JobRefused, match="there are status_digest, deadline_reminder, follow_up") as refusal:
        job_types.type_of(name)
    assert len(str(refusal.value)) < 600


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("status_digest", {"rfp_id": "rfp_a1b"}, "rfp_id is not valid for a status_digest"),
        ("deadline_reminder", {}, "it takes rfp_id, days_before, channel"),
        ("deadline_reminder", {"rfp_id": "rfp_a1b", "days_before": -1}, "days_before is not valid"),
        ("follow_up", {"question": ""}, "question is not valid"),
        ("follow_up", {"question": "x" * 3_001}, "question is not valid"),
    ],
)
def test_arguments_that_do_not_fit_their_type_are_refused(name: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(JobRefused, match=says):
        job_types.read(job_types.type_of(name), given)


def test_what_is_kept_of_a_job_can_be_read_again() -> None:
    for name, given in (
        ("status_digest", {}),
        ("deadline_reminder", {"rfp_id": "rfp_a1b"}),
        ("follow_up", {"question": "How far is it?"}),
    ):
        read = job_types.read(job_types.type_of(name), given)
        assert job_types.read(job_types.type_of(name), read.model_dump()) == read
