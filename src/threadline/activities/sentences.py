"""What the bot says of its own accord: short Markdown, one function for each occasion. Pure."""

from threadline.contracts.bug import NoticeKind
from threadline.domain.bug import Reason
from threadline.domain.sla import SlaEventKind

_REOPEN = "Write in this thread to reopen it."

_ENDED = {
    Reason.REPORTER_CLOSED: "closed, as its reporter asked.",
    Reason.AGENT_RESOLVED: "resolved.",
    Reason.NO_REPLY: "resolved, since nobody has answered for a while.",
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
    """The text of a notice; `detail` is the sentence of what went wrong, where something did."""
    return {
        NoticeKind.INTAKE: f"Thank you, this is **{bug_id}**. I am looking into it, and will answer in this thread. "
        "Write here whenever you have more; *never mind* closes it.",
        NoticeKind.FORWARDED: ":mag: Your message has been forwarded to the investigation.",
        NoticeKind.QUESTION_UNANSWERED: "I have had no answer to my question, so I go on with what is known. "
        "You can still answer here.",
        NoticeKind.REOPENED: f"**{bug_id}** is open again: I am looking at what you wrote.",
        NoticeKind.UNDELIVERABLE: f"Something about **{bug_id}** could not be posted where it belongs: {detail} "
        f"It is kept; `threadline cases show {bug_id}` prints it.",
        NoticeKind.NOBODY_CALLED: f"**{bug_id}** needs people, and nobody could be called: {detail} "
        "Please tell the developers yourself.",
        NoticeKind.FIX_REFUSED: f"No pull request was opened for **{bug_id}**: {detail}",
    }[kind]


def ended(bug_id: str, reason: Reason, *, last_words: str = "", pull_request: str = "") -> str:
    """How a case ended, and how it is reopened.

    Args:
        last_words: why, in the words of the agent or the operator who resolved it.
        pull_request: the address of a fix that was proposed and is not merged.
    """
    parts = [f"**{bug_id}** is {_ENDED[reason]}"]
    if last_words:
        parts.append(last_words)
    if pull_request and reason is not Reason.FIX_MERGED:
        parts.append(f"A fix was proposed at {pull_request}; it is left as it is.")
    return "\n\n".join([*parts, _REOPEN])


SUMMARY_ROOT = "Findings follow in this thread. Answer here at any time: whatever you write reaches the investigation."
"""Under the headline of a case's thread in the summaries channel."""


def escalation(why: str) -> str:
    return f"{why}\n\nAnswer in this thread: whatever you write reaches the case."


def sla(bug_id: str, kind: SlaEventKind) -> str:
    return f"**{bug_id}**: {_SLA[kind]}"


def pull_request(bug_id: str, url: str) -> str:
    return (
        f"A fix for **{bug_id}** is proposed: {url}\n\nIt is a draft: please review it. "
        "Say here when it is good, or what should change."
    )


def pull_request_left(bug_id: str, url: str) -> str:
    return f"A fix for **{bug_id}** had been pushed when the case was closed: {url}. It is left as it is."


def fix_proposed(bug_id: str) -> str:
    """For the reporter, who need not know where."""
    return f"The developers have a proposed fix for **{bug_id}** before them. I will say here how it ends."
