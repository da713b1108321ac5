"""The answer that ends a turn, written for two audiences, and its rules beyond the schema.

A case has one set of findings, which developers read in one place. A turn that learned something
gives them whole; a turn that changed nothing leaves `summary` empty, and says what there is to say
in `reply`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from threadline.cases import audience
from threadline.cases.model import Action, CaseRecord, Severity
from threadline.threads.basis import Basis

_TOLD = (Action.ESCALATE, Action.RESOLVED)
"""Actions that change the reporter's case; each gives the reporter a reason."""
_MOST_ITEMS = 20
"""Number of entries kept of one list."""
_LONGEST_WORD = 100
"""Characters; a longer run without blanks is cut within."""


def _at_most(length: int) -> AfterValidator:
    """Return a validator that cuts a text at a word and appends its full length."""

    def cut(text: str) -> str:
        if len(text) <= length:
            return text
        mark = f" … (cut: {len(text):,} characters)"
        kept = text[: length - len(mark)]
        if not text[len(kept)].isspace():
            head, blank, tail = kept.rpartition(" ")
            kept = head if blank and len(tail) < _LONGEST_WORD else kept
        return kept.rstrip() + mark

    return AfterValidator(cut)


def _first(items: list[str]) -> list[str]:
    """Keep `_MOST_ITEMS` of a list; the last one counts those that were cut."""
    if len(items) <= _MOST_ITEMS:
        return items
    kept = items[: _MOST_ITEMS - 1]
    return [*kept, f"… (cut: {len(items) - len(kept)} more)"]


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


class Evidence(BaseModel, extra="forbid", frozen=True, defer_build=True):
    """A place in the code or in an attachment; line 0 means the whole file."""

    file: Annotated[str, _at_most(500)]
    line: Annotated[
        int, AfterValidator(lambda line: max(line, 0)), Field(description="0 for the whole file.")
    ]
    note: Annotated[str, _at_most(2_000)]


def _first_places(places: list[Evidence]) -> list[Evidence]:
    if len(places) <= _MOST_ITEMS:
        return places
    kept = places[: _MOST_ITEMS - 1]
    last = places[_MOST_ITEMS - 1]
    told = f"{last.note} … (cut: {len(places) - _MOST_ITEMS} more places)"
    return [*kept, last.model_copy(update={"note": told})]


# Flat, and every field required: models fill such schemas best. The lengths bound what one turn
# can post. They are no part of the schema: the CLI would ask for a shorter text five times, then
# give the findings up. A longer text is cut after it was received.
class Outcome(BaseModel, extra="forbid", frozen=True, defer_build=True):
    """The result of a turn. `for_reporter` and `clarification_question` are shown to the reporter;
    only developers see the other fields.
    """

    action: Action
    reply: Annotated[str, _at_most(3_000)] = Field(
        description=(
            "Your answer to the developers' latest messages, in two or three sentences. Empty "
            "when no developer waits for an answer."
        ),
    )
    title: Annotated[str, _at_most(300)]
    summary: Annotated[str, _at_most(12_000)] = Field(
        description="Empty when the findings are the same as before.",
    )
    root_cause: Annotated[str, _at_most(6_000)]
    evidence: Annotated[list[Evidence], AfterValidator(_first_places)]
    severity: Severity
    confidence: Annotated[float, AfterValidator(_share), Field(description="From 0 to 1.")]
    clarification_question: Annotated[
        str, _at_most(3_000), Field(description="Read by the reporter.")
    ]
    for_reporter: Annotated[str, _at_most(2_000)] = Field(
        description=(
            "All that the reporter is told: plain words, no code, no file names, no names of "
            "internal systems."
        ),
    )
    recommended_actions: Annotated[list[Annotated[str, _at_most(1_000)]], AfterValidator(_first)]
    affected_components: Annotated[list[Annotated[str, _at_most(200)]], AfterValidator(_first)]
    fix_requested: bool = Field(description="A developer asked for a fix or a pull request.")


class StoredEvidence(BaseModel, frozen=True, defer_build=True):
    file: str
    line: int
    note: str


class StoredOutcome(BaseModel, frozen=True, defer_build=True):
    """An outcome as stored in a turn's row, without the model's limits.

    Redaction and `withhold_question` may have made a text longer. The row of a turn that people
    took over has only a summary. A newer agent worker may write other fields or values: an
    unreadable one gets its default, since a turn that cannot be read could never be settled.
    """

    title: str = ""
    reply: str = ""
    summary: str = ""
    root_cause: str = ""
    evidence: Sequence[StoredEvidence] = ()
    severity: Severity | None = None
    confidence: float = 0.0
    clarification_question: str = ""
    recommended_actions: Sequence[str] = ()
    affected_components: Sequence[str] = ()

    @field_validator("*", mode="wrap")
    @classmethod
    def _default_if_invalid(
        cls, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        try:
            return validate(value)
        except ValidationError:
            return cls.model_fields[str(info.field_name)].default


@dataclass(frozen=True)
class AnsweredTurn:
    """The answer of a turn; `result` is the JSON of its `Outcome`."""

    action: Action | None
    result: Mapping[str, Any]

    @property
    def outcome(self) -> StoredOutcome:
        return StoredOutcome.model_validate(self.result)


@dataclass(frozen=True)
class TurnPost(AnsweredTurn):
    """The source of a turn's posts.

    - `reporter_words`: everything the reporter has written, with the names of their attachments;
    - `used`: (channel, ts) of the messages that the turn has read and that still exist;
    - `asked`, `read`: as in `Basis`, the `ts` of the messages that the turn answers, and of those
      read before it ended;
    - `has_findings`: the turn gives findings;
    - `before`: the JSON of the earlier turn that gave them last;
    - `severity_before`: the severity after the turn before this one;
    - `shown_in_turn`: the earlier turn under whose key they are in Slack; 0 if none is;
    - `is_newest`: no later turn gives findings.
    """

    case: CaseRecord
    turn: int
    failure: str
    cost_usd: float | None
    tokens: int
    reporter_words: str
    used: tuple[tuple[str, str], ...]
    asked: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    has_findings: bool = True
    before: Mapping[str, Any] | None = None
    severity_before: str = ""
    shown_in_turn: int = 0
    is_newest: bool = True

    @property
    def earlier(self) -> StoredOutcome | None:
        """The findings before this turn, with the severity at that time; None if there were
        none.
        """
        if self.before is None:
            return None
        findings = StoredOutcome.model_validate(self.before)
        known = StoredOutcome.model_validate({"severity": self.severity_before})
        return findings.model_copy(update={"severity": known.severity or findings.severity})

    @property
    def findings(self) -> StoredOutcome | None:
        """The case's findings since this turn; None while there are none. A turn that leaves them
        as they were may still change the severity.
        """
        outcome = self.outcome
        earlier = self.earlier
        if self.has_findings or earlier is None:
            return outcome if self.has_findings else None
        return earlier.model_copy(update={"severity": outcome.severity or earlier.severity})

    @property
    def words(self) -> str:
        """The findings, or the question that takes their place, for the case's conversation."""
        shown = self.outcome if self.action is Action.ASK_REPORTER else self.findings
        if shown is None:
            return self.why
        return f"{shown.summary or shown.clarification_question}\n{shown.root_cause}".strip()

    @property
    def why(self) -> str:
        """The turn's reason for people: why it failed, what it found, or its reply."""
        return self.failure or self.outcome.summary.strip() or self.outcome.reply.strip()

    def basis(self, kind: str) -> Basis:
        """Return the basis of one of the turn's posts."""
        return Basis(kind, self.case.thread.key, self.asked, self.read)

    @property
    def reporter_text(self) -> str:
        """The text of the turn that the reporter may read; may be empty."""
        return audience.reporter_text(self.result, self.reporter_words)


@cache
def output_format() -> dict[str, Any]:
    """Return the SDK's `output_format`: the model ends its turn by calling a tool with this
    schema.
    """
    return {"type": "json_schema", "schema": Outcome.model_json_schema()}


def parse_outcome(raw: Any) -> tuple[Outcome | None, list[str]]:
    """Return the outcome in a result's `structured_output`, or its problems as sentences for the
    model.
    """
    if raw is None:
        return None, [
            (
                "You ended the turn with text alone. End it by calling StructuredOutput with "
                "every field."
            )
        ]
    try:
        return Outcome.model_validate(raw), []
    except ValidationError as invalid:
        return None, [
            f"{'.'.join(map(str, error['loc']))}: {error['msg']}." for error in invalid.errors()
        ]


def check_outcome(outcome: Outcome, *, may_ask: bool, has_findings: bool = False) -> list[str]:
    """Return the rules that `outcome` breaks, each as a sentence that asks the model for a change.

    Args:
        outcome: The model's answer.
        may_ask: Whether the case's limits allow another question to the reporter.
        has_findings: Whether an earlier turn gave findings, which may stay as they are.
    """
    violations: list[str] = []
    if not outcome.title.strip():
        violations.append("title is empty: name the bug in one line.")
    if outcome.action is Action.ASK_REPORTER:
        if not may_ask:
            violations.append("You may not ask the reporter in this turn: choose another action.")
        if not outcome.clarification_question.strip():
            violations.append("ask_reporter needs a clarification_question.")
    elif not outcome.summary.strip():
        violations += _unchanged_findings(outcome) if has_findings else [_no_summary(outcome)]
    return violations


def _no_summary(outcome: Outcome) -> str:
    return f"{outcome.action.value} needs a summary."


def _unchanged_findings(outcome: Outcome) -> list[str]:
    """Return the rules that an outcome breaks which leaves the findings as they are."""
    if outcome.root_cause.strip() or outcome.evidence or outcome.recommended_actions:
        return [
            (
                "summary is empty, although the other findings are not: give the findings whole, "
                "or leave all of them empty if nothing has changed."
            )
        ]
    if outcome.action in _TOLD and not outcome.reply.strip():
        return [f"{outcome.action.value} needs a reply that says why, or a summary."]
    return []


def check_reporter_text(outcome: Outcome, said: str = "") -> list[str]:
    """Return the problems with the words for the reporter, as sentences that ask the model for a
    change.

    The model is asked once to repair them, and no turn is lost over them. Words that are missing,
    or that still contain something internal, are not shown (`audience.reporter_text`): the
    reporter gets a sentence of the bot's own, and such a question goes to the developers
    (`withhold_question`).

    Args:
        outcome: The model's answer.
        said: Everything the reporter is known to have written, and the names of the
            attachments.
    """
    if outcome.action is Action.ASK_REPORTER:
        # A summary of the reasons for a question repeats the question, and so does the reply to
        # developers. Neither summary nor title is posted then.
        compared = outcome.model_dump(exclude={"title", "reply", "summary"})
        return _internal_in(
            "clarification_question", outcome.clarification_question, compared, said
        )
    if outcome.action in _TOLD and not outcome.for_reporter.strip():
        return [
            (
                f"{outcome.action.value} needs for_reporter: say in plain words what it means "
                "for them."
            )
        ]
    return _internal_in("for_reporter", outcome.for_reporter, outcome.model_dump(), said)


def withhold_question(outcome: Outcome) -> Outcome:
    """Turn a question that still contains something internal into findings for developers.

    Any other outcome is returned unchanged.
    """
    if outcome.action is not Action.ASK_REPORTER:
        return outcome
    why = "The reporter was not asked this, since it may hold something internal: "
    summary = f"{outcome.summary}\n\n{why}{outcome.clarification_question}".strip()
    return outcome.model_copy(
        update={"action": Action.POST_FINDINGS, "summary": summary, "clarification_question": ""}
    )


def _internal_in(field: str, words: str, result: Mapping[str, Any], said: str) -> list[str]:
    if not (found := audience.find_internal_content(words, result, said)):
        return []
    return [
        (
            f"{field} is read by the reporter, and holds {', '.join(found)}: say it in plain "
            "words without that."
        )
    ]
