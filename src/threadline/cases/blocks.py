"""The texts of a case in Slack: findings, the question, and short texts, one function for each
occasion. Pure.
"""

from threadline.cases.model import (
    DAY,
    HOUR,
    MINUTE,
    SOLVED,
    Action,
    CaseRecord,
    CaseStatus,
    NoticeKind,
    Reason,
    SlaEventKind,
    SlaTarget,
)
from threadline.cases.outcome import StoredOutcome, TurnPost
from threadline.forge.model import PullRequest
from threadline.models.prices import cost_text
from threadline.privacy.redaction import redact
from threadline.slack import formatting
from threadline.slack.model import permalink
from threadline.slack.mrkdwn import escape
from threadline.slack.splitting import open_fence

_REOPEN = "Write in this thread to reopen it."

_ENDED = {
    Reason.REPORTER_CLOSED: "closed, as its reporter asked.",
    Reason.AGENT_RESOLVED: "resolved.",
    Reason.NO_REPLY: "resolved, because nobody has answered for a while.",
    Reason.FIX_MERGED: "resolved: its fix was merged.",
    Reason.ADMIN_CANCELLED: "closed by the admin.",
    Reason.ADMIN_RESOLVED: "resolved by the admin.",
}

_SLA = {
    SlaEventKind.ACKNOWLEDGE_REMINDER: (
        "half of the time to answer has passed, and nobody has written here yet. "
        "If you are looking into it, please say so in this thread."
    ),
    SlaEventKind.ACKNOWLEDGE_BREACH: (
        "nobody has answered in time. Please take it up now, and say so in this thread."
    ),
    SlaEventKind.RESOLVE_REMINDER: (
        "half of the time to resolve it has passed. "
        "Please write in this thread how it is going. I pass it on to the investigation."
    ),
    SlaEventKind.RESOLVE_BREACH: (
        "it was not resolved in time. Please take it up now, and write in this thread what "
        "is blocking it."
    ),
    SlaEventKind.DAILY_REMINDER: (
        "it is still open. I will remind you once a day. Please write in this thread when it is "
        "solved."
    ),
}

_INVITATION = (
    "Findings are in this thread. Answer there at any time: your messages are part of the "
    "investigation."
)
"""Last line of a case's card."""
_STATUSES = {
    CaseStatus.NEW: ":mag: Investigating",
    CaseStatus.INVESTIGATING: ":mag: Investigating",
    CaseStatus.AWAITING_REPORTER: ":hourglass: Waiting for the reporter",
    CaseStatus.PENDING_VERIFICATION: ":bell: Waiting for developers",
    CaseStatus.ESCALATED: ":rotating_light: People are called",
}


def findings_message(found: TurnPost) -> tuple[formatting.Rendered, ...]:
    """Render a turn's findings as one or more messages.

    They have a headline, the agent's text in as many parts as it needs, and a last line with turn,
    cost and pull request.
    """
    parts = formatting.split_parts(_findings_text(found))
    title = redact(found.case.title)
    messages = []
    for number, part in enumerate(parts, start=1):
        count = f" ({number}/{len(parts)})" if len(parts) > 1 else ""
        head = (_findings_head(found, title),) if number == 1 else ()
        foot = (_findings_foot(found),) if number == len(parts) else ()
        text = formatting.fallback_text(f"{found.case.bug_id}: {title}{count}", part)
        messages.append(
            formatting.Rendered(text=text, blocks=(*head, formatting.markdown(part), *foot))
        )
    return tuple(messages)


def card_message(case: CaseRecord, workspace: str = "") -> tuple[formatting.Rendered, ...]:
    """Render a case's card, the root of its thread in the summaries channel.

    Args:
        case: The case as it is now.
        workspace: The workspace's address, for the link to the report; may be empty.
    """
    title = formatting.one_line(redact(case.title))
    status = _status_text(case)
    facts = [
        f"Severity {case.severity}",
        f"reported by {formatting.mention(case.reporter_id)}",
        *_components(case),
        f"cost {cost_text(case.cost_usd, digits=2)}",
    ]
    links = []
    if workspace:
        links.append(formatting.link(permalink(workspace, case.thread), "Report"))
    if case.pull_request:
        links.append(formatting.link(case.pull_request, "Pull request"))
    last = _REOPEN if case.status is CaseStatus.RESOLVED else _INVITATION
    blocks = (
        formatting.section(f"*{escape(case.bug_id)}: {title}*\n{status}"),
        formatting.context(" · ".join([*facts, *links])),
        formatting.context(last),
    )
    text = formatting.fallback_text(f"{case.bug_id}: {redact(case.title)}", f"{status}. {last}")
    return (formatting.Rendered(text=text, blocks=blocks),)


def _status_text(case: CaseRecord) -> str:
    if case.status is not CaseStatus.RESOLVED or not case.close_reason:
        return _STATUSES.get(case.status, ":white_check_mark: Resolved")
    ended = _ENDED[Reason(case.close_reason)].rstrip(".")
    sign = "white_check_mark" if case.close_reason in SOLVED else "heavy_minus_sign"
    return f":{sign}: {ended[0].upper()}{ended[1:]}"


def _components(case: CaseRecord) -> list[str]:
    if not case.components:
        return []
    return ["components " + formatting.one_line(redact(", ".join(case.components)))]


def question_message(bug_id: str, reporter: str, text: str) -> tuple[formatting.Rendered, ...]:
    return formatting.notice(text, mentions=(reporter,), headline=f"A question about {bug_id}")


def reporter_asked_text(bug_id: str, question: str) -> str:
    """Return the text for people on call when their question needs the reporter first."""
    quoted = "\n".join(f"> {line}" for line in question.strip().splitlines())
    return (
        f"I have asked the reporter of **{bug_id}** first:\n\n{quoted}\n\nI will answer here "
        "when they have replied."
    )


def notice_text(kind: NoticeKind, bug_id: str, detail: str = "") -> str:
    """Return the text of a notice.

    Args:
        kind: The notice.
        bug_id: The case.
        detail: A sentence about the failure. Never pass it for the reporter's thread: it names
            channels, repositories and settings.
    """
    because = f": {detail}" if detail else "."
    return {
        NoticeKind.INTAKE: (
            f"Thank you, this is **{bug_id}**. I am investigating it and will answer in this "
            "thread. Write here if you have more to add. Write *never mind* to close the case."
        ),
        NoticeKind.QUESTION_UNANSWERED: (
            "I have no answer to my question yet, so I am continuing with what I know. "
            "You can still answer here."
        ),
        NoticeKind.REOPENED: f"**{bug_id}** is open again. I am reading your message.",
        NoticeKind.UNDELIVERABLE: (
            f"I could not post my findings on **{bug_id}** in the developers' channel. "
            "They are saved. Please tell the admin, who can see the reason."
        ),
        NoticeKind.NOBODY_CALLED: (
            f"**{bug_id}** needs a person, but I could not call anyone{because} "
            "Please tell the developers yourself. The case stays open until they answer."
        ),
        NoticeKind.WAITS_FOR_MENDING: (
            f"I cannot work on **{bug_id}** right now, because something on my side has to "
            "be repaired. I have told the admin. I will continue as soon as it works again."
        ),
        NoticeKind.WAITS_FOR_WORKER: (
            f"I cannot investigate **{bug_id}** yet, because my worker is not running. "
            "I have told the admin. I will start as soon as it runs again."
        ),
        NoticeKind.FIX_REFUSED: (
            f"I could not open a pull request for **{bug_id}**{because} "
            "The fix is saved. Once that is solved, please ask for it here again."
        ),
    }[kind]


def closing_text(bug_id: str, reason: Reason, *, explanation: str = "", fix: str = "") -> str:
    """Return the text about a case's end and how to reopen it.

    Args:
        bug_id: The case.
        reason: The reason for the end.
        explanation: The agent's words for this audience, or those of the admin who resolved
            the case.
        fix: A sentence about a proposed fix; left out when the fix was merged.
    """
    open_fix = "" if reason is Reason.FIX_MERGED else fix
    return "\n\n".join(
        filter(None, (f"**{bug_id}** is {_ENDED[reason]}", explanation, open_fix, _REOPEN))
    )


def unmerged_fix_text(url: str = "") -> str:
    """Return a sentence about an unmerged fix; the reporter gets it without the address."""
    return f"A fix was proposed{f' at {url}' if url else ''}; I leave it as it is."


def escalation_text(why: str, target: SlaTarget) -> str:
    """Return the text for the people on call: the reason of the call, their tasks and the time
    limits.
    """
    return (
        f"{why}\n\nPlease answer in this thread within {duration_text(target.acknowledge)}, and "
        f"resolve it within {duration_text(target.resolve)}. Your messages are added to the "
        "case, and I answer your questions here."
    )


def escalated_text(bug_id: str, told: str, target: SlaTarget) -> str:
    """Return the text of an escalation for the reporter; `told` is the agent's text for them, if
    any.
    """
    words = [f"**{bug_id}** needs a person, and I have called the people on call.", told]
    words.append(
        f"They aim to look at it within {duration_text(target.acknowledge)}, and I will post the "
        "outcome here."
    )
    return " ".join(filter(None, words))


def duration_text(seconds: float) -> str:
    """Format a length of time in the largest unit without a remainder.

    Examples: `15 minutes`, `24 hours`, `5 days`.
    """
    for unit, name in ((DAY, "day"), (HOUR, "hour")):
        if seconds > unit and seconds % unit == 0:
            return f"{seconds / unit:.0f} {name}s"
    if seconds == HOUR:
        return "1 hour"
    minutes = max(1, round(seconds / MINUTE))
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


def sla_text(bug_id: str, kind: SlaEventKind) -> str:
    return f"**{bug_id}**: {_SLA[kind]}"


def pull_request_text(bug_id: str, fix: PullRequest) -> str:
    if fix.number is None:
        form = "It is a pushed branch, without a pull request. Please review it."
    elif fix.draft:
        form = "It is a draft. Please review it."
    else:
        form = (
            "It is an ordinary pull request, since it could not be a draft. Please review it "
            "before you merge it."
        )
    return (
        f"A fix for **{bug_id}** is proposed: {fix.url}\n\n{form} Say here whether it is good or "
        "what should change."
    )


def late_pull_request_text(bug_id: str, fix: PullRequest) -> str:
    """Return the text about a pull request whose case was closed before it was opened."""
    return (
        f"A fix for **{bug_id}** had been pushed when the case was closed: {fix.url}. I leave "
        "it as it is."
    )


def fix_proposed_text(bug_id: str) -> str:
    """Return the text about a fix for the reporter, without its address."""
    return (
        f"I have proposed a fix for **{bug_id}** to the developers. I will post the outcome here."
    )


def _findings_head(found: TurnPost, title: str) -> formatting.Block:
    shown = _shown(found)
    facts = [f"Severity {found.case.severity}", f"confidence {shown.confidence:.0%}"]
    facts += _components(found.case)
    facts.append(f"reported by {formatting.mention(found.case.reporter_id)}")
    return formatting.section(
        f"*{escape(found.case.bug_id)}: {formatting.one_line(title)}*\n{' · '.join(facts)}"
    )


def _shown(found: TurnPost) -> StoredOutcome:
    """Return the findings, or the question to the reporter that Slack refused."""
    if found.action is Action.ASK_REPORTER or found.findings is None:
        return found.outcome
    return found.findings


def _findings_text(found: TurnPost) -> str:
    outcome = _shown(found)
    evidence = [
        f"- `{_code(item.file)}:{item.line}`: {' '.join(item.note.split())}"
        for item in outcome.evidence
    ]
    actions = [
        f"{number}. {action.strip()}"
        for number, action in enumerate(outcome.recommended_actions, start=1)
    ]
    sections = (
        ("Summary", outcome.summary or outcome.clarification_question),
        ("Root cause", outcome.root_cause),
        ("Evidence", "\n".join(evidence)),
        ("Recommended actions", "\n".join(actions)),
    )
    written = [
        f"## {name}\n\n{text.strip() + open_fence(text.strip())[1]}"
        for name, text in sections
        if text.strip()
    ]
    body = redact("\n\n".join(written)) or "The turn ended without a text."
    return formatting.escape_mentions(body, (found.case.reporter_id,))


def _findings_foot(found: TurnPost) -> formatting.Block:
    words = [f"Turn {found.turn}", cost_text(found.cost_usd, found.tokens, digits=2)]
    if found.case.pull_request:
        words.append(formatting.link(found.case.pull_request, "Pull request"))
    return formatting.context(" · ".join(words))


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())
