"""Becomes another program that cannot outlive its parent: `python -I -S tether.py PARENT ACCOUNT
-- PROGRAM ARGUMENTS`.

ACCOUNT is `uid:gid` to run as, or `-`. It imports only modules that load fast: it runs before
every process of the devstack.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


def main(argv: list[str]) -> None:
    parent = int(argv[1])
    account = argv[2]
    program = argv[4:]
    libc = ctypes.CDLL(None, use_errno=True)
    if account != "-":
        uid, gid = map(int, account.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    # After the change of account, which clears the death signal.
    _die_with_parent(libc)
    if os.getppid() != parent:
        sys.exit("The devstack that started this process has ended.")
    os.execv(program[0], program)  # noqa: S606  no shell is wanted


def _die_with_parent(libc: ctypes.CDLL) -> None:
    """Let the kernel kill this process when its parent dies. Only Linux has a death signal;
    elsewhere a devstack that was killed outright leaves its children running.
    """
    if sys.platform == "linux" and libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0) != 0:
        sys.exit(
            f"prctl refused to bind this process to its parent: {os.strerror(ctypes.get_errno())}"
        )


if __name__ == "__main__":
    main(sys.argv)
