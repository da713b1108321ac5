"""What is promised of messages that were not delivered, and of cases that have stopped."""

from tests.promises.promise import Area, Promise

_KEYS = "message ids from (team, channel, ts) and the unique key in the database"

CATCH_UP = Area(
    "catch-up",
    "What Slack gave up delivering is found",
    "A message that Slack gave up delivering is found in its history, and handled once.",
    (
        Promise(
            "catch-up:outage:fifty",
            "What is written while no gateway listens is found when one comes back, and handled once; also when the "
            "worker that looks is killed meanwhile.",
            f"{_KEYS}; how far a look came is noted in the database (`activities/catch_up.py`, `db/followed.py`).",
            (
                "Messages that are older than 30 days are not looked for.",
                "Oldest first holds within each case, not over the whole workspace.",
                "A reply in a thread of a resolved case whose root is older than 30 days is found by a deep look "
                "(when a gateway was away for over a minute, and daily), not by the next one.",
            ),
        ),
        Promise(
            "catch-up:report:missed",
            "A report that was missed opens its case, once, with what was said in its thread.",
            f"{_KEYS}; what the history shows becomes the event that Slack would have sent "
            "(`activities/missed_events.py`), and goes through the door of what is delivered (`gateway/door.py`); "
            "however short a page is, only Slack says that it was the last (`slack/history.py`).",
        ),
        Promise(
            "catch-up:correction:missed",
            "A missed edit or deletion is applied.",
            "`edited.ts`, compared with the newest edit that is stored, and the absence of a stored message from every "
            "thread of its case, confirmed by asking Slack for that very message (`activities/comparison.py`).",
            (
                "Of several edits the last is seen.",
                "An edit that only replaces one secret by another reads the same, and is not seen.",
                "An edited reply leaves no sign on its thread's root: it is found by a deep look (when a gateway was "
                "away for over a minute, and daily), or when its thread's turn comes, 20 threads a look.",
                "A deletion is inferred for messages of the last 30 days.",
            ),
        ),
        Promise(
            "catch-up:developer:missed",
            "A developer's reply that was missed reaches its case.",
            "the threads that the bot opened, which the database knows (`db/threads.py`), or learns from their "
            "metadata at the first reply (`activities/intake.py`); whether their root is still there does not "
            "matter.",
        ),
        Promise(
            "catch-up:talk:missed",
            "What was missed in the thread of a conversation that was alive in the last 30 days is found, corrections "
            "among it; a missed mention or direct message wherever the bot is, or only in the channels of "
            "THREADLINE_CONVERSATION_CHANNELS where that is set.",
            "a comparison of each conversation with what is stored of it (`db/talked.py`, `activities/memories.py`), "
            "and the history of the channels that Slack says the bot is in (`activities/windows.py`).",
            (
                "A conversation in which nothing else was stored is compared when its turn comes, 20 a look, and 500 "
                "at a deep look: the last active.",
                "A look reads 40 channels that have no cases, those read longest ago: a bot that is in more finds "
                "what it missed a look or more later.",
                "Where THREADLINE_CONVERSATION_CHANNELS is set, a mention or a direct message that was missed "
                "elsewhere is found by nobody, until it is made again.",
                "In a channel that the bot came to since, what was said before the last look is not looked for.",
                "What was said in a thread before the first word that is stored, or that mentions the bot, is not "
                "looked for.",
            ),
        ),
        Promise(
            "catch-up:talk:cases-first",
            "No case waits for a look at conversations: the channels of cases are read and compared first, again every "
            "five minutes while it goes on, and at once when a look is asked for.",
            "the order of one look (`workflows/catch_up.py`), whose progress is in the database (`db/followed.py`).",
        ),
        Promise(
            "catch-up:installation:nothing-older",
            "Nothing that was written before the installation starts a case.",
            "a mark for each channel, made when a gateway or a core worker first follows it, and anew when it "
            "follows it again (`db/followed.py`).",
            ("Who wrote an old root opens a case by writing in its thread now, as without a catch-up.",),
        ),
        Promise(
            "catch-up:fresh:left-alone",
            "The last minute is left to ordinary delivery, and found by a later look.",
            "a thread with fresh messages stays due (`activities/catch_up.py`).",
        ),
        Promise(
            "catch-up:rate-limit:waits",
            "A rate limit delays the catch-up and loses nothing.",
            "at most 50 calls a minute after the first 30, and `Transient` with the pause that Slack asks for "
            "(`slack/history.py`).",
        ),
        Promise(
            "catch-up:gateway:asks",
            "A gateway asks for a look whenever it has connected, and when it can hand events over again after more "
            "than a minute in which it could not.",
            "one signal-with-start under a fixed id (`gateway/catch_up.py`).",
            ("After five minutes without Temporal it stops asking; then the schedule takes over.",),
        ),
        Promise(
            "catch-up:schedule:one-run",
            "A schedule looks as often as THREADLINE_CATCH_UP_INTERVAL says, and two looks never run at once.",
            "a Temporal Schedule that starts the one workflow with a fixed id (`bootstrap/catch_up.py`).",
            (
                "A message that was sent three times and never stored is told by `threadline doctor`, and not sent "
                "again.",
            ),
        ),
        Promise(
            "catch-up:trouble:others-go-on",
            "A channel or a thread that cannot be compared keeps no other from it, stays due, and is told by "
            "`threadline doctor`.",
            "what was done is noted for each case, and what was not as well (`activities/catch_up.py`, "
            "`db/followed.py`).",
            (
                "What may pass is tried five times before the others go on; while Slack limits the rate or cannot be "
                "reached, all wait.",
            ),
        ),
        Promise(
            "catch-up:refused:stays-out",
            "What somebody wrote who may not have a say is not let in later, when they may or the settings have "
            "changed.",
            "the ids of what the catch-up was refused (`db/followed.py`).",
            ("It counts from the first look after it was written: who is let in before that look is let in with it.",),
        ),
    ),
)

SWEEP = Area(
    "sweep",
    "What has stopped goes on",
    "A case whose workflow was terminated goes on from the database, and what finished and was not said is said.",
    (
        Promise(
            "sweep:terminated:carries-on",
            "An open case whose run was terminated carries on without a message, at most one interval later, also "
            "while Slack is away.",
            "the case's row, from which a new run decides as the old one would have (`activities/sweeping.py`), and a "
            "workflow of the sweep's own (`workflows/sweep.py`).",
        ),
        Promise(
            "sweep:terminated:conversation",
            "A conversation whose run was terminated answers what was stored, and says what it had to say, without "
            "another message.",
            "a look at every message that no settled turn has used, and at every answer that is not in Slack "
            "(`db/sweep.py`).",
            ("An answer that Slack refuses is tried again for a day from THREADLINE_CONVERSATION_QUIET after it on.",),
        ),
        Promise(
            "sweep:terminated:handover",
            "A turn that a person is to take over is shown and waited for, though its run was terminated or never "
            "began.",
            "a look at every hand-over that nobody has closed (`db/sweep.py`).",
        ),
        Promise(
            "sweep:terminated:accepted-message",
            "A message that Temporal had accepted and Terminate took away is found in Slack.",
            "the catch-up, which compares with what is stored and not with what was signalled.",
            ("A close by `threadline cases resolve` is not in Slack.",),
        ),
        Promise(
            "sweep:terminated:closed-message",
            "A message of a resolved case that is stored and unused is answered.",
            "the due flags of the case's row, looked at for 60 days after its end (`db/sweep.py`).",
        ),
        Promise(
            "sweep:terminated:end",
            "How a case ended is said, and its files are removed, also when its run was terminated in between.",
            "the ledger of posts, compared with the ends of cases: the next run says it first (`open_case`).",
            ("For a day after the end: a channel that refuses it for good is not asked for ever.",),
        ),
        Promise(
            "sweep:terminated:unanswered",
            "A case that went on without the reporter's answer still does after a Terminate.",
            "the reason of its last transition, which the next run reads (`open_case`).",
        ),
        Promise(
            "sweep:answer:said",
            "A turn that finished and was never said is said.",
            "the ledger of posts, compared with turns (`db/sweep.py`); each post has its key.",
            (
                "Not before 15 minutes have passed, and not after 30 days.",
                "Of a post in several parts only the first is looked for.",
            ),
        ),
        Promise(
            "sweep:clock:restarted",
            "The clock of an open escalation runs again after it was terminated, from its first start, and repeats no "
            "post.",
            "the escalation's row and the keys of its posts (`activities/sweeping.py`).",
        ),
    ),
)
