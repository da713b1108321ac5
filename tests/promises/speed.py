"""What is promised of the work that a message causes."""

from tests.promises.promise import Area, Promise

SPEED = Area(
    "speed",
    "What a message costs",
    "A burst is one turn, a turn takes few activities, and what it costs is measured beside a floor.",
    (
        Promise(
            "speed:burst:one-turn",
            "What is said while the first messages of a burst are being stored is in the same turn.",
            "a turn that starts when the inbox is empty, or after five batches (`workflows/thread_run.py`).",
        ),
        Promise(
            "speed:turn:few-activities",
            "Storing a batch begins its turn, and settling the turn says its findings: no activity does nothing else.",
            "steps in the same commit, and posts with keys, which may be tried again "
            "(`activities/cases.py`, `activities/threads.py`).",
        ),
        Promise(
            "speed:bench:every-row",
            "`make bench` measures every row beside its floor, in the same run.",
            "`bench/`; the figures are in docs/performance.md.",
            ("Figures are of one machine; ratios are what can be compared.",),
        ),
        Promise(
            "speed:thread:flat",
            "What is unused in a conversation is found by an index, however long it is.",
            "an index of unused messages (`db/migrations/versions/0005_unused_messages.py`); the plan is looked at, "
            "and not the time.",
        ),
    ),
)
