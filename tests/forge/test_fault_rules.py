"""Messages of real gits, hosts and hooks: some faults pass, others last."""

import pytest

from threadline.forge.faults import FaultKind, read_fault

UNABLE = "fatal: unable to access 'https://git.example/acme/shop.git/': "
HUNG_UP = "fatal: the remote end hung up unexpectedly\n"
CUT_OFF = (
    f"send-pack: unexpected disconnect while reading sideband packet\n{HUNG_UP}Everything "
    "up-to-date\n"
)


def rejected(reason: str, remote: str = "") -> str:
    """The output of a push that the server refused."""
    lines = "".join(f"remote: {line}        \n" for line in remote.splitlines())
    return (
        f"{lines}To https://git.example/acme/shop.git\n"
        f" ! [remote rejected] 5f3a91c -> threadline/bug-12 ({reason})\n"
        "error: failed to push some refs to 'https://git.example/acme/shop.git'\n"
    )


def status(code: int) -> str:
    return (
        f"error: RPC failed; HTTP {code} curl 22 The requested URL returned error: "
        f"{code}\n{CUT_OFF}"
    )


LASTING = {
    "push is too large": status(413),
    "push is too large, as old gits report": (
        f"error: RPC failed; result=22, HTTP code = 413\n{HUNG_UP}"
    ),
    "push is forbidden": status(403),
    "push finds nothing": status(404),
    "push is no request that a proxy takes": status(400),
    "media type is refused": status(415),
    "read is forbidden": (
        f"remote: Write access not granted.\n{UNABLE}The requested URL returned error: 403"
    ),
    "proxy refuses the host": f"{UNABLE}CONNECT tunnel failed, response 403",
    "proxy wants a login": f"{UNABLE}Received HTTP code 407 from proxy after CONNECT",
    "login fails": (
        "remote: Invalid username or token.\nfatal: Authentication failed for "
        "'https://git.example/b/'"
    ),
    "no login": (
        "fatal: could not read Username for 'https://git.example': terminal prompts disabled"
    ),
    "repository is not found": (
        "remote: Repository not found.\nfatal: repository 'https://git.example/b/' not found"
    ),
    "hook talks of time": rejected("pre-receive hook declined", "timed out: policy refused"),
    "hook talks of connections": rejected(
        "hook declined", "connection reset by policy\ncould not resolve host"
    ),
    "hook talks of HTTP": rejected("pre-receive hook declined", "returned error: 503"),
    "hook talks of the disk": rejected(
        "pre-receive hook declined", "no space left on device for your team"
    ),
    "hook talks of races": rejected("pre-receive hook declined", "cannot lock ref: stale info"),
    "reason talks of time": rejected("timed out: policy refused"),
    "protected branch": rejected(
        "protected branch hook declined", "error: GH006: Protected branch update failed."
    ),
    "repository rules": rejected(
        "push declined due to repository rule violations", "error: GH013: violations found"
    ),
    "workflow scope": rejected(
        "refusing to allow an OAuth App to create or update workflow without `workflow` scope"
    ),
    "email privacy": rejected("push declined due to email privacy restrictions"),
    "large file": rejected("pre-receive hook declined", "error: GH001: Large files detected."),
    "secret scanning": rejected(
        "push declined due to repository rule violations", "Push cannot contain secrets"
    ),
    "not allowed at GitLab": rejected(
        "pre-receive hook declined", "GitLab: You are not allowed to push code."
    ),
    "prohibited by Gerrit": rejected("prohibited by Gerrit: not permitted: create"),
    "policy of Azure": rejected("TF402455: Pushes to this branch are not permitted"),
    "checked-out branch": rejected(
        "branch is currently checked out", "error: refusing to update checked out branch"
    ),
    "shallow update": rejected("shallow update not allowed"),
    "unpacking": "remote: fatal: pack exceeds maximum allowed size\n"
    "error: remote unpack failed: unpack-objects abnormal exit\n" + rejected("unpacker error"),
    "disk of the server": "remote: fatal: write error: No space left on device\n"
    "error: remote unpack failed: unpack-objects abnormal exit\n" + rejected("unpacker error"),
    "a branch is in the way": rejected(
        "failed to update ref",
        "error: cannot lock ref 'refs/heads/threadline/bug-12': 'refs/heads/threadline' exists; "
        "cannot create 'refs/heads/threadline/bug-12'",
    ),
    "a branch is in the way, named in the reason": rejected(
        "cannot lock ref 'refs/heads/threadline/bug-12': 'refs/heads/threadline' exists; "
        "cannot create 'refs/heads/threadline/bug-12'"
    ),
    "ref cannot be written": rejected(
        "failed to update ref",
        "error: cannot lock ref 'refs/heads/x': Unable to create '/x.lock': Permission denied",
    ),
    "key is refused": f"git@git.example: Permission denied (publickey).\r\n{HUNG_UP}",
    "key is read only": (
        f"ERROR: The key you are authenticating with has been marked as read only.\n{HUNG_UP}"
    ),
    "permission over SSH": (
        "ERROR: Permission to acme/shop.git denied to bob.\nfatal: Could not read from remote."
    ),
    "host key": f"Host key verification failed.\n{HUNG_UP}",
    "policy of a server over SSH": f"ERROR: timed out: policy refused\n{HUNG_UP}",
    "not allowed over SSH": (
        f"remote: ERROR: You are not allowed to push code to this project.\n{HUNG_UP}"
    ),
    "no repository": "fatal: '/srv/git/shop.git' does not appear to be a git repository\n"
    + HUNG_UP,
    "git protocol refuses": (
        "fatal: remote error: access denied or repository not exported: /shop.git"
    ),
    "no branch": "fatal: couldn't find remote ref HEAD",
}
PASSING = {
    "push meets a gateway that fails": status(502),
    "push is one of too many": status(429),
    "host takes too long": status(408),
    "host fails": f"{UNABLE}The requested URL returned error: 500",
    "rate limit": (
        f"remote: You have exceeded a secondary rate limit.\n{UNABLE}The requested URL returned "
        "error: 403"
    ),
    "stream breaks": (
        "error: RPC failed; curl 92 HTTP/2 stream 0 was not closed cleanly: CANCEL (err "
        f"8)\n{CUT_OFF}"
    ),
    "transfer breaks": (
        "error: RPC failed; curl 18 transfer closed with outstanding read data remaining\n"
        "error: 2311 bytes of body are still expected\n"
        "fetch-pack: unexpected disconnect while reading sideband packet\n"
        "fatal: early EOF\nfatal: fetch-pack: invalid index-pack output"
    ),
    "name": f"{UNABLE}Could not resolve host: git.example",
    "time": (
        f"{UNABLE}Failed to connect to git.example port 443 after 21043 ms: Connection timed out"
    ),
    "TLS": f"{UNABLE}gnutls_handshake() failed: The TLS connection was non-properly terminated.",
    "SSH": (
        "ssh: connect to host git.example port 22: Connection refused\nfatal: Could not read "
        "from remote."
    ),
    "SSH ends": (
        "kex_exchange_identification: Connection closed by remote host\r\nfatal: Could not read "
        "from remote."
    ),
    "proxy fails": f"{UNABLE}CONNECT tunnel failed, response 503",
    "a hook warns, and the network fails": f"remote: policy: ok\n{CUT_OFF}",
    "branch moved": " ! [rejected]        5f3a91c -> threadline/bug-12 (stale info)\n",
    "branch moved meanwhile": rejected(
        "cannot lock ref 'refs/heads/x': is at 5f3a91c but expected 77be0d1"
    ),
    "branch appeared meanwhile": rejected("reference already exists"),
    "branch moved, as GitHub's servers report": rejected("incorrect old value provided"),
    "branch is locked": rejected(
        "failed to update ref",
        "error: cannot lock ref 'refs/heads/x': Unable to create '/x.lock': File exists.",
    ),
    "server fails": rejected("Internal Server Error"),
    "server of GitLab fails": rejected(
        "pre-receive hook declined", "GitLab: Internal API unreachable"
    ),
    "server of Gitea fails": rejected(
        "pre-receive hook declined", "\nGitea: Internal Server Error"
    ),
    "server of GitLab fails over SSH": f"ERROR: Internal API unreachable\n{HUNG_UP}",
    "no report": (
        " ! [remote failure] 5f3a91c -> threadline/bug-12 (remote failed to report status)\n"
    ),
    "our own lock": "fatal: Unable to create '/m/shop.git/packed-refs.lock': File exists.",
}
DISK = [
    "fatal: write error: No space left on device\nfatal: fetch-pack: invalid index-pack output"
]


@pytest.mark.parametrize("stderr", LASTING.values(), ids=LASTING)
def test_refusal_lasts(stderr: str) -> None:
    assert read_fault(stderr).kind is FaultKind.LASTING


@pytest.mark.parametrize("stderr", PASSING.values(), ids=PASSING)
def test_outage_and_race_pass(stderr: str) -> None:
    assert read_fault(stderr).kind is FaultKind.PASSING


@pytest.mark.parametrize("stderr", DISK)
def test_fault_of_our_own_disk_is_recognised(stderr: str) -> None:
    assert read_fault(stderr).kind is FaultKind.DISK


def test_branch_in_the_way_is_named() -> None:
    fault = read_fault(LASTING["a branch is in the way"])
    assert "branch threadline is in the way of threadline/bug-12" in fault.reason


def test_rights_are_the_advice_where_they_lack() -> None:
    advised = {
        name for name, stderr in LASTING.items() if "token or key" in read_fault(stderr).advice
    }
    assert {"push is forbidden", "push finds nothing", "login fails", "key is refused"} <= advised
    assert not advised & {"hook talks of time", "protected branch", "push is too large"}
