"""Unusable repositories get a sentence each, at a fix, at a fetch, and in the doctor."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.git_repository import GitRepository
from threadline.errors import Mendable, Permanent, Transient
from threadline.forge.git import Git
from threadline.forge.mirrors import Mirrors
from threadline.forge.pull_requests import FixRequest, PullRequests
from threadline.wiring.doctor import check_repositories

BACKEND = (
    Path(subprocess.check_output(["git", "--exec-path"], text=True).strip()) / "git-http-backend"
)


def shallow(origin: GitRepository, developer: GitRepository) -> None:
    developer.commit()
    developer.push()
    shutil.move(origin.path, origin.path.with_suffix(".full"))
    developer.git(
        "clone",
        "-q",
        "--bare",
        "--depth=1",
        origin.path.with_suffix(".full").as_uri(),
        str(origin.path),
    )


def detached(origin: GitRepository, _: GitRepository) -> None:
    (origin.path / "HEAD").write_text(f"{origin.head}\n")


def missing(origin: GitRepository, _: GitRepository) -> None:
    origin.git("symbolic-ref", "HEAD", "refs/heads/trunk")


def empty(origin: GitRepository, _: GitRepository) -> None:
    origin.git("update-ref", "-d", "refs/heads/main")


def of_another(origin: GitRepository, _: GitRepository) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    for path in (origin.path, *origin.path.rglob("*")):
        os.chown(path, 12_345, 12_345)


UNUSABLE = [
    (shallow, "is a shallow clone"),
    (missing, "HEAD names a branch that does not exist"),
    (empty, "no commit on its default branch"),
    (of_another, "belongs to another account"),
    (detached, r"HEAD is a commit \(detached\)"),
]


@pytest.mark.parametrize(("spoil", "sentence"), UNUSABLE)
async def test_unusable_repository_gets_its_sentence_at_a_fix_and_in_the_doctor(
    plain: PullRequests,
    asked: FixRequest,
    origin: GitRepository,
    developer: GitRepository,
    spoil: Callable[[GitRepository, GitRepository], None],
    sentence: str,
) -> None:
    spoil(origin, developer)
    with pytest.raises(Permanent, match=f"The repository shop .*{sentence}") as at_fix:
        await plain.open(asked)
    with pytest.raises(Permanent, match=f"The repository shop .*{sentence}") as at_doctor:
        await check_repositories({"shop": str(origin.path)})
    assert str(origin.path) not in f"{at_fix.value} {at_doctor.value}"


@pytest.mark.parametrize(("spoil", "sentence"), UNUSABLE[:-1])
async def test_unusable_repository_is_the_admins_at_once(
    tmp_path: Path,
    origin: GitRepository,
    developer: GitRepository,
    spoil: Callable[[GitRepository, GitRepository], None],
    sentence: str,
) -> None:
    spoil(origin, developer)
    with pytest.raises(Mendable, match=f"The repository shop .*{sentence}"):
        await Mirrors(tmp_path / "mirrors", {"shop": str(origin.path)}, Git()).commit("shop")


async def test_detached_repository_can_still_be_investigated(
    tmp_path: Path, origin: GitRepository, developer: GitRepository
) -> None:
    detached(origin, developer)
    assert (
        await Mirrors(tmp_path / "mirrors", {"shop": str(origin.path)}, Git()).commit("shop")
        == developer.head
    )


@pytest.mark.parametrize("branch", ["threadline", "threadline/bug-12/wip"])
async def test_branch_in_the_way_is_named_before_anything_is_pushed(
    plain: PullRequests, asked: FixRequest, origin: GitRepository, branch: str
) -> None:
    origin.git("branch", branch, "main")
    with pytest.raises(
        Permanent, match=rf"branch {branch} is in the way of threadline/bug-12.*rename or delete"
    ):
        await plain.open(asked)


async def test_doctor_names_each_repository_at_fault(
    origin: GitRepository, tmp_path: Path
) -> None:
    origin.git("branch", "threadline", "main")
    named = {"shop": str(origin.path), "web": str(tmp_path / "none.git")}
    with pytest.raises(
        Permanent, match=r"shop takes no fix: its branch threadline .* clone web from"
    ):
        await check_repositories(named)


async def test_doctor_is_content_with_a_repository_that_works(origin: GitRepository) -> None:
    assert await check_repositories({"shop": str(origin.path)}) == "shop: reachable"


@pytest.fixture
async def refusing(origin: GitRepository) -> AsyncIterator[Callable[[int], PullRequests]]:
    """Git over HTTP, by git's own program; the push itself is answered with a status."""

    async def answer(request: web.Request) -> web.Response:
        if "git-receive-pack" in request.path:
            return web.Response(status=int(request.match_info["status"]))
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(origin.path.parent),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "dev",
            "PATH_INFO": f"/{request.match_info['rest']}",
            "QUERY_STRING": request.query_string,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": "",
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        }
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            BACKEND, stdin=pipe, stdout=pipe, env=environment
        )
        answered, _ = await process.communicate(await request.read())
        head, _, body = answered.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        headers = {name: value for name, value in lines if name != "Status"}
        return web.Response(body=body, headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{status}/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    yield lambda status: PullRequests({"shop": f"http://127.0.0.1:{port}/{status}/shop.git"})
    await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (403, Permanent, "may do this"),
        (404, Permanent, "may do this"),
        (413, Permanent, "of this size"),
        (429, Transient, "429"),
        (502, Transient, "502"),
    ],
)
async def test_status_of_a_push_decides(
    refusing: Callable[[int], PullRequests],
    asked: FixRequest,
    status: int,
    kind: type[Exception],
    said: str,
) -> None:
    with pytest.raises(kind, match=f"could not push threadline/bug-12 to shop: .*{said}"):
        await refusing(status).open(asked)


async def test_hook_that_mentions_time_has_refused(
    plain: PullRequests, asked: FixRequest, origin: GitRepository
) -> None:
    hook = origin.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'timed out: policy refused' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(Permanent, match="timed out: policy refused") as refused:
        await plain.open(replace(asked, title="Totals"))
    assert str(origin.path) not in str(refused.value)
