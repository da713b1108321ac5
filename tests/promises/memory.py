"""What is promised of what is remembered of a thread."""

from tests.promises.promise import Area, Promise

MEMORY = Area(
    "memory",
    "A thread is remembered",
    "A thread is remembered as it was said, for as long as the settings say, and the model reads its newest part.",
    (
        Promise(
            "memory:transcript:exact",
            "What is stored of a conversation comes back equal and in order: any character, any nesting.",
            "JSON in ASCII (`db/transcripts.py`, `db/message_body.py`).",
        ),
        Promise(
            "memory:transcript:first-stands",
            "What a key of the transcript stood for first stands, whoever else writes it.",
            "`append` in `db/transcripts.py`.",
        ),
        Promise(
            "memory:context:in-order",
            "The model is sent the end of the thread in order and without a gap, the newest message of a person always "
            "with it, and no result without its call.",
            "`domain/pairing.py`, `agents/copilot/context.py`.",
        ),
        Promise(
            "memory:context:bounded",
            "However long a thread is, a turn begins with at most 20 messages within the token budget.",
            "`agents/copilot/context.py`; tokens are estimated.",
            ("What the turn itself adds is bounded by its steps.",),
        ),
        Promise(
            "memory:context:prefix",
            "Each call of a turn begins byte for byte like the one before, so that the provider's cache is hit.",
            "a constant system prompt, and a turn's context as one message (`agents/copilot/prompt.py`, "
            "`agents/copilot/briefing.py`).",
            ("A context that the provider finds too long after all is halved once: that call begins anew.",),
        ),
        Promise(
            "memory:summary:extended",
            "What is older is summarised once, and a summary is extended, not made anew; where none can be had the "
            "oldest are left out, and the log says so.",
            "`activities/summaries.py`, `agents/copilot/context.py`.",
            (
                "A summary is as good as its model. What was said is kept all the same.",
                "When somebody deletes a message that it may tell of, it is made anew.",
            ),
        ),
        Promise(
            "memory:reference:listed",
            "What the latest results listed can be named by its place in the next turn: the model is shown the ids, "
            "newest first, each list in its own order.",
            "`agents/copilot/references.py`.",
            ("Which of them *the second one* is, is the model's reading.",),
        ),
        Promise(
            "memory:people:told-apart",
            "The model is told who wrote, as soon as there are two, and when and about what.",
            "`activities/taking_up.py`, `activities/names.py`.",
        ),
        Promise(
            "memory:retention:forgotten",
            "A conversation is forgotten THREADLINE_CONVERSATION_RETENTION_DAYS after its last message, the record of "
            "its calls after THREADLINE_TOOL_LOG_DAYS, what the operator remembers of a turn after "
            "THREADLINE_MEMORY_DAYS; one that begins anew meets no key of the old one.",
            "`forget` in `bootstrap/conversations.py`, in small transactions, once an hour.",
            ("Slack keeps its messages, and Temporal closed runs for the namespace's retention.",),
        ),
        Promise(
            "memory:context:within-budget",
            "What the operator is told before it begins stays within its budget; what was cut, failed or came too late "
            "is named in the text and in the turn's report.",
            "`agents/operator/budget.py`, `agents/operator/context.py`.",
            ("A token is taken for four bytes.",),
        ),
        Promise(
            "memory:context:at-once",
            "All layers of the operator's context are fetched side by side, in a number of queries that does not grow "
            "with what there is, each bounded in time.",
            "`agents/operator/context.py`, `activities/operator_sources.py`.",
        ),
        Promise(
            "memory:context:fenced",
            "What people, files and records say reaches the operator without recognised secrets, and between marks "
            "that it cannot forge.",
            "`agents/operator/fences.py`.",
            ("Whether a model obeys what stands there is not in our hands; the protocol holds whatever it does.",),
        ),
        Promise(
            "memory:operator:own-channel",
            "What was said is recalled in its own channel alone; what the whole team may recall has no word of "
            "anybody.",
            "`agents/operator/memory.py`, `db/memories.py`, `activities/operator_sources.py`.",
        ),
        Promise(
            "memory:operator:once",
            "A turn is remembered once, however often that is tried; a message that is deleted in Slack takes its "
            "words along.",
            "`activities/remembering.py`, `db/conversation_intake.py`, under the conversation's row.",
            ("How tools did, which holds no words, stays.",),
        ),
    ),
)
