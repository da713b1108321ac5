"""What is promised of a case's life."""

from tests.promises.promise import Area, Promise

CASE = Area(
    "case",
    "A case is always somewhere, and says where",
    "A case takes only steps that are foreseen; each is recorded with its reason, and shown where people look.",
    (
        Promise(
            "case:status:foreseen-steps",
            "A case takes exactly the steps that the table of the domain has, whoever writes to the database.",
            "`TRANSITIONS` in `domain/bug.py`, and a trigger in `db/migrations/versions/0001_memory.sql`.",
        ),
        Promise(
            "case:status:recorded",
            "Every step is recorded once, with its reason and who took it; a step that is not recorded cannot be "
            "committed.",
            "a deferred constraint (`db/migrations/versions/0001_memory.sql`, `db/case_row.py`).",
        ),
        Promise(
            "case:ui:says-what-is-waited-for",
            "Temporal's UI shows a case's state, severity and title, what it waits for and until when, and why its "
            "agent does not get on.",
            "one place that says where the workflow is (`workflows/bug_investigation.py`).",
        ),
        Promise(
            "case:ui:after-continue-as-new",
            "What Temporal's UI shows of a case is there again in its next run.",
            "a memo that is handed on, and details, memo and search attributes that each run sets "
            "(`workflows/bug_investigation.py`).",
        ),
        Promise(
            "case:operator:resolves",
            "`threadline cases resolve` ends a case whatever waits in it, with the reason and the name of who did it.",
            "a close whose sender is an operator (`bootstrap/desk.py`, `db/cases.py`).",
        ),
        Promise(
            "case:end:told",
            "A case that ends tells its reporter how, and its workspace is removed.",
            "`BugCase.end` in `workflows/bug_case.py`.",
        ),
        Promise(
            "case:story:from-report-to-end",
            "A vague report is asked about, its answer leads to findings, a developer's word to a fix, and a last word "
            "to the end, each said in the right thread.",
            "all of the product on its real parts.",
            ("The model's words are scripted, and Slack is a stand-in that speaks its protocols.",),
        ),
        Promise(
            "case:ends:chaos",
            "Under chaos, too, every case ends, and leaves no claim, no process and no workspace behind.",
            "one supervised step at a time, leases, children that end with their parent; the oracle of `make chaos`.",
            ("A case that is with people waits for them.",),
        ),
        Promise(
            "case:cancel:twice",
            "A second Cancel, of the run that continues a cancelled one, closes the case as the first would have.",
            "a flag that each run has for itself (`workflows/bug_investigation.py`).",
        ),
    ),
)
