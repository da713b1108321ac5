"""What is promised of cases and conversations that outlive the code they began under."""

from tests.promises.promise import Area, Promise

REPLAY = Area(
    "replay",
    "A deploy breaks nothing that is under way",
    "A deploy breaks no case and no conversation that is under way: new code decides as the code before it did, or the "
    "tests fail.",
    (
        Promise(
            "replay:history:decided-again",
            "Every recorded history of every path through a case or a conversation is decided again as it was.",
            "recordings of finished runs, replayed in every test run (`tests/replay/`).",
            ("Histories of paths that nobody has recorded. Ask your own server with `threadline replay`.",),
        ),
        Promise(
            "replay:history:control",
            "Code with one command more, or with two in another order, does not replay.",
            "two workflows that diverge on purpose (`tests/replay/diverging.py`).",
        ),
        Promise(
            "replay:commands:announced",
            "The order of commands in the workflows cannot change without its fingerprint being renewed by hand.",
            "a fingerprint of the source (`tests/replay/fingerprints.py`).",
        ),
        Promise(
            "replay:names:kept",
            "Ids of workflows, messages and sessions stay what they are for those that run already.",
            "pure functions of what Slack says (`domain/addressing.py`), whose results a test spells out.",
        ),
        Promise(
            "replay:envelope:tolerant",
            "An envelope with fields that this version does not know, or without some that it knows, is a message.",
            "the parser in `domain/messages.py`.",
        ),
        Promise(
            "replay:database:same-schema",
            "Any number of processes may bring the database to the newest schema at once and again; the way down and "
            "up ends at the same one.",
            "an advisory lock (`db/migrate.py`), and migrations in the package.",
        ),
    ),
)
