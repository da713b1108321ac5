"""What is promised of the two commands that need no account."""

from tests.promises.promise import Area, Promise

DEVSTACK = Area(
    "devstack",
    "The devstack",
    "`make demo` and `make up` run on real parts, say which are not, and leave nothing running.",
    (
        Promise(
            "devstack:demo:sees-and-leaves-nothing",
            "The demo tells only what it has seen to happen, says that the model's words are scripted, and leaves "
            "neither a process nor a file; one that cannot be played says why.",
            "`devstack/proof.py`, `devstack/story.py`.",
        ),
        Promise(
            "devstack:process:none-survives",
            "No child survives the stack: not its end, not a start that fails, not Ctrl-C, not SIGKILL.",
            "`devstack/processes.py`, `devstack/tether.py`.",
            ("*macOS*: tested on Linux alone.",),
        ),
        Promise(
            "devstack:environment:chosen",
            "A child sees the environment that was chosen for it, and the agents' process none of the others' secrets.",
            "`devstack/environment.py`, `devstack/processes.py`.",
        ),
        Promise(
            "devstack:home:one-at-a-time",
            "A second stack in the same home is told who is there, and the settings of a stack are readable by their "
            "owner alone, while it runs.",
            "`devstack/home.py`.",
        ),
        Promise(
            "devstack:data:kept",
            "Postgres and Temporal keep their data over a restart, and half a cluster is not taken for a whole one "
            "and does not stay.",
            "`devstack/postgres.py`, `devstack/temporal.py`.",
        ),
    ),
)
