"""The state of an opportunity: one JSON document, changed by merge patches, each made from a version of it."""

from dataclasses import dataclass
from datetime import datetime

from threadline.errors import Permanent
from threadline.rfps.json_documents import Document, flaw, merged

MOST_PATCH, MOST_DOCUMENT = 64_000, 256_000
"""Bytes as JSON. A larger patch, or one that makes the document larger, is refused."""


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
