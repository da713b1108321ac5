"""Doctor's judgement on the builds of a deployment."""

import pytest

from threadline.wiring.builds import UNVERSIONED, Build, build_faults, own_build_fault

ONE = ("threadline", "b1")
TWO = ("threadline", "b2")


@pytest.mark.parametrize(
    ("targets", "served", "told"),
    [
        ({UNVERSIONED}, {UNVERSIONED}, []),
        ({ONE}, {ONE}, []),
        ({ONE, TWO}, {ONE, TWO}, []),
        ({ONE}, {UNVERSIONED}, ["which no worker runs", "without THREADLINE_BUILD_ID"]),
        ({ONE}, {ONE, UNVERSIONED}, ["without THREADLINE_BUILD_ID"]),
        (
            {ONE},
            {TWO},
            [
                "sends work of 'q' to build 'b1'",
                "'b2' serves 'q' but gets no work, because another build",
            ],
        ),
        ({ONE}, {ONE, TWO}, ["--build-id b2`, or stop"]),
        ({ONE, TWO}, {ONE}, ["sends work of 'q' to build 'b2'"]),
        (
            {UNVERSIONED},
            {ONE},
            ["because no build is the current one: run `temporal worker deployment set-current"],
        ),
        ({UNVERSIONED}, {ONE, UNVERSIONED}, ["because no build is the current one"]),
    ],
)
def test_each_build_without_work_or_worker_is_reported(
    targets: set[Build], served: set[Build], told: list[str]
) -> None:
    faults = build_faults("q", targets, served)
    assert len(faults) == len(told)
    for words, fault in zip(told, faults, strict=True):
        assert words in fault


def test_settings_that_name_a_build_without_work_are_reported() -> None:
    assert own_build_fault(UNVERSIONED, {ONE}) == ""
    assert own_build_fault(ONE, {ONE, TWO}) == ""
    assert "THREADLINE_BUILD_ID is 'b2' here" in own_build_fault(TWO, {ONE})
