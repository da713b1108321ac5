"""What is promised of the agent's turns."""

from tests.promises.promise import Area, Promise

TURN = Area(
    "turn",
    "A turn takes effect once",
    "A turn of the agent that is interrupted is run again from where it began, and takes effect once.",
    (
        Promise(
            "turn:claim:overtaken-writes-nothing",
            "An attempt that was overtaken by another one can write nothing more: no outcome, no finding, no line of a "
            "transcript.",
            "a claim: each attempt gets a token of its own and a lease that a timer renews, and every write of the "
            "agent's process goes through a function of the database that checks both (`db/agent_turns.py`, "
            "`db/migrations/versions/0002_agent_side.sql`).",
        ),
        Promise(
            "turn:claim:ended-case",
            "An attempt whose case has ended, or whose turn was settled, can write nothing more, and its outcome is "
            "never acted on.",
            "settling and ending raise the token under the case row's lock (`db/turns.py`, `db/cases.py`).",
        ),
        Promise(
            "turn:claim:lease",
            "An attempt that can no longer renew its lease holds nothing, and its agent is stopped within seconds.",
            "`LiveAgentActivities` in `activities/turns.py`.",
        ),
        Promise(
            "turn:claim:living-attempt",
            "An older attempt that starts late overtakes no living one, and a turn that is done is not run again.",
            "the attempt's number in the claim (`db/agent_turns.py`).",
        ),
        Promise(
            "turn:outcome:answer-lost",
            "What an attempt committed is found when the turn is settled, also when its answer was lost.",
            "an outcome is committed with the claim; settling reads it (`db/turns.py`).",
        ),
        Promise(
            "turn:attempt:same-batch",
            "The next attempt gets the whole batch of the one before, and what has come since.",
            "only a settled turn uses messages (`db/agent_turns.py`).",
        ),
        Promise(
            "turn:attempt:from-the-last-good-point",
            "The next attempt starts from the last settled turn: its session, the code at the case's commit, the "
            "changes that were kept; nothing that a broken attempt said or wrote is there.",
            "a session that is forked for each attempt (`agents/investigator/runner.py`), and a workspace that is laid "
            "out anew (`agents/investigator/workspace.py`).",
        ),
        Promise(
            "turn:attempt:one-at-a-time",
            "Of two attempts that meet at one workspace, the second waits and is told to come again.",
            "a lock on the workspace (`forge/locks.py`).",
        ),
        Promise(
            "turn:transcript:whole-or-nothing",
            "A turn whose transcript could not be stored did not happen: it is run again.",
            "`agents/investigator/results.py`, `db/agent_sessions.py`.",
        ),
        Promise(
            "turn:transcript:any-worker",
            "A session goes on in any worker, from any folder; when it is lost, a new one is begun that is told to "
            "read the whole conversation.",
            "transcripts in Postgres (`db/agent_sessions.py`), held to the SDK's own suite.",
        ),
        Promise(
            "turn:process:no-orphan",
            "A turn that ends, is cancelled or loses its worker leaves no process of the agent behind.",
            "a wrapper around the CLI that dies with its worker and takes the group along "
            "(`agents/investigator/cli_wrapper.py`, `agents/investigator/driver.py`).",
            (
                "*macOS* knows no death signal. There a watchdog ends an agent whose worker was killed; it is tested "
                "on Linux alone.",
            ),
        ),
        Promise(
            "turn:worker:killed",
            "A turn whose worker is killed is run again, and what comes of it is told once.",
            "heartbeats, the claim, and an attempt that the workflow decides on (`workflows/bug_turn.py`).",
        ),
        Promise(
            "turn:retry:interruptions",
            "An interruption by a deploy or a lost worker costs no patience, up to a limit of ten; then people take "
            "over.",
            "`domain/retrying.py`.",
            (
                "An attempt that was interrupted has cost what it has cost. That is counted where the attempt could "
                "still say so; the cost of one whose process was killed is not known.",
            ),
        ),
        Promise(
            "turn:retry:transient",
            "A transient fault backs off from 10 s to 10 min for an hour, or for longer when the other side names a "
            "time; then people take over, and hear why.",
            "`domain/retrying.py`, `workflows/bug_turn.py`.",
        ),
        Promise(
            "turn:retry:permanent",
            "A permanent fault goes to people at once, in words that say what it is.",
            "`Permanent` in `domain/errors.py`, raised where the fault is understood.",
        ),
        Promise(
            "turn:retry:calls-people-once",
            "An agent that cannot work calls people once in a case, and not with every message that follows.",
            "the escalation's number in the case's row (`db/case_row.py`).",
        ),
        Promise(
            "turn:budget:stopped",
            "A turn is stopped for good at its limits of money, steps and time, and a silent agent is broken off.",
            "limits that the CLI is given, and a watch over its pulse (`agents/investigator/runner.py`, "
            "`agents/investigator/watch.py`).",
            (
                "A turn may cross its budget by a quarter before the CLI stops it, so that an answer that is nearly "
                "there is not thrown away.",
            ),
        ),
        Promise(
            "turn:budget:of-the-case",
            "What each attempt has cost is charged to its case, and a case that has used up its budget goes to people.",
            "`db/agent_turns.py`, `activities/turns.py`.",
        ),
        Promise(
            "turn:number:never-again",
            "A reopened case never meets its old numbers: of turns, questions, escalations and closings.",
            "every ordinal that is part of a key is a column of the case's row (`db/tables.py`).",
        ),
        Promise(
            "turn:outcome:checked",
            "An outcome that breaks the rules of its action is given back once and then fails for good; text alone is "
            "no outcome.",
            "`agents/investigator/outcome.py`, `agents/investigator/runner.py`.",
        ),
        Promise(
            "turn:outcome:not-blind",
            "A result of the conversation's tool that arrived with the agent's last word counts as unread.",
            "`agents/investigator/reading.py`.",
        ),
        Promise(
            "turn:batch:chaos",
            "Under chaos, too, each message is shown in one batch, is read by a tool, or is answered by a closing.",
            "claims under the case row's lock; the oracle of `make chaos`.",
            ("With the real CLI that is read from the database alone, and not from what the model was sent.",),
        ),
        Promise(
            "turn:files:with-their-message",
            "A turn that is shown a message has the files that came with it, or is told why it has not.",
            "files are fetched before a turn, and an attempt that meets one which is not is tried again "
            "(`activities/turns.py`).",
            ("A message that the agent reads by its tool in mid-turn: its file is there in the next turn.",),
        ),
        Promise(
            "turn:retried:disk-full",
            "A disk under the workspaces that is full or cannot be written delays a turn, and says what to do.",
            "`Transient`, for the workspace and for git.",
            ("After an hour people take over.",),
        ),
    ),
)
