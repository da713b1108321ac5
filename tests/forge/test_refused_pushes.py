"""A host refuses a push: the real git, over HTTP or a path, and the words that people read."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.git_repository import GitRepository
from threadline.errors import Permanent
from threadline.forge.pull_requests import FixRequest, PullRequests
from threadline_devstack.git_host import GitHost, PushRefusal, allow_pushes, refuse_pushes

SHOP = "acme/shop.git"
BRANCH = "threadline/bug-12"
MAY_NOT = "check that the token or key may do this there"


@pytest.fixture
async def host(origin: GitRepository, tmp_path: Path) -> AsyncIterator[GitHost]:
    async with GitHost.running(tmp_path) as host:
        yield host


@pytest.fixture
def over_http(host: GitHost) -> PullRequests:
    return PullRequests({"shop": f"{host.url}/{SHOP}"})


async def test_fix_is_pushed_over_http(
    over_http: PullRequests, asked: FixRequest, origin: GitRepository
) -> None:
    opened = await over_http.open(asked)
    assert origin.git("rev-parse", BRANCH) == opened.commit


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (
            PushRefusal(status=413),
            "its host accepts nothing of this size (HTTP 413): raise the limit there",
        ),
        (PushRefusal(status=403), MAY_NOT),
        (PushRefusal(status=404), MAY_NOT),
        (
            PushRefusal(says="GH006: Protected branch update failed."),
            "GH006: Protected branch update failed.",
        ),
        (PushRefusal(says="timed out: policy refused"), "pre-receive hook declined"),
        (PushRefusal(reason="protected branch hook declined"), "protected branch hook declined"),
        (
            PushRefusal(reason="push declined due to repository rule violations"),
            "repository rule violations",
        ),
        (PushRefusal(reason="timed out: policy refused"), "timed out: policy refused"),
    ],
    ids=str,
)
async def test_refused_push_is_given_up_with_the_hosts_reason(
    host: GitHost,
    over_http: PullRequests,
    asked: FixRequest,
    origin: GitRepository,
    refusal: PushRefusal,
    told: str,
) -> None:
    host.refuse_pushes(SHOP, refusal)
    with pytest.raises(Permanent) as refused:
        await over_http.open(asked)
    assert told in str(refused.value)
    assert not origin.git("branch", "--list", BRANCH)
    host.refuse_pushes(SHOP, PushRefusal())
    assert (await over_http.open(asked)).branch == BRANCH


@pytest.mark.parametrize(
    "refusal",
    [PushRefusal(says="No fixes on Fridays."), PushRefusal(reason="No fixes on Fridays.")],
)
async def test_repository_at_a_path_refuses_as_well(
    plain: PullRequests, asked: FixRequest, origin: GitRepository, refusal: PushRefusal
) -> None:
    refuse_pushes(origin.path, refusal)
    with pytest.raises(Permanent, match=r"No fixes on Fridays\."):
        await plain.open(asked)
    allow_pushes(origin.path)
    await plain.open(asked)
