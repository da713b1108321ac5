"""A git host on this machine: bare repositories over smart HTTP, served by git's own server.

It refuses pushes as real hosts do, on request: with an HTTP status, by a hook, or with the host's
own reason. Sources: https://git-scm.com/docs/git-http-backend,
https://git-scm.com/docs/githooks#proc-receive and https://git-scm.com/docs/gitprotocol-pack.
"""

import asyncio
import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from threadline.errors import Permanent
from threadline_devstack.processes import HOST
from threadline_devstack.server import bound, guarded, serving

_HOOK = "pre-receive"
_REASON_HOOK = "proc-receive"
_REFUSED_REFS = "receive.procReceiveRefs"
_ANSWERS_FOR_HOST = '''#!{python}
"""Answers for a host that refuses each ref with a reason of its own."""
import sys

REASON = {reason!r}


def read():
    size = int(sys.stdin.buffer.read(4) or b"0", 16)
    return sys.stdin.buffer.read(size - 4).decode() if size > 4 else ""


def write(line):
    sys.stdout.buffer.write(b"%04x" % (len(line) + 4) + line.encode())


while read():
    pass
write("version=1\\n")
sys.stdout.buffer.write(b"0000")
sys.stdout.buffer.flush()
refs = []
while command := read():
    refs.append(command.split()[2])
for ref in refs:
    write(f"ng {{ref}} {{REASON}}\\n")
sys.stdout.buffer.write(b"0000")
sys.stdout.buffer.flush()
'''
"""Git shows the pusher `! [remote rejected] … (REASON)`."""


@dataclass(frozen=True)
class PushRefusal:
    """The way in which a host refuses pushes: one of the three.

    Args:
        status: of HTTP, for the request that brings the commits.
        says: the lines that a hook writes before it declines.
        reason: shown for each ref in place of git's own.
    """

    status: int = 0
    says: str = ""
    reason: str = ""


def refuse_pushes(repository: Path, refusal: PushRefusal) -> None:
    """Make a bare repository refuse pushes by a hook or with a reason, over any transport."""
    allow_pushes(repository)
    if refusal.says:
        _add_hook(
            repository,
            _HOOK,
            f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(refusal.says)} >&2\nexit 1\n",
        )
    if refusal.reason:
        _add_hook(
            repository,
            _REASON_HOOK,
            _ANSWERS_FOR_HOST.format(python=sys.executable, reason=refusal.reason),
        )
        _git(repository, "config", _REFUSED_REFS, "refs/heads")


def allow_pushes(repository: Path) -> None:
    """Accept pushes again."""
    for name in (_HOOK, _REASON_HOOK):
        (repository / "hooks" / name).unlink(missing_ok=True)
    _git(repository, "config", "--unset-all", _REFUSED_REFS)


def _add_hook(repository: Path, name: str, script: str) -> None:
    hook = repository / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(script, encoding="utf-8")
    hook.chmod(0o755)


def _git(repository: Path, *arguments: str) -> None:
    """Change the repository's settings; a setting to remove may be missing."""
    subprocess.run(
        ["git", f"--git-dir={repository}", *arguments], check=False, capture_output=True
    )


class GitHost:
    """Serves the bare repositories of a folder at `<url>/<path>`. `status`: the HTTP status for
    each push; 0 for git's own answer.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.status = 0
        self._folder = folder

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, folder: Path, port: int = 0) -> AsyncIterator[Self]:
        """Serve on 127.0.0.1 until the block ends; 0 takes a free port."""
        with bound(port) as listener:
            host = cls(f"http://{HOST}:{listener.getsockname()[1]}", folder)
            route = Route("/{path:path}", host.serve, methods=["GET", "POST"])
            async with serving(guarded([route]), listener):
                yield host

    def refuse_pushes(self, path: str, refusal: PushRefusal) -> None:
        """Refuse pushes to the repository at this path of the folder."""
        self.status = refusal.status
        refuse_pushes(self._folder / path, refusal)

    async def serve(self, request: Request) -> Response:
        """Hand a request to git's own server, which is a CGI program."""
        path = request.path_params["path"]
        if self.status and request.method == "POST" and path.endswith("/git-receive-pack"):
            return Response(status_code=self.status)
        body = await request.body()
        process = await asyncio.create_subprocess_exec(
            *("git", "http-backend"),
            env={
                "PATH": os.environ.get("PATH", ""),
                "GIT_PROJECT_ROOT": str(self._folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_NOSYSTEM": "1",
                "REMOTE_USER": "developer",
                "REQUEST_METHOD": request.method,
                "PATH_INFO": f"/{path}",
                "QUERY_STRING": request.url.query,
                "CONTENT_TYPE": request.headers.get("content-type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
                "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
            },
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        answer, _ = await process.communicate(body)
        return _response(answer)


def _response(answer: bytes) -> Response:
    """Return the answer of a CGI program as a response: headers, among them perhaps the status,
    and the body.
    """
    head, _, content = answer.partition(b"\r\n\r\n")
    if not head:
        raise Permanent("git http-backend did not answer: install git with its HTTP server.")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    status = int(headers.pop("Status", "200").split()[0])
    return Response(content, status, headers)
