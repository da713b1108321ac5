"""The texts that end a turn: the model's answer at its length, or a fixed text where the model has
none.

All functions are pure.
"""

import re
from collections.abc import Sequence

from threadline.conversations.model.conversation import Execution, OutcomeKind
from threadline.decisions.model import DecisionRound, DecisionType, EscalationReason, Judgement
from threadline.knowledge.model import SECTION, Source
from threadline.models.model import ToolCall
from threadline.slack.splitting import split_markdown
from threadline.slack.text import is_blank
from threadline.tools.model import ToolStatus

LIMIT = 2_000
MIN_LENGTH = 200
"""Characters of an answer unless the user asked for detail (`LIMIT`), and the least that an answer
keeps when it is shortened.
"""
NOTHING_TO_SAY = (
    "I could not find an answer to this. Please rephrase it, or ask me what I can do for you."
)
GENERIC_FAILURE = (
    "Something went wrong on my side, and I could not finish this. "
    "Please try again in a few minutes. If it happens again, tell the admin."
)
"""For a failure without a text of its own."""

_STOPPED_BY_ADMIN = "The admin has stopped me. Please write again if you still need this."
_NOTHING_DONE = " Nothing was done yet."
_MORE = "\n\n_This is not the whole answer. Ask me for the details to read all of it._"
_ROOM = 1_400
"""Characters of an account of executions; the ones that do not fit are only counted."""
MAX_TOOL_NAME = 60
"""Characters of a tool's name, also in Temporal's UI, whose server refuses a task with a summary
of over 400 bytes.
"""
_NOTE = 160
_WORDS = 400
"""Characters of a note in an account, and of a failure's sentence: together with the name they fit
into `LIMIT`.
"""

_LONG = (
    r"(?:(?:all|more|further|full|the) )*(?:details?|detailed|everything"
    r"|(?:full|whole|entire|complete|long) (?:\w+ )?"
    r"(?:list|logs?|texts?|answer|output|story|report|table|explanation))\b"
)
_AT_LENGTH = (
    r"\b(?:in (?:\w+ )?details?|with (?:\w+ ){0,2}details?|in full|in depth|at length|step by step"
    r"|word for word|verbatim|verbose(?:ly)?)\b"
)
_PLEASE = (
    r"(?:(?<!\bi )(?<!\bwe )(?<!\bthey )(?<!'ll )(?<!\bwill "
    r")\b(?:show|tell|give|explain|describe|list|post|print|write"
    r"|send|paste|share|provide|elaborate)\b|\b(?:can|could|may) (?:i|we) "
    r"(?:have|see|get|read)\b|\blet (?:me|us) see\b"
    r"|\b(?:i|we)(?:'d| would)? (?:want|need|like)\b)"
)
_MEANWHILE = (
    r"(?: "
    r"(?!(?:if|whether|that|how|when|once|why|where|who|because|since|after|before|so|until)\b)"
    r"\S+){0,8}?"
)
_DETAIL = re.compile(
    rf"{_PLEASE}(?:{_MEANWHILE} {_LONG}|.*{_AT_LENGTH})"
    rf"|^(?:(?:wh\w+|how|can|could|would|will|do|does|please)\b.*)?{_AT_LENGTH}(?: please)?$"
)
_BARE = re.compile(
    rf"(?:(?:please|and|but|or|also|now|then|yes|ok|some|any|a) )*{_LONG}"
    r"(?: (?:of|about|on|for)(?: "
    r"(?!(?:is|are|was|were|has|have|seems?|looks?|works?|does|did)\b)\S+){1,6})?"
    r"(?: please)?"
)
"""A clause of nothing but the wish asks for detail as well: "more details, please"."""
_ELSEWHERE = re.compile(
    r"\b(?:im detail|ausführlich\w*|detailliert\w*|vollständig\w*"
    r"|(?:alle|mehr|weitere|die|genauere) (?:details|einzelheiten)"
    r"|die (?:ganze|komplette) (?:liste|antwort)|in allen einzelheiten"
    r"|en détail|(?:plus de|tous les|les) détails|détaillée?s?|la (?:liste|réponse) complète|en "
    r"entier|intégralement"
    r"|en detalle|(?:más|todos los|los) detalles|detallad[oa]s?|la (?:lista|respuesta) "
    r"completa|por completo"
    r"|em detalhes?|(?:mais|todos os|os) detalhes|detalhad[oa]s?|a (?:lista|resposta) completa"
    r"|in dettaglio|nel dettaglio|(?:più|tutti i|i) dettagli|dettagliat[oa]|la "
    r"(?:lista|risposta) completa"
    r"|(?:meer|alle|de) details|uitgebreid\w*|het (?:hele|volledige) (?:antwoord|overzicht)"
    r"|szczegółow\w+|(?:więcej|wszystkie) szczegół\w+|i detalj|(?:mer|alla) detaljer|utförlig\w*"
    r"|подробн\w+|(?:все|больше) (?:детали|деталей|подробност\w+)|полный "
    r"(?:список|ответ)|целиком|детальн\w+|докладн\w+"
    r"|ayrıntılı\w*|detaylı\w*|(?:tüm|bütün) (?:ayrıntılar|detaylar)\w*)\b"
    r"|详细|详情|细节|完整(?:的)?(?:列表|答案|内容|回答)?|全部(?:内容)?|詳細|詳情|細節"
    r"|詳しく|全文|全部(?:見せ|教え)"
    r"|자세[히한]|상세[히한하]|전체 ?(?:목록|답변|내용)|بالتفصيل|التفاصيل|القائمة الكاملة"
    r"|विस्तार से|पूरी सूची|อย่างละเอียด|รายละเอียด",
)
"""The wish for a long answer in other languages. Only short messages are matched: a long one may
use the words about something else.
"""
_LONGEST_WISH = 80
_NOT_ELSEWHERE = re.compile(
    r"\b(?:kein\w*|nicht|ohne|pas|sans|sin|no|não|sem|non|senza|geen|niet|zonder|bez|nie|inte|utan"
    r"|не|без|değil)\b"
    r"|不要|不用|不需要|别|不必|なし|不要|없이|말고|بدون|लेकिन नहीं|ไม่ต้อง"
)
_NO_DETAIL = re.compile(
    r"\b(?:no|not|without|skip|spare|don'?t|never|less|fewer|hide)\b(?: \w+){0,3}? "
    r"(?:details?|detailed|verbose|everything|in full|in depth|at length)\b"
)
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|^ *>[^\n]*|(?<!\S)-+\w\S*", re.DOTALL | re.MULTILINE
)
"""Quoted content: code, other people's words, options of a command."""
_CLAUSE = re.compile(r"([^.!?;:,\n]{1,400})([.!?;:,\n]?)")
"""Bounded, so that a message of 40,000 characters without punctuation takes no time."""

_TOLD = {
    ToolStatus.OK: "done",
    ToolStatus.CACHED: "done",
    ToolStatus.ERROR: "this did not work",
    ToolStatus.BLOCKED: "this was not allowed",
    ToolStatus.PENDING: "this is waiting for approval",
    ToolStatus.UNKNOWN: (
        "I do not know whether this was done, so please check before you ask for it again"
    ),
}
_DONE = (ToolStatus.OK, ToolStatus.CACHED, ToolStatus.PENDING)
"""The bot has done its part; a pending call waits for a person."""


def status_text(calls: Sequence[ToolCall]) -> str:
    """Return Slack's status while calls run, in plain words: `estimates.getProjectDetails` becomes
    `get project details`.
    """
    last = calls[0].name[:MAX_TOOL_NAME].rpartition(".")[2]
    words = " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", last).lower().split()) or "a tool"
    return f"using {words}{_more(calls)}"


def first_and_more(calls: Sequence[ToolCall]) -> str:
    """Return the calls as Temporal's UI names them: the first tool, and the number of further
    ones.
    """
    return f"{calls[0].name[:MAX_TOOL_NAME]}{_more(calls)}"


def _more(calls: Sequence[ToolCall]) -> str:
    return f" and {len(calls) - 1} more" if len(calls) > 1 else ""


def wants_detail(text: str) -> bool:
    """Return whether a message asks for a long answer, and does not merely use the words for one.

    The rules may change between releases, so a workflow asks in an activity.
    """
    said = _QUOTED.sub(" ", text.lower().replace("’", "'"))
    if _wants_detail_elsewhere(said):
        return True
    for clause, end in _CLAUSE.findall(said):
        words = " ".join(_NO_DETAIL.sub(" ", " ".join(clause.split())).split())
        if _DETAIL.search(words) or (end != ":" and _BARE.fullmatch(words)):
            return True
    return False


def _wants_detail_elsewhere(said: str) -> bool:
    words = " ".join(said.split())
    if len(words) > _LONGEST_WISH or _NOT_ELSEWHERE.search(words):
        return False
    return _ELSEWHERE.search(words) is not None


def split_answer(text: str, *, detail: bool = False, limit: int = LIMIT) -> list[str]:
    """Return an answer as it is posted; empty when the text has nothing visible.

    Args:
        text: the answer.
        detail: return all of it, in as many parts as needed; else one part, which says so where it
            is cut short. No part is blank.
        limit: characters of a part, at least 200.
    """
    if is_blank(text):
        return []
    if detail:
        return [part for part in split_markdown(text, limit) if not is_blank(part)]
    return [shorten(text, limit)]


def shorten(text: str, limit: int = LIMIT) -> str:
    """Return the text, or the paragraphs that fit into `limit` characters and a line that says
    there is more.
    """
    if len(text) <= limit:
        return text
    visible = [piece for piece in split_markdown(text, limit - len(_MORE)) if not is_blank(piece)]
    if not visible:
        return ""
    return visible[0] + _MORE if len(visible) > 1 else visible[0]


def summary_text(executions: Sequence[Execution]) -> str:
    """Return an account of the executions, in order, for a turn whose model wrote no answer.

    The result is Markdown of at most `LIMIT` characters, never blank. The same executions give the
    same text.
    """
    if not executions:
        return NOTHING_TO_SAY
    if any(each.status in _DONE for each in executions):
        return f"This is what I did:\n\n{_account(executions)}"
    return (
        f"I could not do what you asked. This is what I tried:\n\n{_account(executions)}\n\n"
        "Please fix what prevented it, or ask me for something else."
    )


def stopped_text(executions: Sequence[Execution], *, by_admin: bool = False) -> str:
    """Return the end of a turn that a person of the thread, or the admin, has stopped."""
    told = _STOPPED_BY_ADMIN if by_admin else "I have stopped, as you asked."
    return (
        f"{told} What I did so far:\n\n{_account(executions)}"
        if executions
        else f"{told}{_NOTHING_DONE}"
    )


def tell_also(text: str, executions: Sequence[Execution]) -> str:
    """Append the executions that a turn's account does not mention yet."""
    if not executions:
        return text
    start = text.removesuffix(_NOTHING_DONE)
    return (
        f"{start}\n\n{'What I did so far' if start != text else 'Also tried'}:\n\n"
        f"{_account(executions)}"
    )


def failure_text(words: str, executions: Sequence[Execution]) -> str:
    """Return the end of a turn that could not continue.

    Args:
        words: the event and the advice for the person; may be blank.
        executions: the turn's executions.
    """
    told = GENERIC_FAILURE if is_blank(words) else _one_line(words, _WORDS)
    return "\n\n".join(filter(None, (told, progress_text(executions))))


def progress_text(executions: Sequence[Execution]) -> str:
    """Return an account of the executions of a turn that ended early; empty where it had none."""
    return f"What I did so far:\n\n{_account(executions)}" if executions else ""


def failed_changes_text(executions: Sequence[Execution], *, proposed: bool = False) -> str:
    """Return the text that precedes the answer of an operator's turn in which no change has
    succeeded.

    Args:
        executions: the turn's executions.
        proposed: the answer is about a proposal, which may have been carried out at once.
    """
    waits = ToolStatus.PENDING
    failed = [each for each in executions if each.kind.changes_rfp and each.status is not waits]
    told = f"I cannot confirm that any change I tried{' before that' * proposed} has succeeded"
    return f"{told}:\n\n{_account(failed)}" if failed else f"{told}."


def _account(executions: Sequence[Execution]) -> str:
    lines: list[str] = []
    room = _ROOM
    for number, execution in enumerate(executions):
        tool = _one_line(execution.tool.replace("`", "'"), MAX_TOOL_NAME)
        named = f"`{tool}`" if not is_blank(tool) else "a tool"
        broken_off = execution.read_only and execution.status is ToolStatus.UNKNOWN
        told = "this was interrupted" if broken_off else _TOLD[execution.status]
        note = "" if is_blank(execution.note) else f". {_one_line(execution.note, _NOTE)}"
        line = f"- {named}: {told}{note}"
        room -= len(line) + 1
        if room < 0:
            lines.append(f"- and {len(executions) - number} more")
            break
        lines.append(line)
    return "\n".join(lines)


def _one_line(text: str, limit: int) -> str:
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    return (head.rpartition(" ")[0] or head) + "…"


DEFAULT_QUESTION = "I want to get this right: could you tell me a little more about what you need?"
"""For a clarification in which the model wrote no question."""
_PASSED_ON = (
    "I have handed it over to a person on the team, with the conversation so far. "
    "They will answer in this thread, and I will remind the team if nobody takes it."
)
_WHY = {
    EscalationReason.LOW_CONFIDENCE: "I am not sure enough about this to answer it myself.",
    EscalationReason.SENSITIVE_TOPIC: "This is not for me to decide.",
    EscalationReason.RETRIEVAL_FAILURE: (
        "I cannot look this up right now, and I do not want to guess."
    ),
    EscalationReason.TOOL_FAILURE: "Something that I need for this did not work.",
    EscalationReason.RESPONSE_ERROR: "I could not produce an answer to this.",
    EscalationReason.DECIDED: "This needs a person.",
}
_MARK = re.compile(r"\[(\d{1,2})\]")
_MOST = 10
_LONGEST = 100
"""Sources listed below an answer (`_MOST`), and characters of each."""
_MARKS = 100
"""Characters reserved for Slack's markup."""


def decision_text(kind: OutcomeKind, made: DecisionRound | None, verdict: Judgement | None) -> str:
    """Return the whole answer of a turn that ends with its decision.

    Args:
        kind: how the turn ended.
        made: the turn's last decision.
        verdict: the judgement that was in force at the end.
    """
    if kind is OutcomeKind.CLARIFIED:
        asked = (
            made.decision.question if made and made.decision.type is DecisionType.CLARIFY else ""
        )
        return asked or DEFAULT_QUESTION
    return escalation_text(verdict.reason if verdict else None)


def fit_answer(before: str, answer: str, end: str, *, detail: bool) -> str:
    """Return the three texts as one; unless the user asked for `detail`, it fits into `LIMIT`.

    The answer is shortened, never its `end`: the sources below it stay readable.
    """
    around = sum(len(each) + 2 for each in (before, end) if each)
    if end and not detail and len(answer) + around > LIMIT - _MARKS:
        answer = shorten(answer, max(MIN_LENGTH, LIMIT - _MARKS - around))
    return "\n\n".join(filter(None, (before, answer, end)))


def escalation_text(reason: EscalationReason | None) -> str:
    """Return the message to the asker when a person takes over."""
    return (
        f"{_WHY.get(reason or EscalationReason.DECIDED, _WHY[EscalationReason.DECIDED])} "
        f"{_PASSED_ON}"
    )


def list_sources(answer: str, sources: Sequence[Source], found: Sequence[str] = ()) -> str:
    """Return the line with the sources of an answer, by title and section; empty without any, or
    without an answer.

    Args:
        answer: the model's text.
        sources: passages that the model was given with numbers. The line names the ones that the
            answer marks, or all of them if it marks none.
        found: citations of passages that the answer's tools found. They are left out if the answer
            itself names one of them by title and section.
    """
    if not answer:
        return ""
    marked = sorted(
        {int(each) for each in _MARK.findall(answer)} & set(range(1, len(sources) + 1))
    )
    given = [sources[number - 1].cited for number in marked] or [each.cited for each in sources]
    marks = [f"[{number}] {name}" for number, name in zip(marked, given, strict=False)] or given
    words = _plain(answer)  # a title alone may be a word of the answer by chance
    names_one = any(SECTION in each and _plain(each) in words for each in found)
    theirs = () if names_one else (each for each in found if each not in given)
    named = list(dict.fromkeys([*marks, *theirs]))
    half = _LONGEST // 2
    # A long name keeps the start of its title and the end of its section.
    told = [
        name if len(name) <= _LONGEST else f"{name[:half]}…{name[-half:]}"
        for name in named[:_MOST]
    ]
    more = [f"and {len(named) - _MOST} more"] if len(named) > _MOST else []
    return f"Sources: {'; '.join([*told, *more])}" if named else ""


def _plain(text: str) -> str:
    """Normalise dashes, spaces and case, so that two spellings of a name are equal: models like
    other dashes.
    """
    return re.sub(r"[\s–—-]+", " ", text).casefold()
