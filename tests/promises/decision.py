"""What is promised of the decision engine: what it decides by, when a person takes over, and that nothing is lost."""

from tests.promises.promise import Area, Promise

DECISION = Area(
    "decision",
    "A question is decided before it is answered",
    "What to do with a question is decided by the model over the whole situation, and a person takes over in time.",
    (
        Promise(
            "decision:made:once",
            "A turn's decision is kept before anybody acts on it, and a second attempt finds the first one's. What is "
            "said to the bot while it only overhears others has a turn, and a decision, of its own.",
            "`activities/deciding.py`, `db/decisions.py`, `activities/turn_words.py`.",
        ),
        Promise(
            "decision:answer:any-bytes",
            "Whatever the model writes, there is a decision: what is invalid it is shown once more, and after that a "
            "person takes over.",
            "`decisions/answer.py`, `decisions/engine.py`.",
        ),
        Promise(
            "decision:confidence:evidence",
            "The confidence comes from evidence alone, is between 0 and 1, and halves on a contradiction.",
            "`domain/confidence.py`.",
        ),
        Promise(
            "decision:course:follows",
            "A turn goes on, asks back, looks further or ends with a person by its decision and its confidence; it "
            "asks and looks further at most once.",
            "`domain/decisions.py`, `workflows/deciding.py`.",
        ),
        Promise(
            "decision:retrieval:conditional",
            "The documents are asked only where the decision is to ask them; where they cannot be asked, the turn goes "
            "on less sure, or a person takes over when it matters.",
            "`workflows/deciding.py`, `activities/deciding.py`.",
        ),
        Promise(
            "decision:sources:cited",
            "An answer that rests on documents names their titles and sections, however long it is.",
            "`activities/decision_words.py`.",
        ),
        Promise(
            "decision:sensitive:meant",
            "A sensitive word is found in any regular inflection and never inside another word; the model says what is "
            "meant, and where it cannot, the word alone hands over. What names one in the middle of a turn is decided "
            "upon in a turn of its own.",
            "`domain/sensitive.py`, `decisions/engine.py`, `activities/deciding.py`.",
        ),
        Promise(
            "decision:model:away",
            "A turn whose decision cannot be made goes on without; one whose answer cannot be made ends with a person.",
            "`workflows/deciding.py`.",
        ),
        Promise(
            "decision:thumb:last-word",
            "Of a person's thumbs on an answer the last one that is still there counts, once, however often and in "
            "whatever order Slack tells of them.",
            "`db/thumbs.py`, `db/decision_reports.py`.",
            ("What Slack gives up delivering is not found again: the catch-up reads messages, not reactions.",),
        ),
        Promise(
            "decision:variant:stable",
            "A thread keeps its variant as long as names and shares stay; one that is added moves no thread "
            "between the others.",
            "`decisions/variants.py`.",
        ),
        Promise(
            "decision:tuning:proposes",
            "Thresholds are proposed from thirty judgements on, never cost more than the present ones on what was "
            "judged, and are changed by nobody but a person.",
            "`decisions/tuning.py`.",
        ),
    ),
)
