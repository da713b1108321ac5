"""What is promised of the order in which messages count."""

from tests.promises.promise import Area, Promise

ORDER = Area(
    "order",
    "Every message counts, in the order in which it was written",
    "Messages take effect in the order in which they were written, in whatever order they arrive.",
    (
        Promise(
            "order:conversation:as-written",
            "The agent and people are shown a conversation in the order in which it was written, each message once "
            "over all pages.",
            "Slack's timestamps, which order what is shown and what takes effect, whatever the order of arrival "
            "(`db/conversation.py`, `db/pages.py`).",
        ),
        Promise(
            "order:edit:newest-wins",
            "Of a message and its edits, in any order of arrival, the newest edit is what reads now.",
            "versions that Slack gives, compared under the case row's lock (`db/intake.py`).",
        ),
        Promise(
            "order:edit:wakes-nobody",
            "An edit or a deletion starts no turn; only to a question that waits is the reporter's edit an answer.",
            "the marks of `db/case_row.py`.",
        ),
        Promise(
            "order:edit:opens-nothing",
            "A correction of an old message, which no case knows, opens no case.",
            "`workflows/bug_investigation.py` and `db/intake.py`.",
        ),
        Promise(
            "order:deletion:wins",
            "A deletion beats its original in any order of arrival, and takes the message's text, its files and the "
            "title that was made of it along.",
            "a tombstone that is applied to whatever comes later, too (`db/intake.py`).",
            (
                "*What it cannot reach.* What a deleted message said is removed from the conversation, its files with "
                "it. It stays in the agent's transcript when a turn had read it, in what was posted since, and in the "
                "workflow's history until Temporal removes that.",
                "*A file that is deleted without its message.* The stored copy of it stays.",
                "*Deletions that Slack does not explain.* When it tells of a deleted reply without saying in which "
                "thread it was, the stored text stays.",
            ),
        ),
        Promise(
            "order:batch:all-that-is-unused",
            "Whatever no settled turn has used is the next turn's batch, and each message is used by one turn.",
            "each message knows the turn that used it, and a claim reads the batch under the case row's lock "
            "(`db/migrations/versions/0002_agent_side.sql`).",
        ),
        Promise(
            "order:batch:while-a-turn-runs",
            "What comes while a turn runs is stored at once, can be read by the agent's tool, and is the next turn's "
            "unless the agent has read it.",
            "a main coroutine that stores beside the step that runs (`workflows/thread_run.py`).",
        ),
        Promise(
            "order:batch:read-by-tool",
            "What the agent has read of the reporter by its tool counts as used by its turn; a developer's wish, which "
            "may permit a change, comes again in the next batch.",
            "`read` in the outcome of a turn (`agents/investigator/reading.py`, `db/turns.py`).",
        ),
        Promise(
            "order:marks:newest-counts",
            "Results that reach the workflow in another order than their commits bring no older state back.",
            "a revision of the case's row that every write raises; the workflow keeps the newest (`db/case_row.py`, "
            "`workflows/bug_case.py`).",
        ),
        Promise(
            "order:end:over-no-message",
            "A case does not end over a message that speaks against it, however close the two meet.",
            "ending under the case row's lock, which looks at what is unused (`db/cases.py`).",
        ),
        Promise(
            "order:close:what-was-said-before",
            "*Never mind* closes what was said before it and nothing that was said after, wherever it arrives.",
            "a close is a message in its place among the others (`db/case_row.py`, `db/cases.py`).",
            (
                "Who is thanked and what closes is read by the few phrases of `domain/phrases.py`, in English. "
                "Anything else goes to the agent.",
            ),
        ),
        Promise(
            "order:close:reporter-alone",
            "*Never mind* closes a case when it is the reporter's whole message, and no developer's does.",
            "`domain/phrases.py`, and the sender in `db/case_row.py`.",
        ),
        Promise(
            "order:close:at-once",
            "A close stops the running turn, drops what it finds, and waits for neither the agent nor a code host.",
            "an end takes the turn's claim away in its own transaction; only then is the turn cancelled, and not "
            "waited for (`db/cases.py`, `workflows/bug_case.py`).",
        ),
        Promise(
            "order:close:taken-back",
            "A close that is taken back before the case is closed swallows nothing: what the turn had asked for is "
            "still said, and who was to be called is called.",
            "a turn's act is owed until it is done (`workflows/bug_case.py`).",
        ),
        Promise(
            "order:question:nobody-asked-twice",
            "A question is not posted when the reporter wrote while it was made up; the next turn reads that first.",
            "a look at the inbox and the marks before it is posted (`workflows/bug_case.py`).",
        ),
        Promise(
            "order:close:overtaken",
            "A close that arrives after a turn has taken up what was said later, and took it back, closes nothing.",
            "what the turns of the case have used, compared by `slack_ts` under the case row's lock.",
        ),
    ),
)
