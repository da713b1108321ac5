"""One draft for each case at GitHub, however it answers."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
from aiohttp import web

from tests.forge.fake_github import REPOSITORY, TOKEN, FakeGitHub
from tests.forge.fixes import SECOND
from tests.forge.test_pull_requests import commits
from tests.support.git_repository import GitRepository
from threadline.cases.blocks import pull_request_text
from threadline.errors import NotDone, Permanent, Transient
from threadline.forge.github import GitHub
from threadline.forge.pull_requests import FixRequest, PullRequests


async def test_same_request_twice_makes_one_commit_and_one_draft(
    hosted: PullRequests, github: FakeGitHub, asked: FixRequest, origin: GitRepository
) -> None:
    first = await hosted.open(asked)
    assert await hosted.open(asked) == first
    assert len(commits(origin)) == 1
    assert (first.url, first.number) == ("https://github.example/acme/shop/pull/1", 1)
    assert github.calls == ["GET", "POST", "GET"]
    (pull,) = github.pulls
    assert (pull["draft"], pull["base"]["ref"], pull["title"]) == (
        True,
        "main",
        "BUG-12: Totals are one too high",
    )


async def test_draft_whose_answer_was_lost_is_found_again(
    hosted: PullRequests, github: FakeGitHub, asked: FixRequest
) -> None:
    github.lose_draft = True
    with pytest.raises(Transient, match="502"):
        await hosted.open(asked)
    assert (await hosted.open(asked)).number == 1
    assert len(github.pulls) == 1


async def test_repeated_request_of_a_closed_draft_opens_no_second_one(
    hosted: PullRequests, github: FakeGitHub, asked: FixRequest
) -> None:
    await hosted.open(asked)
    github.pulls[0]["state"] = "closed"
    assert (await hosted.open(asked)).number == 1
    assert (await hosted.open(replace(asked, diff=SECOND))).number == 2


async def test_later_fix_is_a_commit_on_top_of_the_same_draft(
    hosted: PullRequests, github: FakeGitHub, asked: FixRequest, origin: GitRepository
) -> None:
    first = await hosted.open(asked)
    second = await hosted.open(replace(asked, diff=SECOND, title="Round", key="T1:C1:2.5"))
    assert second.number == first.number
    assert commits(origin) == ["BUG-12: Round", "BUG-12: Totals are one too high"]
    assert "round" in origin.git("show", "threadline/bug-12:src/cart.py")
    assert "+    return round(sum(items), 2)" in origin.git("diff", "main", "threadline/bug-12")
    assert [pull["title"] for pull in github.pulls] == ["BUG-12: Round"]


@pytest.mark.parametrize(
    ("status", "headers", "error", "said", "wait"),
    [
        (401, {}, Permanent, "set a new one in GITHUB_TOKEN", None),
        (403, {}, Permanent, "why not", None),
        (
            404,
            {},
            Permanent,
            "The repository acme/shop was not found .* check THREADLINE_REPO",
            None,
        ),
        (422, {}, Permanent, r"HTTP 422\). why not", None),
        (403, {"Retry-After": "30"}, NotDone, "rate limit", 30.0),
        (
            403,
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"},
            NotDone,
            "rate limit",
            1.0,
        ),
        (429, {"Retry-After": "7"}, NotDone, "rate limit", 7.0),
        (500, {}, Transient, "HTTP 500", None),
        (503, {"X-RateLimit-Reset": "99999999999"}, Transient, "HTTP 503", None),
    ],
)
async def test_refusal_of_github_is_permanent_or_transient(
    hosted: PullRequests,
    github: FakeGitHub,
    asked: FixRequest,
    status: int,
    headers: dict[str, str],
    error: type[Exception],
    said: str,
    wait: float | None,
) -> None:
    github.refuse = [(status, headers, "why not")]
    with pytest.raises(error, match=said) as failure:
        await hosted.open(asked)
    assert getattr(failure.value, "retry_after", None) == wait
    assert TOKEN.get_secret_value() not in repr(failure.value)
    assert (await hosted.open(asked)).number == 1


OTHERS: dict[str, tuple[dict[str, str], int | None]] = {
    "another branch": ({"head": "feature", "base": "main"}, REPOSITORY),
    "a branch that begins like ours": ({"head": "threadline/bug-120", "base": "main"}, REPOSITORY),
    "the same branch of a fork": ({"head": "threadline/bug-12", "base": "main"}, 99),
    "the same branch of a deleted fork": ({"head": "threadline/bug-12", "base": "main"}, None),
    "the same branch for another base": (
        {"head": "threadline/bug-12", "base": "release"},
        REPOSITORY,
    ),
}
"""Pull requests that a server may list for our branch and that are not ours."""


@pytest.mark.parametrize("state", ["open", "closed"])
@pytest.mark.parametrize("other", OTHERS)
async def test_pull_request_of_somebody_else_stays_as_it_is(
    hosted: PullRequests, github: FakeGitHub, asked: FixRequest, other: str, state: str
) -> None:
    github.ignores_head = True
    fields, repository = OTHERS[other]
    theirs = github.add({"title": "Mine", "body": "Hands off", **fields}, "f" * 40, repository)
    theirs["state"] = state
    before = copy.deepcopy(theirs)
    for _ in range(2):
        assert (await hosted.open(asked)).number == 2
    assert github.pulls[0] == before
    assert (await hosted.open(replace(asked, title="Another title"))).number == 2
    assert github.pulls[0] == before
    assert "PATCH" in github.calls


async def test_own_draft_is_found_after_many_of_other_branches(
    hosted: PullRequests, github: FakeGitHub, asked: FixRequest
) -> None:
    github.ignores_head = True
    own = await hosted.open(asked)
    for number in range(250):
        github.add(
            {"title": "Theirs", "body": "", "head": f"feature-{number}", "base": "main"}, "f" * 40
        )
    assert (await hosted.open(asked)).number == own.number


async def test_repository_without_drafts_gets_an_ordinary_pull_request(
    hosted: PullRequests, github: FakeGitHub, asked: FixRequest
) -> None:
    github.takes_drafts = False
    opened = await hosted.open(asked)
    assert (opened.number, opened.draft) == (1, False)
    assert await hosted.open(asked) == opened
    assert "ordinary pull request" in pull_request_text("BUG-12", opened)


async def test_draft_is_called_one(hosted: PullRequests, asked: FixRequest) -> None:
    opened = await hosted.open(asked)
    assert opened.draft
    assert "It is a draft" in pull_request_text("BUG-12", opened)


async def test_draft_that_github_does_not_list_yet_is_looked_for_again(
    hosted: PullRequests, github: FakeGitHub, asked: FixRequest
) -> None:
    github.refuse_posts = [(422, {}, "A pull request already exists for acme:threadline/bug-12.")]
    with pytest.raises(Transient, match="does not list it yet") as failure:
        await hosted.open(asked)
    assert failure.value.retry_after == 5


async def test_refusal_that_names_a_place_is_not_repeated(
    hosted: PullRequests, github: FakeGitHub, asked: FixRequest
) -> None:
    github.refuse = [(403, {}, "See https://acme.example/x")]
    with pytest.raises(
        Permanent, match="give it the right to write contents and pull requests"
    ) as failure:
        await hosted.open(asked)
    assert "acme.example" not in str(failure.value)


async def test_fault_of_a_field_is_repeated(
    hosted: PullRequests, github: FakeGitHub, asked: FixRequest
) -> None:
    fault = {
        "resource": "PullRequest",
        "code": "custom",
        "message": "No commits between main and threadline/bug-12",
    }
    github.refuse_posts = [(422, {}, {"message": "Validation Failed", "errors": [fault]})]
    with pytest.raises(
        Permanent, match="Validation Failed; No commits between main and threadline/bug-12"
    ):
        await hosted.open(asked)


async def test_unreachable_github_is_transient(origin: GitRepository, asked: FixRequest) -> None:
    with pytest.raises(Transient, match="could not be reached"):
        await PullRequests({"shop": str(origin.path)}, TOKEN, "http://127.0.0.1:1").open(asked)


async def test_fix_without_a_token_is_only_a_branch(
    origin: GitRepository, github: FakeGitHub, asked: FixRequest
) -> None:
    opened = await PullRequests({"shop": str(origin.path)}, None, github.url).open(asked)
    assert opened.number is None
    assert github.calls == []


def test_token_goes_to_githubs_own_host_alone() -> None:
    urls = {
        "a": "https://github.com/acme/a.git",
        "b": "https://gitlab.com/acme/b.git",
        "c": "https://github.com.evil.example/acme/c.git",
        "d": "git@github.com:acme/d.git",
    }
    remotes = PullRequests(urls, TOKEN)._remotes
    assert [name for name, remote in remotes.items() if remote.password] == ["a"]
    enterprise = PullRequests(
        urls | {"e": "https://git.acme.example/x/e"}, TOKEN, "https://git.acme.example/api/v3"
    )
    assert [name for name, remote in enterprise._remotes.items() if remote.password] == ["e"]


async def test_redirect_to_another_host_gets_no_token(
    unused_tcp_port_factory: Callable[[], int],
) -> None:
    first = unused_tcp_port_factory()
    second = unused_tcp_port_factory()
    seen: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        if request.path == "/elsewhere":
            return web.json_response({"state": "open"})
        raise web.HTTPMovedPermanently(f"http://127.0.0.1:{second}/elsewhere")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    for port in (first, second):
        await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        assert (
            await GitHub(f"http://127.0.0.1:{first}", TOKEN).pull_request_state("acme/shop", 1)
            == "open"
        )
    finally:
        await runner.cleanup()
    assert seen == [f"Bearer {TOKEN.get_secret_value()}", None]


async def test_state_of_a_draft_is_githubs(
    hosted: PullRequests, github: FakeGitHub, asked: FixRequest
) -> None:
    opened = await hosted.open(asked)
    for state, changes in (
        ("open", {}),
        ("closed", {"state": "closed"}),
        ("merged", {"merged": True}),
    ):
        github.pulls[0] |= changes
        assert await hosted.state(opened) == state
    github.pulls.clear()
    assert await hosted.state(opened) == "gone"
