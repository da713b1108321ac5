"""Every promise, area by area, in the order of docs/guarantees.md."""

from tests.chaos import results
from tests.promises import document
from tests.promises.agent import AGENT
from tests.promises.case import CASE
from tests.promises.catch_up import CATCH_UP, SWEEP
from tests.promises.decision import DECISION
from tests.promises.deploy import DEPLOY
from tests.promises.devstack import DEVSTACK
from tests.promises.fix import FIX
from tests.promises.guard import GUARD
from tests.promises.handover import HANDOVER
from tests.promises.holders import holders
from tests.promises.intake import INTAKE
from tests.promises.job import JOB
from tests.promises.limits import LIMITS
from tests.promises.memory import MEMORY
from tests.promises.operation import OPERATION
from tests.promises.operator import OPERATOR
from tests.promises.order import ORDER
from tests.promises.post import POST
from tests.promises.privacy import PRIVACY
from tests.promises.privilege import PRIVILEGE
from tests.promises.promise import Promise
from tests.promises.record import RECORD
from tests.promises.replay import REPLAY
from tests.promises.sales import SALES
from tests.promises.silence import SILENCE
from tests.promises.speed import SPEED
from tests.promises.talk import TALK
from tests.promises.tool import TOOL
from tests.promises.turn import TURN

AREAS = (
    INTAKE,
    CATCH_UP,
    SWEEP,
    LIMITS,
    ORDER,
    TURN,
    POST,
    FIX,
    AGENT,
    PRIVILEGE,
    PRIVACY,
    SILENCE,
    CASE,
    TALK,
    OPERATOR,
    DECISION,
    HANDOVER,
    MEMORY,
    GUARD,
    TOOL,
    RECORD,
    SALES,
    JOB,
    SPEED,
    REPLAY,
    DEPLOY,
    OPERATION,
    DEVSTACK,
)

PROMISES: dict[str, Promise] = {promise.name: promise for area in AREAS for promise in area.promises}

PREFACE = """
# What is guaranteed

Each promise has a name, one sentence that a test can refute, what it rests on, where it ends, and the tests that hold
the product to it. Paths are relative to `src/threadline/` or to the repository.

This page is written by `make guarantees` from `tests/promises/`, and a test fails when it is out of date, when a
promise has no test, or when a test names no promise: change the promise there, and not here.

More about some of it: [chaos, by the figures](#chaos-by-the-figures), [what it costs](performance.md), [which secrets
are recognised](privacy.md), [encryption](encryption.md), [how a deploy goes](deploying.md), [conversations, and input
that nobody hopes for](conversations.md), [the tools](tools.md).
"""

APPENDIX = """
## Not examined

Restoring Postgres from a backup while Temporal goes on, or the other way round; several workspaces of Slack in one
installation; more than one summaries channel; a busy server for days.
"""


def page() -> str:
    """docs/guarantees.md, the figures of the chaos included."""
    return document.render(PREFACE, AREAS, f"{results.section(results.read())}\n{APPENDIX.lstrip()}", holders())
