"""What is promised of the operator: which way a request takes, in which order it works, and what it says."""

from tests.promises.promise import Area, Promise

OPERATOR = Area(
    "operator",
    "The operator writes down before it speaks",
    "The operator loads before it changes, writes down before it speaks, and says one thing.",
    (
        Promise(
            "operator:thread:link",
            "`link`, `bind` and `where` are answered without a model: a thread is bound with what it was bound to "
            "before, and what does not exist is refused with the nearest ids.",
            "`domain/linking.py`, one transaction with the turn's way (`activities/beginning.py`).",
        ),
        Promise(
            "operator:scope:first",
            "A turn is about the first RFP that its message names, else about the thread's, else about none; one that "
            "does not exist ends the turn before anything is done.",
            "`domain/rfp_ids.py`, `activities/beginning.py`.",
        ),
        Promise(
            "operator:branch:four",
            "A request takes the branch that its words and its RFP say, and where the conversational agent fails at "
            "what nobody could place, the operator goes on.",
            "`domain/scope.py`, `domain/routing.py`.",
        ),
        Promise(
            "operator:pending:resumed",
            "The next message of whoever was asked goes on with the request, unless it carries one of its own; what "
            "others say does not, and what was deleted is not gone on with.",
            "`domain/routing.py`, the messages of the turn that asked (`db/turn_plans.py`).",
        ),
        Promise(
            "operator:turn:recorded",
            "A turn's way is found once and stays, whatever is changed meanwhile; what it came to is kept, and what it "
            "was told goes with its end.",
            "`turn_plans` under the conversation's row (`db/turn_plans.py`).",
        ),
        Promise(
            "operator:turn:explained",
            "`threadline explain` tells, of any message that the bot has answered and of the answer, the turn's way, "
            "context, calls, protocol, cost and workflow, without secrets and without words that their author has "
            "deleted, nor what may quote them.",
            "`db/turn_traces.py`, `bootstrap/explaining.py`.",
            (
                "What a conversation was is forgotten after `THREADLINE_CONVERSATION_RETENTION_DAYS`, and the calls of "
                "tools after `THREADLINE_TOOL_LOG_DAYS`.",
                "Of a bug's case it names the command that shows it.",
            ),
        ),
        Promise(
            "operator:turn:cut",
            "Of a question of more than 5,000 characters the operator reads the beginning, and the reply says so.",
            "`domain/questions.py`.",
        ),
        Promise(
            "operator:turn:order",
            "The operator is prepared before it thinks, each call meets the state behind the one before it, and it "
            "asks for tools eight times at most.",
            "`workflows/conversation_turn.py`, `workflows/turn_way.py`.",
        ),
        Promise(
            "operator:turn:crash",
            "Wherever in a turn the core worker is killed, the change is made once, each note and each event is "
            "written once, with the turn's correlation id and before the answer, and the answer is said once.",
            "each step's result on record before the next (`workflows/conversation_turn.py`), the operation's key in "
            "the change's own transaction (`db/operations.py`), and a look-up of what a lost call did "
            "(`tools/effects.py`).",
            ("An analysis that is lost is not asked for again: the turn goes on without.",),
        ),
        Promise(
            "operator:turn:by-rule",
            "A turn that ends by rule asks no model.",
            "`workflows/conversation_turn.py`.",
        ),
        Promise(
            "operator:turn:falls-through",
            "Only a request that nobody could place falls through to the operator, and only when nothing was changed.",
            "`workflows/turn_way.py`.",
        ),
        Promise(
            "operator:protocol:lost-calls",
            "A change or a proposal of which nobody knows whether it was made counts as tried: the turn does not speak "
            "as if nobody had, and proposes nothing again. The words of a speaking call that broke off are held to the "
            "rules once more before they are posted.",
            "`Way.lost` in `workflows/turn_way.py`, `domain/protocol.py`.",
        ),
        Promise(
            "operator:turn:one-message",
            "A turn has one message: the words of its speaking call, posted as every answer is.",
            "the key of the turn's answer (`slack/posts.py`), `activities/settling.py`.",
        ),
        Promise(
            "operator:protocol:written-down",
            "What a turn about an RFP says is in its journal when it is posted, unless the turn has written there by "
            "itself; where no change has succeeded, what failed is said and written down with it. That holds for plain "
            "text, for a proposal, and for a speaking call that broke off.",
            "one transaction with the turn's end (`activities/settling.py`).",
            ("Where the RFP was deleted meanwhile there is no journal: the words are posted, and the log says so.",),
        ),
        Promise(
            "operator:story:four-flows",
            "On all real parts: a status is patched, written down and told; what the bot can do; a file that "
            "becomes an RFP; a bound thread's status; a change that lacks its RFP; an RFP that does not exist.",
            "all of the product (`devstack/operator_story.py`).",
            ("The model's words are scripted, and Slack is a stand-in that speaks its protocols.",),
        ),
    ),
)
