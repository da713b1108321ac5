"""What is promised of a conversation: that what is said to the bot is answered, once."""

from tests.promises.promise import Area, Promise

TALK = Area(
    "talk",
    "What is said to the bot is answered, once",
    "What is said to the bot is answered once, in words for a person, whatever fails or is said meanwhile.",
    (
        Promise(
            "talk:mention:anywhere",
            "A mention in any channel that the bot is in, in a thread or not, and a direct message, begin their "
            "thread's conversation or go on with it, as one message, however often Slack tells it.",
            "the rules of `gateway/events.py`, and one signal-with-start under an id made of the thread "
            "(`gateway/dispatch.py`).",
            (
                "In the channels of cases a mention is a message of the case, or nobody's.",
                "A bot's mention is ignored.",
            ),
        ),
        Promise(
            "talk:storing:once",
            "A message of a conversation is stored once, however often it is delivered and by however many workers at "
            "once; what Postgres refuses is kept in quarantine and holds up no other.",
            "the storing of cases, which serves both (`db/storing.py`, `db/conversation_intake.py`).",
            ("Length: a text is cut at 40,000 characters, where Slack cuts, too.",),
        ),
        Promise(
            "talk:storing:nobody-addressed",
            "Where nobody has spoken to the bot, nothing is stored and nothing is answered.",
            "a row that only an addressed message makes (`db/conversation_intake.py`).",
            ("What came in one batch with the first word to the bot is kept with it.",),
        ),
        Promise(
            "talk:batch:one-turn",
            "What is said while the bot works is in the next call of the model or in the next turn, and in no other.",
            "messages that a step takes up under the conversation row's lock, in the order in which they were said "
            "(`db/conversations.py`, `activities/taking_up.py`).",
        ),
        Promise(
            "talk:storing:chaos",
            "Under chaos, too, each message of a conversation is stored once, as it reads now, also where Slack gives "
            "up or Terminate takes it away.",
            "what `intake:storing:chaos` rests on; the oracle of conversations (`tests/chaos/talk_oracle.py`).",
            (
                "A stop sign, which Slack's history does not tell of.",
                "Where THREADLINE_CONVERSATION_CHANNELS names the channels: the direct message that was to begin a "
                "conversation.",
            ),
        ),
        Promise(
            "talk:turn:chaos",
            "Under chaos, Cancel and Terminate among it, what the guards let pass is used by one turn, which shows it "
            "to the model once and answers it, says that it was stopped, or leaves it to people.",
            "claims under the conversation row's lock, and the sweep, which goes on with what Terminate has ended; the "
            "oracle.",
        ),
        Promise(
            "talk:answer:chaos",
            "Under chaos, too, each answer of a conversation is in Slack once, in its thread.",
            "the ledger and the metadata of posts; the oracle counts in the sandbox.",
            ("Terminate amid a word that is no answer, as that the model is away: it may stay unsaid.",),
        ),
        Promise(
            "talk:correction:newest-wording",
            "The model reads a message in its newest wording, in whatever order corrections arrive, and a correction "
            "alone wakes nobody.",
            "`db/storing.py`, `db/conversations.py`.",
            ("What the model has read it has read: an edit of it is shown once more, as a correction.",),
        ),
        Promise(
            "talk:deletion:not-shown",
            "What was deleted is not shown to the model any more: neither the words nor a summary that may tell of "
            "them.",
            "`db/transcripts.py`, `db/conversations.py`.",
            ("An answer that repeats them, and what the provider has received, stay.",),
        ),
        Promise(
            "talk:answer:always",
            "Whatever the model replies, the tools do and people say, a turn ends with one text that can be seen, "
            "unless what it was about was not for the bot.",
            "a loop whose every end has words, the model's or ours (`workflows/react_loop.py`, `domain/answers.py`).",
        ),
        Promise(
            "talk:answer:bounded",
            "A turn asks the model at most once more often than THREADLINE_CONVERSATION_MAX_TURNS, and runs no call of "
            "an earlier reply and no call id twice.",
            "`workflows/react_loop.py`.",
            ("Summaries are calls of their own.",),
        ),
        Promise(
            "talk:answer:silent",
            "In a thread of several people, what is not for the bot is recorded and gets no answer; who has spoken to "
            "it, or has had it change something, is answered.",
            "a word for silence that counts only where it is allowed, and is never posted "
            "(`workflows/conversation_turn.py`, `agents/copilot/replies.py`).",
            ("Whether words without a mention are meant for the bot is the model's judgement.",),
        ),
        Promise(
            "talk:answer:posted-once",
            "An answer is in Slack once, part by part; one that an earlier run did not say is said first by the next.",
            "the ledger of posts, under a key of thread and turn (`activities/speaking.py`, `slack/posts.py`), and the "
            "oldest unsaid turn among the marks (`db/conversation_row.py`).",
            ("What ends `post:reply:answer-lost` ends this.",),
        ),
        Promise(
            "talk:answer:refused-by-slack",
            "An answer that Slack does not take, because the bot was removed or the thread is gone, keeps nobody "
            "waiting: it is kept, says in the log what to do, and is tried again when Slack takes another one, and by "
            "the thread's next run.",
            "`Conversation.say` in `workflows/conversing.py`, `slack/errors.py`.",
            (
                "The next run begins when the thread was quiet for THREADLINE_CONVERSATION_QUIET: with the next "
                "message, or the next sweep.",
            ),
        ),
        Promise(
            "talk:answer:length",
            "An answer has at most 2,000 characters; where somebody asked for details nothing is lost and no word is "
            "cut.",
            "`domain/answers.py`, `domain/splitting.py`, `slack/answers.py`.",
            ("A word that is longer than a message is cut.", "Who wants details is read from words, in English."),
        ),
        Promise(
            "talk:answer:blocks",
            "What tools return as records is shown in blocks that Slack takes, once and in its last state; what has no "
            "room is counted.",
            "`slack/records.py`, `slack/answers.py`; blocks that Slack refuses all the same are posted as text "
            "(`slack/posts.py`).",
            ("Held to the limits that Slack's pages tell, and to the stand-in.",),
        ),
        Promise(
            "talk:answer:no-insides",
            "No answer holds a stack trace, the text of an exception, a path, a host or a key of the bot's own, and "
            "each says what happened and what to try.",
            "one filter for every text that no model wrote (`tools/words.py`), and failures that are told in sentences "
            "of our own (`agents/models/failures.py`).",
            ("The model's own words are its own: of them recognised secrets alone are taken out.",),
        ),
        Promise(
            "talk:help:without-model",
            "Any text has a valid intent or none; where there is none, or help is asked for, the answer names what "
            "can be asked for, without a call of the model.",
            "`agents/copilot/intent.py`, `activities/thinking.py`.",
            ("A sign after a question of the bot is an answer, and goes to the model.",),
        ),
        Promise(
            "talk:step:once",
            "After a crash, a lost result, a Terminate or continue-as-new a turn goes on where it was: no reply that "
            "was recorded is paid for again, and no call that has ended is made again.",
            "each step in the transcript under turn, step and call (`db/transcripts.py`, `activities/thinking.py`, "
            "`activities/acting.py`).",
            (
                "The step under way is begun again: a reply that nobody had recorded is paid for twice.",
                "Of two attempts at once both are paid for, and the first reply stands.",
            ),
        ),
        Promise(
            "talk:run:nothing-lost",
            "Storms, bursts, a run's end and continue-as-new cost no message and no answer, and bring none twice.",
            "the main coroutine and the inbox of cases (`workflows/thread_run.py`, `workflows/inbox.py`).",
        ),
        Promise(
            "talk:run:goes-on",
            "A run ends in silence, and the next message begins another that remembers everything.",
            "`workflows/conversation.py`, and a state that is in Postgres.",
        ),
        Promise(
            "talk:run:small",
            "A turn with 2 MB of tool output adds less than 20 kB to Temporal's history, and what travels of a reply "
            "or a call is a line.",
            "references instead of texts (`contracts/conversation.py`, `agents/copilot/replies.py`).",
        ),
        Promise(
            "talk:run:replays",
            "A finished conversation is decided again as it was by the code that decided it.",
            "workflows that await steps alone (`workflows/react_loop.py`, `workflows/conversation_turn.py`); of "
            "later code `replay:history:decided-again` tells.",
        ),
        Promise(
            "talk:run:shown",
            "Temporal's UI says in a sentence where a conversation is, each step has a line there, and Slack shows "
            "what the bot is doing.",
            "`_enter` in `workflows/conversation.py`, `workflows/status_line.py`.",
            ("Slack's status line is cosmetic, and left out when Slack is busy.",),
        ),
        Promise(
            "talk:stop:after-the-step",
            "Who says to stop gets a short account once the step under way has ended; nothing is begun after it, and "
            "what was said later is answered by the next turn.",
            "stops among the marks (`db/conversation_row.py`), asked for before every step "
            "(`workflows/conversation_turn.py`).",
            (
                "A model that does not answer gets half a minute more; one that is away, none.",
                "A stop that comes with the last reply lets it be the answer.",
            ),
        ),
        Promise(
            "talk:cancel:told",
            "Cancel in Temporal's UI stores what came, says that it stops, and ends the run; the next message goes on.",
            "`workflows/thread_run.py`, `workflows/conversation.py`.",
        ),
        Promise(
            "talk:model:away",
            "While the model is away the thread is told once and the turn is kept: answered when the model is back, or "
            "given up with an account when THREADLINE_CONVERSATION_MODEL_PATIENCE ends.",
            "`workflows/conversation_turn.py`, where the workflow waits and no activity does.",
            ("Of what nobody has asked the bot, nobody is told.",),
        ),
        Promise(
            "talk:model:rate-limit",
            "A rate limit of the model is waited for 2^attempt seconds at least, or as long as it says, three times; "
            "then the workflow waits.",
            "`agents/models/failures.py`, and `THINK` in `contracts/options.py`; the client's own retries are off.",
        ),
        Promise(
            "talk:model:refused",
            "A fault that stays, or that loses every worker, ends the turn in words, and no other side's words are "
            "repeated.",
            "`Permanent` in `domain/errors.py`, `agents/models/failures.py`.",
        ),
        Promise(
            "talk:model:nothing-kept",
            "The provider is asked to keep nothing, and gets each call's whole dialogue.",
            "`store=False` (`agents/models/responses_api.py`, `agents/models/chat_api.py`).",
            ("What a provider keeps all the same is by its own terms.",),
        ),
        Promise(
            "talk:operators:told-once",
            "What fails three times in ten minutes for a reason inside is told in the operators' channel, once.",
            "`activities/alerts.py`, which hears of tools, of the model and of every activity of the core "
            "(`activities/faults.py`), and the ledger of posts.",
            (
                "Each worker counts its own.",
                "An activity counts when it is given up; one that never is, from its third attempt on.",
            ),
        ),
        Promise(
            "talk:input:unhoped-for",
            "Input that nobody hopes for ends with a clear message, and nothing is lost: docs/conversations.md has the "
            "list.",
            "what the other promises rest on.",
        ),
        Promise(
            "talk:story:four-chapters",
            "On all real parts: a mention that chains three tools, a locked project, a stop, too much at once.",
            "all of the product (`devstack/talk_story.py`).",
            ("The model's words are scripted, and Slack is a stand-in that speaks its protocols.",),
        ),
    ),
)
