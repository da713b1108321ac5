"""Runs git so that neither this machine's settings nor the content of a repository decide what it
executes.
"""

import asyncio
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from threadline.errors import Permanent, Transient
from threadline.forge.faults import FaultKind, read_fault
from threadline.forge.remotes import Remote

LOCAL_SECONDS = 60.0
NETWORK_SECONDS = 600.0
"""Limits of a command without and with network access. A first clone of a big repository takes
minutes; after this limit the remote counts as stuck.
"""

MAX_OUTPUT = 16 * 1024 * 1024
"""Bytes of standard output that are kept; a command that prints more fails."""

_MAX_ERRORS = 65_536
"""Last bytes of standard error that are kept."""

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO")
_PASSED = ("PATH", "SSH_AUTH_SOCK", *_CERTIFICATES, *_PROXIES, *map(str.lower, _PROXIES))
_OWN = {
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
}
_CONFIG = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "protocol.ext.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    # A helper on a silent connection would otherwise outlive its git for as long as the host keeps
    # it open.
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)
# A repository's own attributes could rewrite line ends, hide files from a diff or name a filter;
# these override them, so that an export and a diff hold the exact bytes of the commit.
_ATTRIBUTES = "* -text !eol !ident !filter !working-tree-encoding !diff !merge\n"

_log = structlog.get_logger(__name__)
_NOISE = (
    *("hint:", "To ", "error: failed to push some refs to "),
    *("Please make sure you have the correct access rights", "and the repository exists."),
)
"""Prefixes of lines that repeat what the caller knows, with addresses, or give general advice."""
_USER_INFO = re.compile(r"://[^/@\s]+@")


class OwnedByAnother(Permanent):
    """The folder of a repository belongs to another account, so git refuses to read it."""


class DiskUnusable(Transient):
    """Git cannot write on this machine: its disk is full or unusable."""

    def __init__(self) -> None:
        super().__init__(
            "The disk under the repositories is full or cannot be used: free some space there."
        )


@dataclass(frozen=True)
class Output:
    """Exit code and standard output of a command."""

    code: int
    stdout: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace").strip()


class Git:
    """Git as a child process. From this process's environment it only inherits the path, proxies
    and certificates.
    """

    def __init__(self) -> None:
        self._environment = {
            name: os.environ[name] for name in _PASSED if name in os.environ
        } | _OWN
        self._tie = _tie(self._environment.get("PATH"))

    async def init(self, git_dir: Path) -> None:
        """Create (or keep) a bare repository of Threadline, whose attributes override those of its
        content.
        """
        git_dir.parent.mkdir(parents=True, exist_ok=True)
        await self.run(
            "init", "--bare", "--quiet", "--template=", "--initial-branch=main", git_dir=git_dir
        )
        (git_dir / "info").mkdir(exist_ok=True)
        (git_dir / "info" / "attributes").write_text(_ATTRIBUTES)

    async def run(
        self,
        *arguments: str,
        git_dir: Path,
        work_tree: Path | None = None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        remote: Remote | None = None,
        accept: Collection[int] = (0,),
        failure: str = "",
    ) -> Output:
        """Run one git command on the repository `git_dir`; git never searches for one.

        Args:
            work_tree: the files it works on, which is also its working directory.
            env: further variables, such as `GIT_INDEX_FILE`.
            remote: its credentials are for this command; the limit is `NETWORK_SECONDS` then, else
                `LOCAL_SECONDS`.
            accept: exit codes that are answers and not failures.
            failure: the sentence of a failure, in which git's own text replaces `{reason}`.

        Raises:
            Permanent: git refused, or printed more than `MAX_OUTPUT` bytes.
            Transient: the network or a lock was in the way, or time ran out.
        """
        name = next((word for word in arguments if word.isidentifier() or "-" in word[1:]), "")
        sentence = failure or f"git {name} failed: {{reason}}"
        settings = (part for one in _CONFIG for part in ("-c", one))
        command = [
            *self._tie,
            "git",
            "--no-pager",
            "--literal-pathspecs",
            *settings,
            f"--git-dir={git_dir}",
        ]
        command += [*([f"--work-tree={work_tree}"] if work_tree else []), *arguments]
        environment = self._environment | (remote.environment if remote else {}) | dict(env or {})
        seconds = NETWORK_SECONDS if remote else LOCAL_SECONDS
        try:
            async with asyncio.timeout(seconds):
                code, stdout, stderr = await self._execute(
                    command, stdin, environment, work_tree or git_dir.parent
                )
        except TimeoutError as exc:
            raise Transient(
                sentence.replace("{reason}", f"git did not end within {seconds:.0f} s")
            ) from exc
        except FileNotFoundError as exc:
            raise Permanent(
                sentence.replace("{reason}", f"git could not be started ({exc}); install git")
            ) from exc
        if len(stdout) > MAX_OUTPUT:
            raise Permanent(
                sentence.replace("{reason}", f"git printed more than {MAX_OUTPUT} bytes")
            )
        if code not in accept:
            raise _failure(sentence, stderr, _reason(stderr, remote) or f"exit code {code}")
        return Output(code, stdout)

    async def _execute(
        self, command: list[str], stdin: bytes, environment: Mapping[str, str], cwd: Path
    ) -> tuple[int, bytes, bytes]:
        process = await _spawn(command, environment, cwd)
        assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 - all piped
        try:
            _, stdout, stderr = await asyncio.gather(
                feed(process.stdin, stdin),
                _read(process.stdout, MAX_OUTPUT + 1),
                _read_end(process.stderr),
            )
            return await process.wait(), stdout, stderr
        except BaseException:
            await _kill(process)
            raise


async def _spawn(command: list[str], environment: Mapping[str, str], cwd: Path) -> Process:
    spawning = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )
    )
    try:
        # Shielded: while it connects the pipes, a cancellation would kill git alone.
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        await _kill(await spawning)
        raise


async def _kill(process: Process) -> None:
    """Kill the whole group: `git fetch` delegates the transfer to children that would outlive
    it.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _failure(sentence: str, stderr: bytes, reason: str) -> Permanent | Transient:
    fault = read_fault(stderr.decode("utf-8", "replace"))
    told = "; ".join(filter(None, (fault.reason or reason, fault.advice)))
    message = sentence.replace("{reason}", told)
    match fault.kind:
        case FaultKind.DISK:
            _log.warning("git_disk_unusable", reason=reason)
            return DiskUnusable()
        case FaultKind.OWNER:
            return OwnedByAnother(message)
        case FaultKind.PASSING:
            return Transient(message)
        case FaultKind.LASTING:
            return Permanent(message)


def _tie(path: str | None) -> Sequence[str]:
    """Return the command prefix that ends git with this process, even when this process is killed:
    an orphaned git would write to a mirror for minutes.

    It is util-linux's `setpriv`, since a wrapper in Python would cost each command 15 ms, and code
    between fork and exec may hang in a process with threads. Where it is missing, or the system
    has no death signal, git runs without it.
    """
    found = shutil.which("setpriv", path=path) if sys.platform == "linux" else None
    return (found, "--pdeathsig", "KILL", "--") if found and shutil.which("git", path=path) else ()


async def feed(pipe: asyncio.StreamWriter, data: bytes) -> None:
    """Write the input of a process, and close it; a process that has ended reads nothing. uvloop
    raises `RuntimeError` once the other side closed a pipe, even for an empty write.
    """
    with suppress(BrokenPipeError, ConnectionResetError, RuntimeError):
        pipe.write(data)
        await pipe.drain()
    pipe.close()


async def _read(pipe: asyncio.StreamReader, limit: int) -> bytes:
    """Read to the end, so that the child never blocks, but keep at most `limit` bytes."""
    kept = bytearray()
    while chunk := await pipe.read(65_536):
        kept += chunk[: limit - len(kept)]
    return bytes(kept)


async def _read_end(pipe: asyncio.StreamReader) -> bytes:
    """Read to the end, and keep the last bytes: a host may print pages before git reports the
    refusal.
    """
    kept = b""
    while chunk := await pipe.read(_MAX_ERRORS):
        kept = (kept + chunk)[-_MAX_ERRORS:]
    return kept


def _reason(stderr: bytes, remote: Remote | None) -> str:
    """Return git's own text in one line, without secrets."""
    text = _USER_INFO.sub("://", stderr.decode("utf-8", "replace"))
    if remote and remote.password:
        text = text.replace(remote.password.get_secret_value(), "***")
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_NOISE)
    ]
    return "; ".join(line.removeprefix("fatal: ").removeprefix("error: ") for line in lines[-6:])[
        -800:
    ]
