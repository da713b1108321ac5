"""What is promised of the tools of a conversation."""

from tests.promises.promise import Area, Promise

TOOL = Area(
    "tool",
    "What a tool does",
    "A tool runs only as it may and with arguments that fit; what it changes is changed once, or said to be unknown.",
    (
        Promise(
            "tool:registry:complete",
            "A tool that was registered is found by its name and by the provider's, listed, and defined in strict "
            "form; two names that could be mixed up are an error at the start.",
            "`tools/registry.py`, `tools/schemas.py`.",
        ),
        Promise(
            "tool:port:offered-when-set-up",
            "A tool whose needs are not configured is not offered and does not run, and `threadline doctor` says what "
            "to set.",
            "`Port` in `tools/context.py`, `tools/access.py`, `bootstrap/toolsets.py`.",
        ),
        Promise(
            "tool:arguments:refused-first",
            "A missing field, a wrong type, an unknown field, or what is no JSON is refused before anything runs, by "
            "the name of the field and what was expected.",
            "`tools/arguments.py`, `validated` in `tools/policies.py`.",
        ),
        Promise(
            "tool:context:identity",
            "Every execution knows its team, channel, thread, user and request; without them there is no context.",
            "`tools/context.py`, frozen.",
        ),
        Promise(
            "tool:cache:within-its-time",
            "An answer within its time is given again without running the tool, to who may see it, and no longer once "
            "something was changed through the same toolset.",
            "`cached` in `tools/policies.py`, `activities/tool_ports.py`.",
            ("A change that was made elsewhere is seen when the time is over.",),
        ),
        Promise(
            "tool:read-only:blocked",
            "Where nothing may be changed, no tool that changes is shown to the model at any step of the turn, and one "
            "that it asks for all the same is blocked, told and on record.",
            "a set that is fixed with the turn's first step (`agents/copilot/briefing.py`, `tools/access.py`).",
        ),
        Promise(
            "tool:read-only:where-it-is-made",
            "A locked project is not changed, from whatever thread: the lock and the rate of the record that the "
            "arguments name are checked in the change's own transaction.",
            "`db/estimates.py`, `db/operations.py`.",
        ),
        Promise(
            "tool:rate:of-the-record",
            "One record is changed at most THREADLINE_MUTATIONS_PER_MINUTE times a minute, in all threads together; "
            "refusals do not count, and a change counts once however often it is tried.",
            "`limited` in `tools/policies.py`, `db/limits.py`.",
            ("Where the limit cannot be asked, the change is made: better one too many than none.",),
        ),
        Promise(
            "tool:call:on-record",
            "Every call is on record with whose it was, its status and its time; one that is asked for again gives "
            "what is on record, and does not run.",
            "`audited` in `tools/ledger.py`, `db/tool_executions.py`.",
        ),
        Promise(
            "tool:change:once",
            "A change is written down before it is made. A try that finds that and no result makes it not again: the "
            "effect is looked up, or the model is told that the outcome is unknown.",
            "`intended` in `tools/ledger.py`; `look_up` of the tool, by the call's operation key.",
            ("What the service behind it does twice with one request is its own.",),
        ),
        Promise(
            "tool:change:chaos",
            "Under chaos, too, no change of a tool is made twice, and each that is on record as made is there.",
            "the operation's key in the change's own transaction (`db/operations.py`); the oracle of conversations "
            "counts the work items.",
            ("Changes in the database alone: none outside of it is made there.",),
        ),
        Promise(
            "tool:calls:in-order",
            "The calls of a reply run beside each other when all of them only read and none decides what the thread is "
            "about, else in order; at most twenty of them, and one that fails keeps no other from running.",
            "`_act` in `workflows/conversation_turn.py`, `agents/copilot/replies.py`.",
        ),
        Promise(
            "tool:side-effect:once",
            "What follows from a tool's success runs once and is noted for the model, its failure too, which fails "
            "nothing.",
            "`with_side_effects` in `tools/execution.py`.",
            (
                "A worker that is lost before the result is on record: it may run again, or, where the change cannot "
                "be looked up, not at all.",
            ),
        ),
        Promise(
            "tool:error:in-words",
            "Whatever a tool throws or returns as a failure, the model and the person read what happened and what to "
            "try, and nothing from within; the turn goes on.",
            "`performing` in `tools/execution.py`, `ToolError` in `tools/results.py`, `tools/words.py`.",
            ("A model may repeat what it was told in worse words.",),
        ),
        Promise(
            "tool:time:limited",
            "A tool that hangs is given up after its time, and told as that, or as unknown where it changes something; "
            "the loop goes on.",
            "`timed` in `tools/policies.py`.",
        ),
        Promise(
            "tool:result:bounded",
            "A result of any size and shape becomes JSON within its limits, for the record and for the model, and "
            "says what was cut.",
            "`tools/rendering.py`, `redacted` in `tools/policies.py`.",
            ("A tool that builds 50 MB has built them, in the core worker's memory.",),
        ),
        Promise(
            "tool:secret:nowhere",
            "No recognised secret of a call or a result is on record, cached, or shown.",
            "`redacted` in `tools/policies.py`, `tools/ledger.py`.",
            ("docs/privacy.md counts and names those that are missed.",),
        ),
        Promise(
            "tool:page:true",
            "docs/tools.md lists the tools that there are, and the one that it shows as an example works.",
            "a page that is written from the registry (`tests/tools_page/`).",
        ),
    ),
)
