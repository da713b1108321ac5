"""What is promised of a deploy: what is asked before it, and what happens to a case that runs through it."""

from tests.promises.promise import Area, Promise

DEPLOY = Area(
    "deploy",
    "A deploy is tried before it is made",
    "Before a deploy one command replays every open workflow, and says where and why one would go another way.",
    (
        Promise(
            "deploy:replay:open-workflows",
            "`threadline replay` passes for the code that runs, and fails for code that would decide differently, "
            "with the workflow, the event and the likely cause.",
            "histories of all open workflows, replayed by the new code (`bootstrap/replaying.py`).",
            ("What happens between that command and the deploy is not replayed.",),
        ),
        Promise(
            "deploy:cause:step",
            "A changed step is told with the recorded event where the ways part, and with what the code did instead.",
            "replaying shorter and shorter parts of the history (`bootstrap/divergence.py`).",
        ),
        Promise(
            "deploy:cause:type",
            "A workflow that the code no longer has is told.",
            "`bootstrap/divergence.py`.",
        ),
        Promise(
            "deploy:cause:unreadable",
            "Recorded payloads that cannot be read, for want of a key or since their fields have changed, are told.",
            "each payload that the failing task was given is decoded again (`bootstrap/divergence.py`).",
        ),
        Promise(
            "deploy:cause:error",
            "Code that raises where the recorded code did not is told with its error.",
            "`bootstrap/divergence.py`.",
        ),
        Promise(
            "deploy:gate:older-history",
            "Older histories replay under a change that stands behind a gate, and not under the same change without.",
            "`workflows/patches.py`, over Temporal's patches.",
        ),
        Promise(
            "deploy:gate:running-case",
            "A case under way goes on under newer code whose change is gated; without the gate it stands still, in "
            "sight, and loses nothing until the gate is there.",
            "the same, on a running server; a bug in workflow code fails the task and never the run.",
        ),
        Promise(
            "deploy:versioning:handover",
            "With worker versioning a new build gets the open cases when it is made the current one, and the old one "
            "drains.",
            "`THREADLINE_DEPLOYMENT` and `THREADLINE_BUILD_ID`, and workflows that move on to the current build with "
            "their next task (`bootstrap/workers.py`).",
            ("The agents' worker has no version: it runs no workflow.",),
        ),
        Promise(
            "deploy:queues:unserved",
            "Doctor says which queue nobody serves, also when the server still lists a worker that has gone, and which "
            "build gets nothing to do.",
            "`bootstrap/queues.py`.",
            ("A worker that was killed is noticed after a minute and a half.",),
        ),
        Promise(
            "deploy:queues:forgotten",
            "Doctor names open workflows that wait on a queue which is none of ours.",
            "a query to Temporal's visibility store (`bootstrap/queues.py`).",
        ),
    ),
)
