"""What the bot says of its own accord: short Markdown, one function for each occasion. Pure."""

from datetime import UTC, datetime

from threadline.cases.contract import NoticeKind
from threadline.cases.model import Reason
from threadline.cases.sla import SlaEventKind
from threadline.conversations.contract import WordKind

_REOPEN = "Write in this thread to reopen it."

_ENDED = {
    Reason.REPORTER_CLOSED: "closed, as its reporter asked.",
    Reason.AGENT_RESOLVED: "resolved.",
    Reason.NO_REPLY: "resolved, because nobody has answered for a while.",
    Reason.FIX_MERGED: "resolved: its fix was merged.",
    Reason.OPERATOR_CANCELLED: "closed by whoever runs this bot.",
    Reason.OPERATOR_RESOLVED: "resolved by whoever runs this bot.",
}

_SLA = {
    SlaEventKind.ACKNOWLEDGE_REMINDER: "half of the time to acknowledge it has passed.",
    SlaEventKind.ACKNOWLEDGE_BREACH: "nobody has acknowledged it in time.",
    SlaEventKind.RESOLVE_REMINDER: "half of the time to resolve it has passed.",
    SlaEventKind.RESOLVE_BREACH: "it was not resolved in time.",
    SlaEventKind.DAILY_REMINDER: "it is still open.",
}


def notice(kind: NoticeKind, bug_id: str, detail: str = "") -> str:
    """The text of a notice.

    Args:
        detail: the sentence of what went wrong, where something did; never given for the reporter's thread, since it
            names channels, repositories and settings.
    """
    because = f": {detail}" if detail else "."
    return {
        NoticeKind.INTAKE: f"Thank you, this is **{bug_id}**. I am investigating it and will answer in this thread. "
        "Write here if you have more to add. Write *never mind* to close the case.",
        NoticeKind.FORWARDED: ":mag: Your message has been forwarded to the investigation.",
        NoticeKind.QUESTION_UNANSWERED: "I have no answer to my question yet, so I am continuing with what I know. "
        "You can still answer here.",
        NoticeKind.REOPENED: f"**{bug_id}** is open again. I am reading your message.",
        NoticeKind.UNDELIVERABLE: f"My findings on **{bug_id}** could not be posted in the developers' channel. "
        "They are saved. Please tell whoever runs this bot.",
        NoticeKind.NOBODY_CALLED: f"**{bug_id}** needs a person, but I could not call anyone{because} "
        "Please tell the developers yourself.",
        NoticeKind.FIX_REFUSED: f"No pull request was opened for **{bug_id}**{because}",
    }[kind]


def ended(bug_id: str, reason: Reason, *, last_words: str = "", fix: str = "") -> str:
    """How a case ended, and how it is reopened.

    Args:
        last_words: why, in the words of the agent (those for this audience) or of the operator who resolved it.
        fix: what is said of a fix that was proposed; a merged one is told by the reason.
    """
    left = "" if reason is Reason.FIX_MERGED else fix
    return "\n\n".join(filter(None, (f"**{bug_id}** is {_ENDED[reason]}", last_words, left, _REOPEN)))


def fix_left(url: str = "") -> str:
    """Of a fix that nobody has merged; the reporter is not told where it is."""
    return f"A fix was proposed{f' at {url}' if url else ''}; it is left as it is."


SUMMARY_ROOT = "Findings follow in this thread. Answer here at any time: your messages are part of the investigation."
"""Under the headline of a case's thread in the summaries channel."""


def with_people(bug_id: str, told: str) -> str:
    """For the reporter of an escalated case; `told` is what the agent wrote for them, if anything."""
    return f"**{bug_id}** is now with people. {told or 'They have been called and will take it from here.'}"


def escalation(why: str) -> str:
    return f"{why}\n\nAnswer in this thread. Your messages are added to the case."


def sla(bug_id: str, kind: SlaEventKind) -> str:
    return f"**{bug_id}**: {_SLA[kind]}"


def pull_request(bug_id: str, url: str) -> str:
    return (
        f"A fix for **{bug_id}** is proposed: {url}\n\nIt is a draft. Please review it. "
        "Say here whether it is good or what should change."
    )


def pull_request_left(bug_id: str, url: str) -> str:
    return f"A fix for **{bug_id}** had been pushed when the case was closed: {url}. It is left as it is."


def fix_proposed(bug_id: str) -> str:
    """For the reporter, who need not know where."""
    return f"I have proposed a fix for **{bug_id}** to the developers. I will post the outcome here."


def word(kind: WordKind, until: float = 0.0) -> str:
    """A short text beside a conversation's answers; `until` is in seconds since 1970."""
    if kind is WordKind.THROTTLED:
        return (
            "You are writing faster than I can answer, so I have skipped your last messages. "
            "Please wait a minute, then send again what you still need."
        )
    if kind is WordKind.NOT_SHOWN:
        return (
            "Your last message could not be shown to the person who took this over, so they have not seen it. "
            "Please send it again later, or contact them another way."
        )
    waits = f" until {datetime.fromtimestamp(until, UTC):%H:%M} UTC" if until else ""
    return (
        "My language model is not answering at the moment. Your message is saved. I keep trying"
        f"{waits} and answer here as soon as the model is back. Write *stop* to cancel."
    )


DELETED = "The message was deleted, so there is nothing for me to answer. Write again when you need me."
NO_MODEL = (
    "I cannot answer yet, because I have no language model. Please ask whoever runs this bot to set OPENAI_API_KEY."
)
TOO_LONG = (
    "This thread is too long for my language model, even after I shortened it. "
    "Please start a new thread and tell me there what matters from this one."
)


def no_answer(reason: str) -> str:
    """For the person whose turn has none; `reason` is the model's side of it as a sentence without internals."""
    return f"I have no answer for you, because my language model did not give one. {reason}"
