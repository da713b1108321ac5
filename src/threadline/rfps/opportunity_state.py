"""The state of an opportunity: one JSON document, changed by merge patches, each made from a version of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from threadline.errors import Permanent
from threadline.rfps.json_documents import Document, flaw, merged
from threadline.rfps.model import RfpStatus
from threadline.tools.model import Risk

MOST_PATCH, MOST_DOCUMENT = 64_000, 256_000
"""Bytes as JSON. A larger patch, or one that makes the document larger, is refused."""

_NOTES = frozenset(
    {
        *("notes", "note", "summary", "next_steps", "next_step", "tasks", "open_questions", "questions", "risks"),
        *("tags", "links", "contacts", "highlights", "history", "comments"),
    }
)
"""Fields of a state in which people keep what they know: writing there binds nobody. To empty one is of medium risk."""
_OUTCOMES = frozenset({RfpStatus.WON, RfpStatus.LOST, RfpStatus.NO_BID, RfpStatus.CANCELLED})
"""An opportunity that has one of these is over."""
_OUTCOME_FIELDS = frozenset({"status", "stage", "state", "outcome", "decision", "result"})


@dataclass(frozen=True)
class OpportunityState:
    """`updated_by` and `correlation_id` are empty as long as nothing but the request's own facts stand in it."""

    rfp_id: str
    version: int
    document: Document
    updated_by: str
    correlation_id: str
    updated_at: datetime


class PatchRefused(Permanent):
    """It is no patch, or too large."""


class StateMoved(Permanent):
    """Somebody was faster: the patch was made from a version that is no more. Load the newest and patch that."""

    def __init__(self, rfp_id: str, based_on: int, version: int) -> None:
        self.version = version
        super().__init__(
            f"the state of {rfp_id} is at version {version}, and the patch was made from {based_on}: nothing was "
            "changed; load it again and patch what it says now"
        )


def checked(patch: object) -> Document:
    """The patch, where it is one that may be applied.

    Raises:
        PatchRefused: it is no object, is empty, or is too large or too deep.
    """
    if not isinstance(patch, dict) or not patch:
        raise PatchRefused('a patch must be a JSON object with the changes, such as {"status": "won"}')
    if fault := flaw(patch, MOST_PATCH):
        raise PatchRefused(f"the patch {fault}: nothing was changed")
    return patch


def patched(document: Document, patch: object) -> Document:
    """The document after the patch. Raises `PatchRefused`."""
    result: Document = merged(document, checked(patch))
    if fault := flaw(result, MOST_DOCUMENT):
        raise PatchRefused(f"with this patch the document {fault}: nothing was changed")
    return result


def patch_risk(patch: Document) -> Risk:
    """The risk of a proposed patch: low where it only adds notes, high where it ends the opportunity."""
    if _ends_it(patch):
        return Risk.HIGH
    harmless = all(name in _NOTES and value is not None for name, value in patch.items())
    return Risk.LOW if harmless else Risk.MEDIUM


def _ends_it(value: object) -> bool:
    """Whether an outcome stands in it at any depth, under whatever of the usual names."""
    if isinstance(value, list):
        return any(map(_ends_it, value))
    if not isinstance(value, Mapping):
        return False
    return any(
        _ends_it(each) or (str(name).casefold() in _OUTCOME_FIELDS and _is_outcome(each))
        for name, each in value.items()
    )


def _is_outcome(value: object) -> bool:
    plain = "_".join(value.casefold().replace("-", " ").replace("_", " ").split()) if isinstance(value, str) else ""
    return plain in _OUTCOMES or plain in ("canceled", "nobid")
