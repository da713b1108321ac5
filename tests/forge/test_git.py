"""Git ignores this machine's settings, shows no secret, and ends when it is stopped."""

import asyncio
import base64
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from pydantic import SecretStr

from tests.support.git_repository import GitRepository
from tests.support.patience import patient
from threadline.errors import Permanent, Transient
from threadline.forge import git as git_module
from threadline.forge.git import DiskUnusable, Git
from threadline.forge.remotes import Remote, repositories_by_name

SECRET = "ghp_verysecretverysecret"


@dataclass
class Host:
    """A git host that asks for a login and answers with the status that its path begins with."""

    url: str = ""
    logins: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    """The argument lists of all processes during each request."""

    async def answer(self, request: web.Request) -> web.Response:
        self.processes += _ps("-A", "-o", "args=").splitlines()
        header = request.headers.get("Authorization", "")
        if not header:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="git"'})
        self.logins.append(base64.b64decode(header.removeprefix("Basic ")).decode())
        return web.Response(status=int(request.match_info["status"]))


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    made = Host()
    app = web.Application()
    app.router.add_route("*", "/{status}/{rest:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


@pytest.fixture
async def place(tmp_path: Path) -> Path:
    """An empty repository."""
    await Git().init(tmp_path / "r.git")
    return tmp_path / "r.git"


@pytest.mark.parametrize("user", ["x-access-token", "me"])
async def test_credentials_are_used_and_shown_nowhere(place: Path, host: Host, user: str) -> None:
    url = f"{host.url}/404/acme/shop.git"
    if user == "me":
        remote = Remote.parse(url.replace("://", f"://me:{SECRET}@"))
    else:
        remote = Remote(url).with_token(SecretStr(SECRET))
    with pytest.raises(Permanent, match="not found") as failure:
        await Git().run("ls-remote", "--", remote.url, git_dir=place, remote=remote)
    assert host.logins == [f"{user}:{SECRET}"]
    assert any("ls-remote" in line for line in host.processes)
    shown = [*host.processes, str(failure.value), repr(remote), remote.url, remote.link]
    assert not any(SECRET in line for line in shown)


@pytest.mark.parametrize(
    ("status", "error"), [("503", Transient), ("429", Transient), ("404", Permanent)]
)
async def test_answer_of_a_host_is_permanent_or_transient(
    place: Path, host: Host, status: str, error: type[Exception]
) -> None:
    remote = Remote(f"{host.url}/{status}/acme/shop.git").with_token(SecretStr(SECRET))
    with pytest.raises(error):
        await Git().run("ls-remote", "--", remote.url, git_dir=place, remote=remote)


@pytest.mark.skipif(
    sys.platform != "linux", reason="/dev/full is Linux's disk that is always full"
)
async def test_full_disk_is_transient(place: Path) -> None:
    git = Git()
    blob = await git.run("hash-object", "-w", "--stdin", git_dir=place, stdin=b"x" * 100_000)
    tree = await git.run("mktree", git_dir=place, stdin=f"100644 blob {blob.text}\tbig\n".encode())
    with pytest.raises(DiskUnusable, match="free some space"):
        await git.run("archive", "--output=/dev/full", tree.text, git_dir=place)


async def test_unreachable_host_is_transient(place: Path) -> None:
    with pytest.raises(Transient):
        await Git().run("ls-remote", "--", "http://127.0.0.1:1/x.git", git_dir=place)


async def test_git_gets_none_of_this_process_secrets(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.bare=false'")
    shown = await Git().run("-c", "alias.show-env=!env", "show-env", git_dir=place)
    assert "HOME=/nonexistent" in shown.text
    assert "xoxb-1" not in shown.text


async def test_cancelling_kills_git_and_its_children(place: Path, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    # More than a pipe holds, so the mark shows that the output is being read.
    flood = "head -c 300000 /dev/zero"
    alias = f"alias.hang=!{flood}; sleep 300 & echo $! > {mark}; wait"
    task = asyncio.create_task(Git().run("-c", alias, "hang", git_dir=place))
    await _eventually(lambda: mark.exists() and mark.read_text().strip() != "")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _eventually(lambda: not _alive(int(mark.read_text())))


async def test_cancelling_while_git_is_started_kills_its_children(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "pid"
    start = asyncio.create_subprocess_exec
    started = asyncio.Event()
    connected = asyncio.Event()

    async def connect_slowly(*args: Any, **options: Any) -> Any:
        process = await start(*args, **options)
        started.set()
        await connected.wait()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", connect_slowly)
    alias = f"alias.hang=!sleep 300 & echo $! > {mark}; wait"
    task = asyncio.create_task(Git().run("-c", alias, "hang", git_dir=place))
    await started.wait()
    await _eventually(lambda: mark.exists() and mark.read_text().strip() != "")
    task.cancel()
    connected.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _eventually(lambda: not _alive(int(mark.read_text())))


async def _eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(patient(10)):
        while not condition():  # noqa: ASYNC110 - another process has no event to wait for
            await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    return not _ps("-o", "stat=", "-p", str(pid)).startswith(("Z", "X")) and bool(
        _ps("-o", "pid=", "-p", str(pid))
    )


def _ps(*arguments: str) -> str:
    return subprocess.run(
        ["ps", "-w", "-w", *arguments], check=False, capture_output=True, text=True
    ).stdout.strip()


async def test_git_that_hangs_is_transient(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_module, "LOCAL_SECONDS", 0.2)
    with pytest.raises(Transient, match="did not end within"):
        await Git().run("-c", "alias.hang=!sleep 300", "hang", git_dir=place)


async def test_output_without_end_is_refused_and_not_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_module, "MAX_OUTPUT", 1000)
    with pytest.raises(Permanent, match="more than 1000 bytes"):
        await Git().run("-c", "alias.flood=!yes | head -c 3000000", "flood", git_dir=place)


async def test_output_beyond_the_bound_is_read_and_dropped() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"x" * 300_000)
    reader.feed_eof()
    assert len(await git_module._read(reader, 1000)) == 1000
    assert reader.at_eof()


def test_credentials_in_an_error_of_git_are_taken_out() -> None:
    words = b"fatal: unable to access 'https://me:hunter2@host/x.git/': no\n"
    assert git_module._reason(words, None) == "unable to access 'https://host/x.git/': no"


async def test_missing_git_is_permanent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Permanent, match="install git"):
        await Git().init(tmp_path / "r.git")


_FETCHING = """
import asyncio, pathlib, sys
from threadline.forge.git import DiskUnusable, Git
from threadline.forge.remotes import Remote, repositories_by_name
where, url = pathlib.Path(sys.argv[1]), sys.argv[2]
asyncio.run(Git().run("ls-remote", "--", url, git_dir=where, remote=Remote(url)))
"""


@pytest.mark.skipif(not shutil.which("setpriv"), reason="only Linux ties a process to its parent")
async def test_git_ends_with_a_worker_that_is_killed(place: Path) -> None:
    called = asyncio.Event()
    ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        while await reader.read(1000):  # the end of the connection is the end of git
            pass
        ended.set()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        url = f"git://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
        words = [sys.executable, "-c", _FETCHING, str(place), url]
        worker = await asyncio.create_subprocess_exec(*words, env={"PATH": os.environ["PATH"]})
        await asyncio.wait_for(called.wait(), patient(30))
        worker.kill()
        await worker.wait()
        await asyncio.wait_for(ended.wait(), patient(30))


async def test_ext_transport_is_refused(place: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with pytest.raises(Permanent, match="not allowed"):
        await Git().run("ls-remote", "--", f"ext::sh -c touch% {mark}", git_dir=place)
    assert not mark.exists()


def test_repositories_are_known_by_the_last_part_of_their_address() -> None:
    urls = [
        "https://me:pw@github.com/acme/shop.git",
        "git@github.com:acme/api.git",
        "/srv/git/web/",
    ]
    assert repositories_by_name(urls) == {"shop": urls[0], "api": urls[1], "web": urls[2]}


@pytest.mark.parametrize(
    "urls", [["/a/shop", "/b/Shop.git"], ["/"], ["/a/attachments"], ["/a/.git"], ["/a/.."]]
)
def test_names_that_cannot_be_folders_side_by_side_are_refused(urls: list[str]) -> None:
    with pytest.raises(Permanent, match="THREADLINE_REPO"):
        repositories_by_name(urls)


@pytest.mark.parametrize(
    ("url", "host", "slug", "link"),
    [
        (
            "https://github.com/acme/shop.git",
            "github.com",
            "acme/shop",
            "https://github.com/acme/shop.git",
        ),
        (
            "git@github.com:acme/shop.git",
            "github.com",
            "acme/shop",
            "ssh://github.com/acme/shop.git",
        ),
        (
            "ssh://git@github.com/acme/shop",
            "github.com",
            "acme/shop",
            "ssh://git@github.com/acme/shop",
        ),
        ("/srv/acme/shop.git", "", "acme/shop", "file:///srv/acme/shop.git"),
        ("file:///srv/acme/shop.git", "", "acme/shop", "file:///srv/acme/shop.git"),
    ],
)
def test_address_is_read_in_each_of_its_forms(url: str, host: str, slug: str, link: str) -> None:
    remote = Remote.parse(url)
    assert (remote.host, remote.slug, remote.link, remote.is_path) == (
        host,
        slug,
        link,
        host == "",
    )


async def test_settings_of_a_repository_around_ours_are_not_read(tmp_path: Path) -> None:
    around = GitRepository(tmp_path)
    around.git("init", "-q")
    around.git("config", "user.name", "evil")
    await Git().init(tmp_path / "r.git")
    found = await Git().run(
        "config", "--get", "user.name", git_dir=tmp_path / "r.git", accept=(1,)
    )
    assert found.code == 1


@pytest.mark.parametrize("data", [b"", b"what nobody reads"])
def test_git_that_ends_before_it_is_written_to_is_no_error(data: bytes) -> None:
    """On a busy machine, and on the loop that the workers have."""

    async def run() -> int:
        quiet = subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            "git", "--version", stdin=subprocess.PIPE, stdout=quiet
        )
        code = await process.wait()
        assert process.stdin
        await git_module.feed(process.stdin, data)
        return code

    assert uvloop.run(run()) == 0
