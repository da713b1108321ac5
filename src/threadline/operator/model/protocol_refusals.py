"""What the model is told when the protocol refuses a call: what is missing, and which call to make instead."""

from collections.abc import Sequence
from dataclasses import dataclass

_NAMED = 5
"""RFPs that a sentence names at most."""


@dataclass(frozen=True)
class Refusal:
    """The call does not run. `message` says why not, `suggestion` what to do: both are for the model."""

    message: str
    suggestion: str


POSTED = Refusal(
    "This turn has already posted its message, and a turn posts only one.",
    "Call nothing more: the turn is over.",
)
PROPOSED = Refusal(
    "This turn has proposed an action, and that ends it.",
    "Call nothing more: the turn is over.",
)
LOAD_ANY = Refusal(
    "No RFP was loaded in this turn, so none can be changed.",
    "Find it with rfp_search, call opportunity_load with its id, then make this call again. "
    "If it is not clear which one is meant, ask.",
)


def load_first(scope: str) -> Refusal:
    return Refusal(
        f"{scope} was not loaded in this turn yet, so it cannot be changed.", f"{_load(scope)} Then try again."
    )


def another(scope: str, did_load: bool) -> Refusal:
    first = "" if did_load else f"{_load(scope)} "
    return Refusal(
        f"This turn is about {scope}, so a change must name {scope}.",
        f"{first}Name {scope} in this call; to change another RFP, the person must name it in a message.",
    )


def not_among(loaded: Sequence[str]) -> Refusal:
    return Refusal(
        f"Only what was loaded in this turn can be changed: {_listed(loaded)}.",
        "Name one of these, or call opportunity_load with the id you mean, then make this call again.",
    )


def too_many_loaded(most: int) -> Refusal:
    return Refusal(
        f"This turn has loaded {most} RFPs, and cannot load more.",
        "Look others up with rfp_get or rfp_search, or ask which one is meant.",
    )


def write_first(scope: str, did_load: bool) -> Refusal:
    first = "" if did_load else f"{_load(scope)} "
    return Refusal(
        "Nothing of this turn is written down yet, so nothing can be posted.",
        f"{first}Write down what was done or decided with journal_append, or change the state with opportunity_patch, "
        f"both for {scope}. Then speak.",
    )


def nothing_succeeded(attempted: Sequence[str], loaded: Sequence[str]) -> Refusal:
    missing = [each for each in attempted if each not in loaded]
    first = f"{_load(missing[0])} " if missing else ""
    return Refusal(
        "A change was tried in this turn, and no patch or journal entry has succeeded yet, so nothing can be posted.",
        f"{first}Correct the change and make it again, or write down with journal_append for {_listed(attempted)} what "
        "failed. Then speak.",
    )


def _load(rfp_id: str) -> str:
    return f"Call opportunity_load with rfp_id {rfp_id} first."


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(ids[:_NAMED]) + more
