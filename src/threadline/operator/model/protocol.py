"""The operator's protocol: load before you change, write down before you speak, and say one thing.

`check` runs before a call, `record_outcome` derives the next state from the call's result, and
`final_text_rule` runs when words end the turn. All are pure. A state only grows: a result that
arrives twice, late, or concurrently with another one leads to the same state, and `merge` joins
the states of concurrent calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from threadline.models.model import ToolKind

MAX_STEPS = 8
"""Replies of the model in one turn that may request tools; then the model gets one last request,
for words only.
"""
MAX_LOADED = 20
"""RFPs that a turn without a scope can load, since the state travels with every call."""
# RFPs that a sentence names at most
_NAMED = 5


@dataclass(frozen=True)
class ToolRequest:
    """A call as the protocol sees it. `rfp_id`: the exact id that the call names, or empty."""

    kind: ToolKind
    rfp_id: str = ""


@dataclass(frozen=True)
class ProtocolState:
    """The actions of a turn so far; the state travels with every call and returns with every
    result.

    Without a `scope` (empty), a turn is about the RFPs that it has loaded. With one, loads of
    other RFPs are not recorded.

    Args:
        attempted: the RFPs that the turn tried to change, regardless of the result. With a scope
            it is the scope, even after a refused change: a turn that wanted to change something
            and failed must not report as if it had not tried.
        write_succeeded: one of these changes succeeded. Only a patch or a journal entry gives
            leave to speak; an event does not.
    """

    scope: str = ""
    loaded: tuple[str, ...] = ()
    did_load: bool = False
    did_patch: bool = False
    did_journal: bool = False
    did_post: bool = False
    """The turn's message was posted, or may have been."""
    attempted: tuple[str, ...] = ()
    write_succeeded: bool = False
    only_reads: bool = True
    """The turn has called only read tools, apart from speaking ones."""
    proposed: bool = False
    """An action was proposed, or may have been; the turn is over."""

    @property
    def write_attempted(self) -> bool:
        return bool(self.attempted)

    @property
    def written(self) -> bool:
        """Whether the turn has written something down, so that it may speak."""
        return self.did_patch or self.did_journal

    @property
    def over(self) -> bool:
        """Whether the turn may neither call tools nor post messages."""
        return self.did_post or self.proposed

    def merge(self, other: "ProtocolState") -> "ProtocolState":
        """Return the union of both states; commutative and idempotent.

        Raises:
            ValueError: the scopes differ.
        """
        if other.scope != self.scope:
            raise ValueError("states of turns about different RFPs cannot be merged")
        return ProtocolState(
            scope=self.scope,
            loaded=_union(self.loaded, other.loaded),
            did_load=self.did_load or other.did_load,
            did_patch=self.did_patch or other.did_patch,
            did_journal=self.did_journal or other.did_journal,
            did_post=self.did_post or other.did_post,
            attempted=_union(self.attempted, other.attempted),
            write_succeeded=self.write_succeeded or other.write_succeeded,
            only_reads=self.only_reads and other.only_reads,
            proposed=self.proposed or other.proposed,
        )


@dataclass(frozen=True)
class ProtocolRefusal:
    """The call must not run. `message` is the reason and `suggestion` the remedy, both for the
    model.
    """

    message: str
    suggestion: str


_OVER = "Call nothing more: the turn is over."
POSTED = ProtocolRefusal(
    "This turn has already posted its message, and a turn posts only one.", _OVER
)
PROPOSED = ProtocolRefusal("This turn has proposed an action, and that ends it.", _OVER)
LOAD_ANY = ProtocolRefusal(
    "No RFP was loaded in this turn, so none can be changed.",
    "Find it with rfp_search, call opportunity_load with its id, then make this call again. "
    "If it is not clear which one is meant, ask.",
)


def check(state: ProtocolState, call: ToolRequest) -> ProtocolRefusal | None:
    """Return the reason why a call may not run now, or None. The words are for the model, and
    never repeat an RFP that it made up.
    """
    if state.over:
        return PROPOSED if state.proposed else POSTED
    if call.kind.changes_rfp or (call.kind is ToolKind.PROPOSE and call.rfp_id):
        return _scoped(state, call.rfp_id)
    if call.kind is ToolKind.SPEAK:
        return _speech(state)
    if (
        call.kind is ToolKind.LOAD
        and not state.scope
        and len({*state.loaded, call.rfp_id}) > MAX_LOADED
    ):
        return ProtocolRefusal(
            f"This turn has loaded {MAX_LOADED} RFPs, and cannot load more.",
            "Look others up with rfp_get or rfp_search, or ask which one is meant.",
        )
    return None


def record_outcome(
    state: ProtocolState, call: ToolRequest, succeeded: bool | None
) -> ProtocolState:
    """Return the state after a call, including one that this protocol or another check refused.

    Args:
        succeeded: None if the outcome is unknown. The call then counts as not loaded and not
            written, but as posted and proposed: a change can be checked again, while a second
            message cannot be taken back.
    """
    if call.kind in (ToolKind.READ, ToolKind.LOOKUP):
        return state
    if call.kind is ToolKind.LOAD:
        if not succeeded or not call.rfp_id or (state.scope and call.rfp_id != state.scope):
            return state
        return replace(state, loaded=_union(state.loaded, (call.rfp_id,)), did_load=True)
    if call.kind is ToolKind.SPEAK:
        return replace(state, did_post=state.did_post or succeeded is not False)
    state = replace(state, only_reads=False)
    if call.kind is ToolKind.PROPOSE:
        return replace(state, proposed=state.proposed or succeeded is not False)
    if not call.kind.changes_rfp:
        return state
    # Without a scope, a change of an RFP that is not loaded leaves no trace: a turn that was
    # refused for lack of an id must be able to ask for it. A call without an id may have meant any
    # loaded RFP.
    tried = (
        (state.scope,)
        if state.scope
        else tuple(each for each in state.loaded if call.rfp_id in (each, ""))
    )
    succeeded = bool(succeeded)
    return replace(
        state,
        attempted=_union(state.attempted, tried),
        did_patch=state.did_patch or (succeeded and call.kind is ToolKind.PATCH),
        did_journal=state.did_journal or (succeeded and call.kind is ToolKind.JOURNAL),
        write_succeeded=state.write_succeeded or succeeded,
    )


class FinalText(StrEnum):
    """The treatment of the words that end a turn."""

    AS_IT_IS = "as_it_is"
    JOURNALLED = "journalled"
    """The journal gets the words in the same step, before they are posted."""
    WITH_FAILURES = "with_failures"
    """No change has succeeded: the failures precede the words, and the journal gets both."""


@dataclass(frozen=True)
class FinalTextRule:
    """The rule for the words that end a turn.

    Args:
        journal_in: the RFPs whose journals get the words before they are posted.
        checked: this turn has loaded these RFPs; otherwise the model's words are no facts about
            them.
    """

    text: FinalText
    journal_in: tuple[str, ...] = ()
    checked: bool = True


def final_text_rule(state: ProtocolState) -> FinalTextRule:
    """Return the rule for a turn's last words: the model's, a speaking tool's, those about a
    proposal, or a forced summary. A lost speaking call may never have been checked, so its words
    are checked here.
    """
    about = (state.scope,) if state.scope else state.attempted
    if state.written or not about:
        return FinalTextRule(FinalText.AS_IT_IS)
    failed = state.write_attempted and not state.write_succeeded
    text = FinalText.WITH_FAILURES if failed else FinalText.JOURNALLED
    return FinalTextRule(text, about, checked=set(about) <= set(state.loaded))


def _scoped(state: ProtocolState, rfp_id: str) -> ProtocolRefusal | None:
    """Return the reason to refuse a change of this RFP, or None: the turn must be about it and
    have loaded it.
    """
    scope = state.scope
    if rfp_id and rfp_id in state.loaded and rfp_id == (scope or rfp_id):
        return None
    if scope and rfp_id == scope:
        return ProtocolRefusal(
            f"{scope} was not loaded in this turn yet, so it cannot be changed.",
            f"{_load(scope)} Then try again.",
        )
    if scope:
        first = "" if state.did_load else f"{_load(scope)} "
        return ProtocolRefusal(
            f"This turn is about {scope}, so a change must name {scope}.",
            (
                f"{first}Name {scope} in this call; to change another RFP, the person must name "
                "it in a message."
            ),
        )
    if state.loaded:
        return ProtocolRefusal(
            f"Only what was loaded in this turn can be changed: {_listed(state.loaded)}.",
            (
                "Name one of these, or call opportunity_load with the id you mean, then make "
                "this call again."
            ),
        )
    return LOAD_ANY


def _speech(state: ProtocolState) -> ProtocolRefusal | None:
    """Return the reason to refuse a message, or None. A turn that has only read writes its words
    down when it ends.
    """
    if state.written or state.only_reads:
        return None
    if state.attempted:
        missing = [each for each in state.attempted if each not in state.loaded]
        first = f"{_load(missing[0])} " if missing else ""
        return ProtocolRefusal(
            "A change was tried in this turn, and no patch or journal entry has succeeded yet, "
            "so nothing can be posted.",
            f"{first}Correct the change and make it again, or write down with journal_append for "
            f"{_listed(state.attempted)} what failed. Then speak.",
        )
    if not state.scope:
        return None
    first = "" if state.did_load else f"{_load(state.scope)} "
    return ProtocolRefusal(
        "Nothing of this turn is written down yet, so nothing can be posted.",
        f"{first}Write down what was done or decided with journal_append, or change the state "
        f"with opportunity_patch, both for {state.scope}. Then speak.",
    )


def _union(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*one, *other}))


def _load(rfp_id: str) -> str:
    return f"Call opportunity_load with rfp_id {rfp_id} first."


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(ids[:_NAMED]) + more
