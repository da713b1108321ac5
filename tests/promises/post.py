"""What is promised of what the bot says."""

from tests.promises.promise import Area, Promise

POST = Area(
    "post",
    "Each answer is posted once",
    "Each answer is posted once; what can still go wrong there is small and written down.",
    (
        Promise(
            "post:reply:answer-lost",
            "A post whose answer was lost, came too late, or was not remembered, is in Slack once.",
            "a ledger, since Slack has no key by which it would know a post again (`slack/posts.py`): a post is "
            "claimed under a business key before it is sent, carries the key in its metadata, and a retry first looks "
            "for it in the thread.",
            (
                "A reply appears twice when Slack stores it more than 30 s after the call for it was given up, when "
                "somebody deletes it before the look, or when an attempt lay frozen between its claim and its call for "
                "longer than the lease.",
                "The clocks of the workers may differ from Slack's by up to five minutes.",
            ),
        ),
        Promise(
            "post:reply:no-early-look",
            "Nobody looks for a post before the slowest way of storing it could have ended: 40 s after the claim at "
            "the earliest.",
            "times that depend on each other (`slack/posts.py`): one call ends within 10 s, an attempt of most posts "
            "within 30 s, a claim holds for 45 s.",
        ),
        Promise(
            "post:reply:one-of-many",
            "Of several attempts at the same post at once, one sends.",
            "one row for each key (`db/post_ledger.py`).",
        ),
        Promise(
            "post:reply:after-a-refusal",
            "After a refusal or a rate limit of Slack's the next attempt may send at once, and only its holder gives a "
            "claim up.",
            "`slack/posts.py`, `slack/errors.py`.",
        ),
        Promise(
            "post:root:later-than-twice",
            "A message outside a thread is looked for and sent again not before 130 s after its claim.",
            "a longer grace for what is worse twice than late (`slack/posts.py`).",
            (
                "A message outside a thread, such as the call for people when a case is escalated, waits until 130 s "
                "after its claim before it is looked for and sent again: later is better there than twice, and twice "
                "is better than never.",
            ),
        ),
        Promise(
            "post:parts:whole",
            "A long text comes in numbered parts, of which nothing is lost, each within Slack's limits; when they are "
            "interrupted, they go on where they were.",
            "a key for each part (`slack/posts.py`), and `slack/formatting.py`.",
        ),
        Promise(
            "post:case:outlived",
            "What its case has outlived is not said: no reminder after the end.",
            "the claim of a post looks at the case's status (`db/posts.py`).",
        ),
        Promise(
            "post:channel:closed",
            "Findings that cannot be posted for developers, and people who cannot be called, are told in the report's "
            "thread.",
            "`workflows/bug_case.py`.",
        ),
        Promise(
            "post:reaction:cosmetic",
            "A reaction is there once however often it is added.",
            "`slack/client.py`.",
            ("Reactions are cosmetic: tried twice, and left out when Slack is busy.",),
        ),
        Promise(
            "post:mention:nobody-called",
            "What posts is escaped: a text that is not ours calls nobody, but for the reporter whom a question or "
            "findings are for and the people on call.",
            "`slack/formatting.py`.",
        ),
        Promise(
            "post:once:chaos",
            "Under chaos, too, each question, finding, escalation and last closing is seen once.",
            "the ledger and the metadata of posts; the oracle of `make chaos` counts in the sandbox.",
            (
                "What tells developers that somebody wrote is cosmetic, and may be left out.",
                "Terminate amid a post, and the case's end before its next run comes to that: it is seen, and its "
                "claim stays in the ledger.",
            ),
        ),
    ),
)
