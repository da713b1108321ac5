"""What is promised of secrets, of words that are not for everybody, and of people from elsewhere."""

from tests.promises.promise import Area, Promise

PRIVACY = Area(
    "privacy",
    "What is private stays private",
    "Recognised secrets are gone before anything stores them, and the reporter's thread gets what is meant for it.",
    (
        Promise(
            "privacy:redaction:known-secrets",
            "A secret of a known format becomes a mark that names its kind.",
            "the rules of `detect-secrets` and a list of our own (`domain/redaction.py`, `domain/secret_rules.py`).",
            ("docs/privacy.md counts and names those that are missed.",),
        ),
        Promise(
            "privacy:redaction:innocent-text",
            "The language of bug reports stays as it is.",
            "values that must look like secrets, not only stand where one could (`domain/secret_shapes.py`).",
            ("What is counted is a corpus of our own: docs/privacy.md.",),
        ),
        Promise(
            "privacy:redaction:linear-time",
            "No text of 40,000 characters holds the gateway up.",
            "patterns whose starts do not overlap, and hints that are looked for first.",
        ),
        Promise(
            "privacy:redaction:before-the-signal",
            "Temporal never holds a recognised secret of a message.",
            "the envelope, the one way from an event to a signal (`gateway/post.py`); the catch-up goes it, too.",
            ("Slack keeps the original.", "What stands in attached files is stored as it is."),
        ),
        Promise(
            "privacy:redaction:nothing-in-temporal",
            "Also without keys for encryption, a recognised secret is nowhere in Temporal's database.",
            "redaction before the signal, and failures that carry no cause (`activities/faults.py`).",
        ),
        Promise(
            "privacy:redaction:stored",
            "What an older gateway sent, or nobody could read, is stored without its secret.",
            "the flush, which redacts again (`activities/cases.py`).",
            ("Temporal has that signal already.",),
        ),
        Promise(
            "privacy:redaction:fetched-report",
            "A report that is fetched from Slack comes without its secret.",
            "`fetch_report` (`activities/intake.py`).",
        ),
        Promise(
            "privacy:redaction:posts",
            "What the agent read is posted without its secret.",
            "formatting, before anything is cut, and the one place that posts (`slack/formatting.py`).",
            ("A proposed fix is a diff of the repository's code, and is not redacted.",),
        ),
        Promise(
            "privacy:redaction:tools",
            "The model is shown no recognised secret of a row or a log line that it queries.",
            "the results of the case's tools (`agents/investigator/tools.py`).",
            ("Files that it reads are shown as they are.",),
        ),
        Promise(
            "privacy:redaction:findings",
            "An outcome is stored without secrets.",
            "`activities/turns.py`.",
            ("The agent's transcript holds what it has read.",),
        ),
        Promise(
            "privacy:redaction:logs",
            "No part of a log line holds a recognised secret, tracebacks included.",
            "a processor of every line (`telemetry.py`).",
            ("What is written to standard error before logs are set up.",),
        ),
        Promise(
            "privacy:logs:no-text",
            "Logs at INFO hold no text of a message.",
            "events with ids and counts instead of words.",
            ("The words of an error may quote what it failed of.",),
        ),
        Promise(
            "privacy:audience:no-crossing",
            "Nothing that is marked internal is said in the reports channel, whatever way a case goes.",
            "an outcome with words for the reporter and others for developers (`activities/threads.py`, "
            "`domain/audience.py`).",
            ("An operator's reason is told in both threads.", "A question is the agent's own words to the reporter."),
        ),
        Promise(
            "privacy:audience:internal-kept-back",
            "Words for the reporter that repeat something internal are not shown.",
            "a comparison with every other field of the same outcome, and a look for code, paths and addresses "
            "(`domain/audience.py`).",
            (
                "A paraphrase is not recognised, nor a component whose name is a plain word, nor a site inside the "
                "house that looks like one outside.",
                "What the reporter has said or attached may be said to them.",
            ),
        ),
        Promise(
            "privacy:audience:schema",
            "The agent must write for both audiences; what is wrong is given back once, and no turn is lost over it: "
            "a question that still holds something internal goes to the developers.",
            "`agents/investigator/outcome.py`, `agents/investigator/runner.py`.",
            ("Whether the words are good is the model's.",),
        ),
        Promise(
            "privacy:audience:old-results",
            "Results from before there were two audiences are told in neutral words.",
            "`activities/sentences.py`.",
        ),
        Promise(
            "privacy:audience:bots-own-words",
            "The bot's own notices to reporters name no command, setting, path or failure.",
            "`activities/sentences.py`.",
        ),
        Promise(
            "privacy:external-people:refused",
            "Guests, strangers and people of other companies reach no case, and are counted. A file of theirs becomes "
            "no RFP until somebody of the workspace has shared it in the thread.",
            "a look-up of who somebody is, remembered for an hour (`gateway/doorkeeper.py`), and for files "
            "`activities/having_a_say.py`.",
            ("Somebody who becomes a guest counts for up to an hour more.",),
        ),
        Promise(
            "privacy:external-people:allowed-by-channel",
            "In the channels of THREADLINE_EXTERNAL_PEOPLE they count like others.",
            "`gateway/doorkeeper.py`.",
        ),
        Promise(
            "privacy:external-people:never-guessed",
            "While Slack does not say who somebody is, nothing is acknowledged, and nothing is made of a file.",
            "a refusal, after which Slack delivers again; what it gives up on the catch-up finds.",
        ),
        Promise(
            "privacy:external-people:acknowledged-stays",
            "A reply that was acknowledged reaches its case, whoever its author has become since.",
            "a door that is asked once, before Slack is told to forget the reply (`gateway/dispatch.py`).",
        ),
        Promise(
            "privacy:encryption:nothing-in-clear",
            "With THREADLINE_PAYLOAD_KEYS Temporal's database holds nothing that people or the agent said.",
            "a codec over every payload, and failures that are encoded (`payloads/encryption.py`).",
            (
                "Ids, search attributes, types of errors, sizes and times stay in clear: docs/encryption.md.",
                "So does a person's reason for a Cancel, Terminate or Reset, and what is sent past the codec.",
            ),
        ),
        Promise(
            "privacy:encryption:turn-on",
            "Keys can be turned on over open cases.",
            "payloads without encryption, which are still read, and keys that decrypt before any encrypts "
            "(`payloads/keys.py`).",
            (
                "A forged payload in clear is accepted, too.",
                "In one step instead of two, attempts of a step fail while one process lacks the key.",
            ),
        ),
        Promise(
            "privacy:encryption:rotation",
            "Keys rotate under open cases, and old histories replay.",
            "the key's id beside each payload; the first key encrypts, all decrypt (`payloads/keys.py`).",
            ("An old key stays listed until the namespace's retention is over.",),
        ),
        Promise(
            "privacy:encryption:missing-key",
            "A payload under a missing key names the key; nothing is lost or escalated meanwhile.",
            "a codec that is always installed, and workflow tasks that wait (`workflows/calls.py`).",
            ("A turn is tried for an hour; attachments five times, and what is cosmetic less.",),
        ),
        Promise(
            "privacy:encryption:tampering",
            "A payload that was changed is refused.",
            "AES-256-GCM, with the key's id authenticated.",
            ("Whole payloads can be swapped or repeated by whoever can write to Temporal's database.",),
        ),
        Promise(
            "privacy:encryption:bad-keys",
            "Wrong keys are one sentence that shows no key.",
            "`payloads/keys.py`.",
        ),
        Promise(
            "privacy:codec-server:authorised",
            "Who does not show the token of the codec server is shown nothing.",
            "a comparison in constant time and a signed cookie (`payloads/server.py`); beyond loopback it does not "
            "start without a token.",
            (
                "On loopback a token is needed only when one is set.",
                "It knows no rights of single people.",
                "A browser sends the cookie to every server at the same host name, whatever its port.",
            ),
        ),
        Promise(
            "privacy:codec-server:origins",
            "Pages of other origins are refused by the codec server.",
            "the Origin header, looked at before all else (`payloads/server.py`).",
            ("A program that is no browser needs only the token.",),
        ),
        Promise(
            "privacy:codec-server:ui",
            "With keys, the devstack's Temporal UI is told of a codec server that decrypts.",
            "`--ui-codec-endpoint` (`devstack/temporal.py`).",
        ),
    ),
)
