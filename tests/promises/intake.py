"""What is promised of the way in: from Slack to a stored message."""

from tests.promises.promise import Area, Promise

INTAKE = Area(
    "intake",
    "A message that was acknowledged is stored, once",
    "A message that was acknowledged to Slack is stored, once, and reaches the agent, or is answered by the case's "
    "end.",
    (
        Promise(
            "intake:acknowledgement:after-temporal",
            "The gateway acknowledges an event when Temporal has accepted its signal, and not before.",
            "the order of things: the only middleware of Bolt answers when the event has been handed over "
            "(`gateway/intake.py`, `gateway/dispatch.py`).",
        ),
        Promise(
            "intake:acknowledgement:refused-in-time",
            "When Temporal is away, or takes the connection and never answers, the event is refused within Slack's "
            "3 s, and Slack delivers it again.",
            "one limit of 2.2 s around all that is done for an event, whatever the client would still try; any error "
            "at all is a refusal (`gateway/dispatch.py`).",
            (
                "*Slack gives up.* It delivers an event up to four times within some six minutes. If Temporal, or the "
                "gateway, is away for longer, the catch-up finds the message in Slack's history, one interval after it "
                "is back at the latest.",
            ),
        ),
        Promise(
            "intake:acknowledgement:at-a-stop",
            "An event that is on its way when the gateway is stopped is finished and acknowledged; one that comes "
            "later is refused.",
            "the drain of `gateway/intake.py`: nothing new is taken, and what is in flight is waited for.",
            ("What takes longer than the drain waits is not acknowledged, and Slack delivers it again.",),
        ),
        Promise(
            "intake:acknowledgement:redelivered",
            "An event that Slack delivers again goes to the same case under the same id.",
            "ids that are made of team, channel and timestamp, and of nothing that a delivery adds "
            "(`domain/addressing.py`).",
        ),
        Promise(
            "intake:gateway:gone-and-back",
            "What is written while the gateway is killed and started again, within the time in which Slack tries, "
            "reaches its case.",
            "Slack's own deliveries: what was not acknowledged comes again.",
        ),
        Promise(
            "intake:socket:comes-back",
            "A Socket Mode connection that breaks, is refreshed or leads nowhere is replaced by another without help.",
            "`gateway/socket_mode.py`.",
        ),
        Promise(
            "intake:signature:verified",
            "By HTTP, what Slack did not sign is refused, and so is a body of more than a megabyte before it is read.",
            "`gateway/web.py`, in front of everything that looks into a request.",
        ),
        Promise(
            "intake:routing:total",
            "Any JSON that is delivered gets a route or a reason to be ignored, and never an exception.",
            "one table of rules of which the last fits anything (`gateway/events.py`); a test makes up events.",
        ),
        Promise(
            "intake:routing:ignored-is-counted",
            "What is ignored is acknowledged, and counted by its reason: the bot's own posts, other bots', other "
            "channels', people of other companies, previews of links.",
            "`IgnoreReason` in `gateway/events.py`, and the counts at `/readyz`.",
        ),
        Promise(
            "intake:routing:third-party",
            "A reply in a report's thread by anybody but its reporter changes nothing, and opens nothing.",
            "the table of `gateway/events.py`; where Slack does not name the root's author, the case's row decides "
            "(`db/intake.py`).",
            (
                "*Third parties.* A reply in a report's thread by anybody but its reporter is ignored on purpose, and "
                "not stored.",
            ),
        ),
        Promise(
            "intake:routing:mention-twin",
            "A message that mentions the bot arrives twice, and counts once: the one that brings its files.",
            "`gateway/events.py` passes every mention over, since the message that it is in comes as well.",
        ),
        Promise(
            "intake:routing:database-away",
            "A developer's reply whose case the database does not tell within 0.3 s is accepted, and reaches its case "
            "when the database answers; nothing that happens meanwhile drops it.",
            "`RouteReplyWorkflow`, which takes the envelope and tries without an end (`gateway/dispatch.py`, "
            "`workflows/route_reply.py`).",
        ),
        Promise(
            "intake:talk:followed",
            "In a thread in which somebody has spoken to the bot, what is said without a mention reaches the "
            "conversation, also while the mention is not stored yet.",
            "one indexed read, and where it finds nothing and the thread is younger than ten minutes, a question to "
            "Temporal whether the conversation runs (`gateway/placing.py`).",
            (
                "A word that follows the first mention in an older thread, or comes while Temporal does not answer, "
                "is found by the catch-up if it comes before the mention is stored.",
                "An edit that brings a mention into a thread where nobody has spoken to the bot begins nothing, until "
                "the catch-up reads the message as it is by then.",
            ),
        ),
        Promise(
            "intake:talk:database-away",
            "While the database does not say whether a thread is a conversation's, an event of that thread is not "
            "acknowledged, and comes again; a mention and a direct message need no database.",
            "a refusal within a second instead of a guess (`gateway/placing.py`).",
        ),
        Promise(
            "intake:talk:stop",
            "A word to stop in a conversation's thread, and a stop sign on any message of it, reach the conversation "
            "as that; beside the threads of a direct channel, a word to stop reaches the one at work, stored or not.",
            "`domain/phrases.py` for words that are the whole message, and the message's place in the database for "
            "signs (`gateway/events.py`, `gateway/placing.py`); what Temporal lists for a direct channel.",
            ("A stop sign that Slack gave up delivering is not found again: history does not say when it was put.",),
        ),
        Promise(
            "intake:routing:overtaking-reply",
            "A reply or an edit that comes before its report is part of the report's case.",
            "whoever opens a thread without its report fetches the report from Slack "
            "(`workflows/bug_investigation.py`).",
            (
                "Only within 15 minutes of the report, or for its own reporter: what an old message is told does not "
                "open a case for it.",
            ),
        ),
        Promise(
            "intake:signal:any-arguments",
            "A signal with any arguments, of any number and shape, is taken; one that cannot be read is kept in "
            "quarantine with its text, and its case goes on.",
            "handlers that take anything, and a parser that never raises (`workflows/bug_investigation.py`, "
            "`domain/messages.py`): Temporal drops a signal that does not decode, and one of the wrong arity would "
            "fail the workflow's task for ever.",
        ),
        Promise(
            "intake:text:storable",
            "Every text can be stored: what neither JSON nor Postgres takes is left out.",
            "`clean` in `domain/messages.py`, before the signal, and again before the row.",
            ("*Length.* A text is cut at 40,000 characters, where Slack cuts, too.",),
        ),
        Promise(
            "intake:identity:microsecond",
            "The same timestamp in two channels is two messages, and an edit and a deletion are not their original.",
            "ids that come from Slack: team, channel, timestamp, and the kind and version of a correction "
            "(`domain/addressing.py`).",
        ),
        Promise(
            "intake:storing:once",
            "A message is stored once, however often it is delivered, signalled or flushed, and by however many at "
            "once.",
            "ids that are unique in the database, and the case row's lock (`db/intake.py`): a repeated delivery, a "
            "retry and a lost answer change nothing.",
        ),
        Promise(
            "intake:storing:one-case",
            "However many deliveries and workers meet at a new report, it becomes one case.",
            "signal-with-start under an id made of the thread (`gateway/dispatch.py`), and a unique row for the thread "
            "(`db/intake.py`).",
        ),
        Promise(
            "intake:storing:never-gives-up",
            "Storing is tried again until it succeeds, also after an error that looks permanent, and a message leaves "
            "the workflow's inbox only when its flush has returned.",
            "`NEVER_GIVE_UP` in `contracts/options.py`, and the order of steps in `workflows/thread_run.py`.",
        ),
        Promise(
            "intake:storing:fault-suspends",
            "A fault that nobody foresaw fails the workflow's task, and never its run: what was accepted stays in its "
            "history for a mended worker.",
            "`to_its_end` in `workflows/thread_run.py`, which lets no failure out that would end the run.",
        ),
        Promise(
            "intake:storing:quarantine",
            "A row that Postgres refuses is kept in quarantine, with the reason, and holds up no other message.",
            "storing one by one when the batch is refused (`db/intake.py`).",
        ),
        Promise(
            "intake:storing:continue-as-new",
            "A run that continues as new loses no message, at whatever point it does, and carries no more than one "
            "batch of 256 KiB.",
            "no wait between the last look at the inbox and the end of a run, and an inbox that the workflow's state "
            "carries (`workflows/bug_investigation.py`, `workflows/inbox.py`).",
        ),
        Promise(
            "intake:storing:after-the-end",
            "A message that comes after the end of a case's run starts a new run, which finds its case.",
            "signal-with-start with an id that may be used again (`gateway/dispatch.py`), and a workflow whose every "
            "decision follows from the database (`workflows/bug_investigation.py`).",
        ),
        Promise(
            "intake:cancel:stored-then-closed",
            "Cancelling a workflow in Temporal's UI stores what has arrived and closes the case.",
            "`workflows/thread_run.py`, which takes a cancellation for a wish and not for an end.",
        ),
        Promise(
            "intake:terminate:carries-on",
            "After Temporal's Terminate the next message in the thread starts a run that carries on from the database.",
            "the status and what is due are read from the database by every run (`db/case_row.py`).",
            (
                "*Terminate.* Temporal's Terminate ends a run where it stands; what was signalled and not yet stored "
                "is gone with it, until the catch-up finds it in Slack. Use Cancel, or `threadline cases resolve`.",
            ),
        ),
        Promise(
            "intake:storing:chaos",
            "Each message is stored once, as it reads now, under bursts, duplicates, disorder, lost and late results "
            "and frequent continue-as-new, whichever process is killed, and also where Slack gives up or Terminate "
            "takes it away.",
            "the order of acknowledgement, unique ids, the catch-up; `make chaos`: seeds of people, deeds and faults "
            "on the devstack's processes, with an oracle that knows every message (`tests/chaos/oracle.py`) and is "
            "itself tested for seeing each kind of loss.",
            (
                "Its waits after a crash are shorter than the product's (`tests/chaos/hurry.py`).",
                "Of several edits that nobody delivered the last is found, since Slack shows no other; of a message "
                "that was deleted meanwhile, nothing.",
            ),
        ),
        Promise(
            "intake:reply:thread-not-registered",
            "A developer's reply under a root whose post was never confirmed reaches its case.",
            "the post's metadata, which `forward_reply` reads when the database does not know the thread.",
            ("Whoever deletes the root deletes what would have told.",),
        ),
    ),
)
