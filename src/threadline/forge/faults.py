"""Classifies git's messages on standard error: a refusal lasts, an outage passes.

A line of the other side begins with `remote:`, over SSH with `ERROR:`. Hooks write such lines, so
the lines decide nothing by themselves: a policy that says "timed out" is still a refusal.
"""

import re
from dataclasses import dataclass
from enum import Enum


class FaultKind(Enum):
    DISK = "disk"
    """The machine's own disk or memory is full or unusable."""
    OWNER = "owner"
    """The folder of the repository belongs to another account, and git refuses to read it."""
    PASSING = "passing"
    LASTING = "lasting"


@dataclass(frozen=True)
class GitFault:
    """A classified fault of git. `reason`: a sentence that replaces git's own text; empty where
    git's is best. `advice` follows it.
    """

    kind: FaultKind
    reason: str = ""
    advice: str = ""


_DISK = re.compile(
    r"no space left on device|disk quota exceeded|read-only file system|input/output error|file "
    r"write error"
    r"|could not set '|could not lock config file|could not write config|cannot mkdir|unable to "
    r"write"
    r"|too many open files|cannot allocate memory|out of memory",
    re.IGNORECASE,
)
_THEIRS = re.compile(r"(?:remote:|ERROR:|fatal: remote error:)")
_OWNER = "detected dubious ownership"

_CHECK_RIGHTS = "check that the token or key may do this there"
_HTTP_STATUS = re.compile(
    r"returned error: (\d{3})|HTTP (?:code (?:= )?)?(\d{3})|tunnel failed, response (\d{3})"
)
_PASSING_STATUS = frozenset({408, 409, 425, 429})
_RATE_LIMIT = re.compile(r"rate limit", re.IGNORECASE)

_REJECTED = re.compile(r"^\s*! \[remote rejected\] .*? \((?P<reason>.*)\)\s*$", re.MULTILINE)
_IN_THE_WAY = re.compile(
    r"'refs/heads/(?P<old>[^']+)' exists; cannot create 'refs/heads/(?P<new>[^']+)'"
)
_RACE = re.compile(
    r"is at \w+ but expected|\.lock': file exists|reference already exists|reference is missing"
    r"|unable to resolve reference|incorrect old value",
    re.IGNORECASE,
)
_UPDATE_FAILED = ("failed to update ref", "failed to lock")
"""Reasons of a server for a race as well as for other faults; the lines before identify the
cause.
"""
_SERVER_FAULT = re.compile(
    r"internal (?:server |api )?error|internal api unreachable", re.IGNORECASE
)
_HOST_PROGRAM = re.compile(r"remote: (?:gitlab|gitea|forgejo)\b", re.IGNORECASE)
_HOST_BUSY = re.compile(
    (
        r"internal (?:server )?error|internal api|unavailable|try again|too many|rate "
        r"limit|overloaded"
    ),
    re.IGNORECASE,
)

_REFUSED = re.compile(
    r"permission denied|access denied|permission to \S+ denied|host key verification "
    r"failed|authentication failed"
    r"|could not read (?:username|password)|not authori[sz]ed|repository .* not found"
    r"|does not appear to be a git repository",
    re.IGNORECASE,
)
"""Refusals that often end with "the remote end hung up", which alone would pass for an outage."""
_PASSING = re.compile(
    r"could not resolve host|name resolution|timed out|connection "
    r"(?:refused|reset|closed)|failed to connect"
    r"|remote end hung up|early eof|rpc failed|ssl_(?:error|connect)|tls connection|unexpected "
    r"disconnect"
    r"|network is unreachable|no route to host|unable to create '.*\.lock'|remote failed to "
    r"report status"
    r"|cannot lock ref|stale info|incorrect old value|reference already exists",
    re.IGNORECASE,
)


def read_fault(stderr: str) -> GitFault:
    """Classify a failed command.

    Args:
        stderr: the whole standard error of git.
    """
    lines = stderr.splitlines()
    own = "\n".join(line for line in lines if not _THEIRS.match(line))
    theirs = "\n".join(line for line in lines if _THEIRS.match(line))
    if _DISK.search(own):
        return GitFault(FaultKind.DISK)
    if _OWNER in own:
        return GitFault(FaultKind.OWNER)
    if found := _IN_THE_WAY.search(stderr):
        return GitFault(FaultKind.LASTING, in_the_way(found["new"], found["old"]))
    if rejected := _REJECTED.search(own):
        return _rejection(rejected["reason"], theirs)
    if status := _HTTP_STATUS.search(own):
        return _http_fault(int(next(filter(None, status.groups()))), theirs)
    if _passes(own, theirs):
        return GitFault(FaultKind.PASSING)
    return GitFault(FaultKind.LASTING, advice=_CHECK_RIGHTS if _REFUSED.search(stderr) else "")


def in_the_way(branch: str, existing: str) -> str:
    return (
        f"its branch {existing} is in the way of {branch}, since git keeps both under one name: "
        "rename or delete it"
    )


def _rejection(reason: str, theirs: str) -> GitFault:
    """Classify the reason in `! [remote rejected] … (reason)`, which is git's or the host's."""
    passing = bool(
        (reason.startswith("cannot lock ref") and _RACE.search(reason))
        or (reason in _UPDATE_FAILED and _RACE.search(theirs))
        or _RACE.fullmatch(reason.removesuffix(" provided"))
        or _SERVER_FAULT.fullmatch(reason)
        or any(
            _HOST_PROGRAM.match(line) and _SERVER_FAULT.search(line)
            for line in theirs.splitlines()
        )
    )
    return GitFault(FaultKind.PASSING if passing else FaultKind.LASTING)


def _http_fault(status: int, theirs: str) -> GitFault:
    if (
        status in _PASSING_STATUS
        or status >= 500
        or (status == 403 and _RATE_LIMIT.search(theirs))
    ):
        return GitFault(FaultKind.PASSING)
    if status == 413:
        return GitFault(
            FaultKind.LASTING,
            "its host accepts nothing of this size (HTTP 413): raise the limit there",
        )
    return GitFault(FaultKind.LASTING, advice=_CHECK_RIGHTS if status in (401, 403, 404) else "")


def _passes(own: str, theirs: str) -> bool:
    told = [
        line
        for line in theirs.splitlines()
        if not line.startswith("remote:") or line.startswith("remote: ERROR:")
    ]
    if any(_HOST_BUSY.search(line) for line in told):
        return True
    refused = bool(told) or bool(_REFUSED.search(own))
    return not refused and bool(_PASSING.search(own))
