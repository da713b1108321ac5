"""What is promised of a thread that a person takes over."""

from tests.promises.promise import Area, Promise

HANDOVER = Area(
    "handover",
    "A person takes over, and nothing is lost between two threads",
    "A person takes a thread over by a button; what either side writes reaches the other once, until it is closed.",
    (
        Promise(
            "handover:story:whole",
            "What a person is to take over is shown with its question, reason, sources and confidence; while somebody "
            "has it the agent does not answer, and it answers again when they have closed it. Who writes what nobody "
            "answers and nobody is shown is told so.",
            "`workflows/handover.py`, `activities/handover.py`, `activities/beginning.py`.",
            ("A conversation that is forgotten takes its hand-over along; whoever presses a button then is told so.",),
        ),
        Promise(
            "handover:answer:arrives",
            "What a person writes under the card is said to who asks, once and as it reads now, also when every worker "
            "was away, when its edit or deletion is delivered before it, and when they have closed it meanwhile.",
            "`workflows/route_reply.py`, `activities/relaying.py`, `db/handover_answers.py`, posts by key.",
            (
                "A file is named there, and not shown.",
                "Where Slack refuses it for good, as in an archived channel, its writer is told so under the card.",
            ),
        ),
        Promise(
            "handover:relay:chaos",
            "Under chaos, too, people are asked once to take a thread over, and what either side writes reaches the "
            "other once.",
            "what `handover:answer:arrives` rests on; the oracle of conversations (`tests/chaos/talk_oracle.py`).",
        ),
        Promise(
            "handover:reminder:bounded",
            "People are reminded five times at most of what nobody has taken, however many runs wait for them.",
            "`workflows/handover.py`, the number in `handovers`.",
        ),
    ),
)
