"""What is promised of waiting and of nobody answering."""

from tests.promises.promise import Area, Promise

SILENCE = Area(
    "silence",
    "Silence has a name",
    "Silence is a result with a name, stored and told; what was escalated to people is never closed by it.",
    (
        Promise(
            "silence:question:unanswered",
            "A question that nobody answers for 2 h leads to a turn that is told so and may not ask again; each is "
            "told in the thread.",
            "absolute deadlines in the case's row, which a continue-as-new keeps (`workflows/bug_investigation.py`, "
            "`db/case_row.py`).",
        ),
        Promise(
            "silence:question:reporter-alone",
            "A question waits for its reporter alone; what developers write meanwhile comes in the next batch.",
            "`workflows/bug_investigation.py`.",
        ),
        Promise(
            "silence:developers:resolved",
            "A case that only waits for developers for 48 h is resolved with the reason `no_reply`, said in both "
            "threads with how to reopen it.",
            "the same deadline, and `BugCase.silence` in `workflows/bug_case.py`.",
        ),
        Promise(
            "silence:fix:looked-up-first",
            "An open fix is looked up at its host, also before silence would resolve its case; a merge resolves it, "
            "with that reason.",
            "`workflows/bug_case.py`, `forge/pull_requests.py`.",
        ),
        Promise(
            "silence:escalation:never-resolved",
            "An escalated case is never resolved by silence, only reminded of.",
            "a wait without a deadline (`workflows/bug_case.py`).",
        ),
        Promise(
            "silence:escalation:clock",
            "Nobody's answer to an escalation is a reminder at half of the target, a breach at all of it, the next "
            "tier at the second breach, and then a reminder once a day; each is told once.",
            "a child workflow with the clock of one escalation (`workflows/sla_tracking.py`, `domain/sla.py`).",
        ),
        Promise(
            "silence:escalation:outlives-the-run",
            "The clock of an escalation outlives the run of its case that started it, and is told of a developer's "
            "word by a run that is about to continue as new.",
            "a child that its parent's end leaves alone (`workflows/sla_tracking.py`), and a run that does not end "
            "while it tells (`workflows/bug_case.py`).",
        ),
        Promise(
            "silence:escalation:acknowledged",
            "A developer's first message acknowledges an escalation, also while a turn runs, and the end of the case "
            "stops its clock.",
            "`workflows/bug_case.py`, `workflows/sla_tracking.py`.",
        ),
        Promise(
            "silence:reopening:anything-said",
            "Any message but thanks or another *never mind* reopens a case, with its number, its conversation and "
            "the agent's memory, and each reopening is told.",
            "`wakes` in `db/intake.py`, decided when the message is stored.",
            (
                "Who is thanked is read by the few phrases of `domain/phrases.py`, in English.",
                "What was said before the close that ended the case and arrives after it is kept, and reopens nothing.",
            ),
        ),
        Promise(
            "silence:reopening:not-thanks",
            "Thanks, emoji and a late *never mind* after the end reopen nothing, and get a reaction.",
            "`domain/phrases.py`, `db/intake.py`.",
        ),
    ),
)
