"""What is promised of the edges: bad moments, floods, sizes, and what nobody can read."""

from tests.promises.promise import Area, Promise

LIMITS = Area(
    "limits",
    "At the limits it holds, too",
    "At the worst moment, in a flood, too large or unreadable: what was accepted is stored once, or kept where people "
    "see it.",
    (
        Promise(
            "limits:signal:during-completion",
            "A message that comes while a run completes is stored once.",
            "no wait between the last look at the inbox and the end (`workflows/thread_run.py`); the server "
            "hands the task back when a signal came amid it, and the test goes on until that has happened.",
        ),
        Promise(
            "limits:signal:during-continue-as-new",
            "A message that comes while a run continues as new is stored once.",
            "the same, and an inbox that the next run is given.",
        ),
        Promise(
            "limits:signal:before-run",
            "Messages that come before any worker has seen the workflow are all there, in order, when it runs.",
            "a state that exists before `run` does (`workflow.init`).",
        ),
        Promise(
            "limits:signal:after-end",
            "A message after the end starts a run that carries the case on with its number and its next turn.",
            "ordinals that are read from the case's row (`db/case_row.py`).",
        ),
        Promise(
            "limits:report:two-gateways",
            "The same report from two gateways at the same moment is one case with one turn.",
            "signal-with-start under an id made of the thread (`gateway/dispatch.py`), and an inbox that knows ids.",
        ),
        Promise(
            "limits:flood:one-thread",
            "More messages in one thread than one run may have are all stored once.",
            "continue-as-new between steps as soon as the server suggests it, long before it refuses; what it refuses "
            "is not acknowledged, and comes again.",
            (
                "Above some 300 messages a second in one thread no task of the workflow ends before a hundred more "
                "have come, and the server has it done again: nothing goes on until it refuses signals, at 10,000.",
                "The suite plays it on a server that stops at a tenth of the usual 10,000; `make limits` plays it in "
                "full size.",
            ),
        ),
        Promise(
            "limits:flood:drained-first",
            "A run that is due to continue as new stores what is pending, and begins nothing else before it does.",
            "`_proceed` in `workflows/thread_run.py`, behind the gate `DRAIN_FIRST` of `workflows/patches.py`.",
        ),
        Promise(
            "limits:flood:wall",
            "As many messages as the server takes may wait for a worker and are then all stored once; one more is "
            "refused to Slack, which delivers it again.",
            "an error that is never acknowledged (`gateway/dispatch.py`), and handlers that only append.",
            (
                "A run does not continue as new while a turn of the agent runs. More than 10,000 messages in one "
                "thread within one turn are refused until it ends.",
                "The first task takes all that has waited at once: 10,000 took 1.2 s of the 2 s for which Temporal's "
                "SDK lets workflow code run, on a busy machine with two cores. On one half as fast the task would be "
                "given up and tried again.",
            ),
        ),
        Promise(
            "limits:flood:many-threads",
            "A thousand reports at once are a thousand cases, each stored once and each answered once.",
            "one workflow for each thread, and nothing that they share but the database.",
            ("The suite plays it with 200, `make limits` with 1,000.",),
        ),
        Promise(
            "limits:size:refused",
            "A signal of 2 MiB is refused to who sends it, and leaves nothing behind.",
            "Temporal's limit; a gateway never sends one, since it cuts texts at 40,000 characters.",
        ),
        Promise(
            "limits:size:cut",
            "What just passes the server is cut, or kept in quarantine when its ids are too long, and stops no case.",
            "bounds on each field in `domain/messages.py`: 40,000 characters of text, 200 of an id, 50 files.",
            ("What is cut off is lost when Temporal removes the run's history.",),
        ),
        Promise(
            "limits:size:many-large",
            "Many messages of the largest size at once are all stored, and no batch and no run's input outgrows what "
            "the server takes.",
            "batches by their size on the wire, and continue-as-new with at most one of them pending "
            "(`workflows/inbox.py`).",
        ),
        Promise(
            "limits:undecodable:case",
            "A signal whose payload does not decode, or whose name nobody knows, is kept in its case's quarantine, "
            "told to the operators' log as an error, and stops nothing.",
            "dynamic handlers, which get the bytes as they came (`workflows/signals.py`): for any other the SDK logs "
            "and drops what does not decode.",
            ("Nobody answers it: the log and `threadline cases quarantine` are where people find it.",),
        ),
        Promise(
            "limits:undecodable:no-case",
            "What cannot be read in a thread that has no case is kept and told as well.",
            "a table of its own (`db/quarantine.py`).",
        ),
        Promise(
            "limits:undecodable:once",
            "The same unreadable signal is kept once, and one that differs anywhere is another.",
            "an id made of all its bytes, of which the first 40,000 characters are kept.",
        ),
        Promise(
            "limits:undecodable:missing-key",
            "A signal under a key that the worker lacks is not taken for unreadable: its case stands still, in sight, "
            "until the key is there, and goes on with everything.",
            "a codec that raises fails the workflow's task, which Temporal tries again.",
        ),
        Promise(
            "limits:undecodable:shown",
            "Quarantined messages are shown with their case and their text by the command line.",
            "`threadline cases quarantine`; `threadline doctor` counts them.",
        ),
    ),
)
