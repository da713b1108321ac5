"""What a case says in Slack: findings, the question, and short texts, one function for each occasion. Pure."""

from threadline.cases.model import DAY, HOUR, MINUTE, NoticeKind, Reason, SlaEventKind, SlaTarget
from threadline.cases.outcome import TurnPost
from threadline.forge.pull_requests import OpenedPullRequest
from threadline.privacy.redaction import redact
from threadline.slack import formatting
from threadline.slack.mrkdwn import escape
from threadline.slack.splitting import open_fence, split_markdown

_REOPEN = "Write in this thread to reopen it."

_ENDED = {
    Reason.REPORTER_CLOSED: "closed, as its reporter asked.",
    Reason.AGENT_RESOLVED: "resolved.",
    Reason.NO_REPLY: "resolved, because nobody has answered for a while.",
    Reason.FIX_MERGED: "resolved: its fix was merged.",
    Reason.OPERATOR_CANCELLED: "closed by the admin.",
    Reason.OPERATOR_RESOLVED: "resolved by the admin.",
}

_SLA = {
    SlaEventKind.ACKNOWLEDGE_REMINDER: "half of the time to answer has passed, and nobody has written here yet. "
    "If you look at it, please say so in this thread.",
    SlaEventKind.ACKNOWLEDGE_BREACH: "nobody has answered in time. Please take it up now, and say so in this thread.",
    SlaEventKind.RESOLVE_REMINDER: "half of the time to resolve it has passed. "
    "Please write in this thread how it is going; I pass it on to the investigation.",
    SlaEventKind.RESOLVE_BREACH: "it was not resolved in time. "
    "Please take it up now, and write in this thread what stands in the way.",
    SlaEventKind.DAILY_REMINDER: "it is still open. I remind you once a day; "
    "please write in this thread once it is solved.",
}

SUMMARY_ROOT = "Findings follow in this thread. Answer here at any time: your messages are part of the investigation."
"""Under the headline of a case's thread in the summaries channel."""


def findings_message(found: TurnPost) -> tuple[formatting.Rendered, ...]:
    """A headline, the agent's text in as many parts as it needs, and a last line with turn, cost and pull request."""
    parts = split_markdown(_findings_text(found), formatting.PART_LIMIT)
    title = redact(found.case.title)
    messages = []
    for number, part in enumerate(parts, start=1):
        count = f" ({number}/{len(parts)})" if len(parts) > 1 else ""
        head = (_findings_head(found, title),) if number == 1 else ()
        foot = (_findings_foot(found),) if number == len(parts) else ()
        text = formatting.fallback_text(f"{found.case.bug_id}: {title}{count}", part)
        messages.append(formatting.Rendered(text=text, blocks=(*head, formatting.markdown(part), *foot)))
    return tuple(messages)


def question_message(bug_id: str, reporter: str, text: str) -> tuple[formatting.Rendered, ...]:
    return formatting.notice(text, mentions=(reporter,), headline=f"A question about {bug_id}")


def reporter_asked_text(bug_id: str, question: str) -> str:
    """For people on call whose question needs the reporter first."""
    quoted = "\n".join(f"> {line}" for line in question.strip().splitlines())
    return f"I have asked the reporter of **{bug_id}** first:\n\n{quoted}\n\nI will answer here when they have replied."


def notice_text(kind: NoticeKind, bug_id: str, detail: str = "") -> str:
    """The text of a notice. `detail` is a sentence about what failed. Never give it for the reporter's thread: it names
    channels, repositories and settings."""
    because = f": {detail}" if detail else "."
    return {
        NoticeKind.INTAKE: f"Thank you, this is **{bug_id}**. I am investigating it and will answer in this thread. "
        "Write here if you have more to add. Write *never mind* to close the case.",
        NoticeKind.FORWARDED: ":mag: Your message has been forwarded to the investigation. "
        "The answer follows in this thread.",
        NoticeKind.QUESTION_UNANSWERED: "I have no answer to my question yet, so I am continuing with what I know. "
        "You can still answer here.",
        NoticeKind.REOPENED: f"**{bug_id}** is open again. I am reading your message.",
        NoticeKind.UNDELIVERABLE: f"My findings on **{bug_id}** could not be posted in the developers' channel. "
        "They are saved. Please tell the admin, who can see the reason.",
        NoticeKind.NOBODY_CALLED: f"**{bug_id}** needs a person, but I could not call anyone{because} "
        "Please tell the developers yourself. The case stays open until they answer.",
        NoticeKind.WAITS_FOR_MENDING: f"I cannot work on **{bug_id}** right now, because something on my side has to "
        "be repaired. The admin has been told. I go on by myself as soon as it works again.",
        NoticeKind.WAITS_FOR_WORKER: f"I cannot investigate **{bug_id}** yet, because my worker is not running. "
        "The admin has been told. I start by myself as soon as it runs again.",
        NoticeKind.FIX_REFUSED: f"No pull request was opened for **{bug_id}**{because} "
        "The fix is saved. Please ask for it here again once that is solved.",
    }[kind]


def closing_text(bug_id: str, reason: Reason, *, explanation: str = "", fix: str = "") -> str:
    """How a case ended, and how to reopen it. `explanation`: why, in the agent's words for this audience, or in those
    of the operator who resolved it. `fix`: a sentence about a proposed fix, which is left out for a merged one."""
    open_fix = "" if reason is Reason.FIX_MERGED else fix
    return "\n\n".join(filter(None, (f"**{bug_id}** is {_ENDED[reason]}", explanation, open_fix, _REOPEN)))


def unmerged_fix_text(url: str = "") -> str:
    """A fix that nobody has merged. The reporter is not told its address."""
    return f"A fix was proposed{f' at {url}' if url else ''}; it is left as it is."


def escalation_text(why: str, target: SlaTarget) -> str:
    """For the people on call: why they are called, and what they are asked to do until when."""
    return (
        f"{why}\n\nPlease answer in this thread within {duration_text(target.acknowledge)}, and resolve it within "
        f"{duration_text(target.resolve)}. Your messages are added to the case, and I answer your questions here."
    )


def escalated_text(bug_id: str, told: str, target: SlaTarget) -> str:
    """An escalation for the reporter; `told` is what the agent wrote for them, if anything."""
    words = [f"**{bug_id}** needs a person, and I have called the people on call.", told]
    words.append(f"They aim to look at it within {duration_text(target.acknowledge)}, and I post here how it ends.")
    return " ".join(filter(None, words))


def duration_text(seconds: float) -> str:
    """A length of time in the largest unit that has no remainder: `15 minutes`, `24 hours`, `5 days`."""
    for unit, name in ((DAY, "day"), (HOUR, "hour")):
        if seconds > unit and seconds % unit == 0:
            return f"{seconds / unit:.0f} {name}s"
    if seconds == HOUR:
        return "1 hour"
    minutes = max(1, round(seconds / MINUTE))
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


def sla_text(bug_id: str, kind: SlaEventKind) -> str:
    return f"**{bug_id}**: {_SLA[kind]}"


def pull_request_text(bug_id: str, fix: OpenedPullRequest) -> str:
    if fix.number is None:
        form = "It is a pushed branch, without a pull request. Please review it."
    elif fix.draft:
        form = "It is a draft. Please review it."
    else:
        form = "It is an ordinary pull request, since it could not be a draft. Please review it before it is merged."
    return f"A fix for **{bug_id}** is proposed: {fix.url}\n\n{form} Say here whether it is good or what should change."


def late_pull_request_text(bug_id: str, fix: OpenedPullRequest) -> str:
    """A pull request whose case was closed before it was opened."""
    return f"A fix for **{bug_id}** had been pushed when the case was closed: {fix.url}. It is left as it is."


def fix_proposed_text(bug_id: str) -> str:
    """A fix for the reporter, without its address."""
    return f"I have proposed a fix for **{bug_id}** to the developers. I will post the outcome here."


def _findings_head(found: TurnPost, title: str) -> formatting.Block:
    facts = [f"Severity {found.case.severity}", f"confidence {found.outcome.confidence:.0%}"]
    if found.case.components:
        facts.append("components " + formatting.one_line(redact(", ".join(found.case.components))))
    facts.append(f"reported by {formatting.mention(found.case.reporter_id)}")
    return formatting.section(f"*{escape(found.case.bug_id)}: {formatting.one_line(title)}*\n{' · '.join(facts)}")


def _findings_text(found: TurnPost) -> str:
    outcome = found.outcome
    evidence = [f"- `{_code(item.file)}:{item.line}`: {' '.join(item.note.split())}" for item in outcome.evidence]
    actions = [f"{number}. {action.strip()}" for number, action in enumerate(outcome.recommended_actions, start=1)]
    sections = (
        ("Summary", outcome.summary or outcome.clarification_question),
        ("Root cause", outcome.root_cause),
        ("Evidence", "\n".join(evidence)),
        ("Recommended actions", "\n".join(actions)),
    )
    written = [f"## {name}\n\n{text.strip() + open_fence(text.strip())[1]}" for name, text in sections if text.strip()]
    body = redact("\n\n".join(written)) or "The turn ended without a text."
    return formatting.escape_mentions(body, (found.case.reporter_id,))


def _findings_foot(found: TurnPost) -> formatting.Block:
    words = [f"Turn {found.turn}", f"${found.cost_usd:.2f}"]
    if found.fix_url:
        words.append(formatting.link(found.fix_url, "Pull request"))
    return formatting.context(" · ".join(words))


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())
