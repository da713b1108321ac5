"""What is promised of the records that tools read and change."""

from tests.promises.promise import Area, Promise

_TRIED = ("Run against a stand-in that was written from the service's public API pages, and not against the service.",)

RECORD = Area(
    "record",
    "Records are exact",
    "Records are exact, changed all or not at all, and shown to those who may see them.",
    (
        Promise(
            "record:appointments:no-double-booking",
            "Of any number that race for one time, one gets it, by booking or by moving; the others hear what is free.",
            "an exclusion constraint (`db/migrations/versions/0007_tools.sql`, `db/appointments.py`).",
        ),
        Promise(
            "record:appointments:clocks",
            "A time is by the clocks of its place unless it says its own, on the days when clocks change, too; one "
            "that clocks leave out is refused.",
            "`domain/appointments.py`, `db/appointments.py`.",
        ),
        Promise(
            "record:estimates:exact",
            "Totals are exact decimals to the last cent, each figure rounded once.",
            "`domain/estimates.py`, `numeric` in Postgres.",
        ),
        Promise(
            "record:change:whole",
            "A change is made whole or not at all, once for each call, by however many workers it is tried at once; "
            "what does not fit is named, and nothing is changed.",
            "one transaction with the operation's row (`db/operations.py`).",
        ),
        Promise(
            "record:binding:first-stands",
            "A thread is about the first project that it opens until somebody names another, and stays so for what "
            "is said later.",
            "`db/bindings.py`.",
        ),
        Promise(
            "record:rfp:one-for-each-file",
            "The same file gives the same RFP, by however many people and tries; where somebody names one that is not "
            "there, the nearest ids are told, and nothing is bound.",
            "a unique index (`db/migrations/versions/0010_records.sql`, `db/rfps.py`, `db/bindings.py`).",
            ("A file of a deleted RFP makes another.",),
        ),
        Promise(
            "record:upload:read-apart",
            "A document is read by a process that holds no secret and gets little time and memory; whatever it does "
            "there ends with a sentence that says what to upload instead.",
            "a child with limits of its own, and a look at archives before they are unpacked (`tools/documents/`).",
            (
                "The child is not kept from the network.",
                "macOS does not hold it to its memory.",
                "A scan has no text: it is refused, not recognised.",
            ),
        ),
        Promise(
            "record:upload:of-the-channel",
            "Only a file that is shared where it is asked for is loaded; of another, not even its name is told.",
            "what Slack says of the file, before it is loaded (`slack/files.py`, `activities/rfp_files.py`).",
        ),
        Promise(
            "record:upload:bounded",
            "A file that announces more than 20 MiB is not loaded, and one that brings more is left at the limit.",
            "`slack/files.py`.",
        ),
        Promise(
            "record:upload:whole",
            "An uploaded file becomes an RFP with its state and its event, or nothing: a worker may die anywhere.",
            "one transaction behind all that is loaded and read (`activities/rfp_files.py`).",
        ),
        Promise(
            "record:state:nothing-overwritten",
            "A patch of an opportunity's state is applied to the version that it was made from or to none, whole or "
            "not at all; what it changes of the RFP is in the lists at once.",
            "the version under the row's lock (`db/opportunities.py`), JSON merge patch (`domain/json_documents.py`); "
            "the tool tries a lost race again (`activities/record_books.py`).",
        ),
        Promise(
            "record:rfp:deleted-is-gone",
            "A deleted RFP is not there for any tool, and the answer says that it was deleted; its file's text, its "
            "state and what is remembered of turns about it are gone. A change that was made before is still told to "
            "the call that made it.",
            "`db/rfp_row.py`, `db/rfp_traces.py`, `activities/record_books.py`.",
            ("Its journal and its events stay, and what else does for a while: docs/privacy.md says which.",),
        ),
        Promise(
            "record:file:whole",
            "A file of records is kept whole or not at all, with its first fault named; loaded again it makes nothing "
            "twice, and an RFP stays as threads have made it.",
            "one transaction (`bootstrap/records.py`).",
        ),
        Promise(
            "record:journal:only-grows",
            "Nobody changes or deletes an entry of the journal or an event, the owner of the tables neither; each is "
            "written once for its call and says in which turn.",
            "triggers (`db/migrations/versions/0010_records.sql`), `db/journal.py`, `db/events.py`.",
            ("Who owns the tables may drop them, or the triggers.",),
        ),
        Promise(
            "record:action:decided-once",
            "Of any number of clicks the first decides, by somebody who was an approver then and is one now, for the "
            "action that the button was made for; nobody who asked in its turn decides what is of high risk.",
            "one conditional update, and a trigger (`db/proposed_actions.py`, `domain/proposed_actions.py`).",
        ),
        Promise(
            "record:action:waited-for",
            "A click that Slack was told is taken is looked at, also where no worker ran, and counts by the time at "
            "which it was made; one that Temporal does not take is not acknowledged.",
            "one signal-with-start to the action's own workflow (`gateway/clicks.py`, `workflows/approval.py`).",
            ("Slack does not deliver a click again that was not acknowledged: whoever clicked is shown that.",),
        ),
        Promise(
            "record:action:shown-and-told",
            "All that is proposed is shown beside its buttons, but for secrets, and what has no room is refused; the "
            "message says who has decided in their place; whoever clicks otherwise is told what became of that, alone.",
            "`activities/approval.py`, `slack/approvals.py`.",
            ("A message that somebody deleted says nothing any more; what came of an approval is said all the same.",),
        ),
        Promise(
            "record:action:made-once",
            "What was approved is made once, through all policies, and its outcome is said once; where nobody knows "
            "whether it took effect, that is said, and it is not made again.",
            "the operation's key is the action's (`activities/approval_posts.py`, `tools/ledger.py`).",
        ),
        Promise(
            "record:action:by-its-risk",
            "Of low risk it is done at once; of any other it is not done before an approver says so, and where there "
            "is none it is refused. The model may raise a risk, and not lower it.",
            "`domain/risks.py`, `tools/builtin/proposals.py`.",
        ),
        Promise(
            "record:team:its-own",
            "Records of another team are not there.",
            "the team in every question (`db/estimates.py`, `db/appointments.py`, `db/knowledge.py`, `db/rfps.py`, "
            "`db/opportunities.py`, `db/journal.py`, `db/memories.py`, `db/team.py`, `db/agent_jobs.py`).",
        ),
        Promise(
            "record:cases:for-their-readers",
            "Outside the developers' channels a case is told in the words that were meant for its reporter, and "
            "nothing internal of it.",
            "`activities/case_cards.py`, `domain/audience.py`.",
            ("What ends `privacy:audience:internal-kept-back` ends this.",),
        ),
        Promise(
            "record:knowledge:with-its-source",
            "A question finds passages of the team's documents and where they are from, or hears that nothing is "
            "known.",
            "full-text search (`db/passage_search.py`, `knowledge/retrieval.py`).",
            ("By meaning only where THREADLINE_EMBEDDINGS names a model.",),
        ),
        Promise(
            "record:jira:once",
            "A ticket, a comment or a step whose answer was lost is looked for in Jira, and made once.",
            "a mark in what is made, and of a step the ticket's status (`tools/builtin/jira.py`, `tracker/`).",
            (*_TRIED, "A ticket that is elsewhere after an interrupted step may have been put back: people are told."),
        ),
        Promise(
            "record:builds:once",
            "A build is started once more only once for each attempt, by however many people and tries.",
            "the number of the run's attempt (`tools/builtin/ci.py`, `forge/`).",
            _TRIED,
        ),
        Promise(
            "record:services:no-insides",
            "Whatever Jira or GitHub answers, or fails to, no error names a place, a key or a program's words.",
            "`tracker/`, `forge/`, which pick a side for each fault.",
            _TRIED,
        ),
    ),
)
