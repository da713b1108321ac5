"""Becomes the agent's CLI: the launcher runs `python -I -S sandbox_exec.py CLI PARENT PID_FILE
NAMES -- ARGUMENTS`.

It binds the CLI's life to the worker's (left alone, a CLI goes on calling the model and its
tools), removes every variable that is not named from the environment, and writes down its own
process id, which becomes the CLI's. It runs without site-packages and imports only what starts
fast.
"""

import os
import sys
import time

_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


def bind_to_parent(parent: int) -> None:
    """Let the operating system kill this process, later the CLI, when `parent` ends."""
    if sys.platform == "linux":
        import ctypes

        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0) != 0:
            sys.exit(
                f"prctl refused to bind the agent to its worker: {os.strerror(ctypes.get_errno())}"
            )
    else:
        spawn_watchdog(parent)
    if os.getppid() != parent:  # the parent ended before the binding
        sys.exit("The worker that started this agent has ended.")


def spawn_watchdog(parent: int, interval: float = 0.5) -> None:
    """Start a process that checks the parent every `interval` seconds.

    For macOS, which has no death signal. Not tested on macOS.
    """
    ward = os.getpid()
    if os.fork() != 0:
        return
    null = os.open(os.devnull, os.O_RDWR)
    # A watchdog that held the pipes would keep the worker waiting for their end.
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    while os.getppid() == ward:
        try:
            os.kill(parent, 0)
        except ProcessLookupError:
            os.kill(ward, _SIGKILL)
        except PermissionError:
            pass  # it runs, under another user
        time.sleep(interval)
    os._exit(0)


def main(argv: list[str]) -> None:
    cli, parent, pid_file, names = argv[1:5]
    bind_to_parent(int(parent))
    with open(pid_file, "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib costs 10 ms
        file.write(str(os.getpid()))
    kept = {name: os.environ[name] for name in names.split(",") if name in os.environ}
    os.execve(cli, [cli, *argv[6:]], kept)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(sys.argv)
