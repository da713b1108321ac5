"""Parameters that the records' tools have in common, and how records are told to the model and to people."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, NoReturn

from pydantic import AfterValidator, BeforeValidator, Field

from threadline.errors import Permanent
from threadline.rfps.json_documents import Document
from threadline.rfps.model import Rfp, RfpStatus, in_document
from threadline.rfps.rfp_ids import LONGEST
from threadline.slack.model import MAX_NAME
from threadline.tools.context import ToolContext
from threadline.tools.model import Author, RecordGroup


def _rfp_id(text: str) -> str:
    if not text.strip():
        raise ValueError("expected an id such as rfp_abc123")
    return text.strip().lower()


RfpId = Annotated[
    str, AfterValidator(_rfp_id), Field(min_length=1, max_length=LONGEST, description="Its id, such as rfp_abc123.")
]
"""In small letters behind this: the protocol compares ids as they are."""
CorrelationId = Annotated[str, Field(min_length=1, max_length=MAX_NAME, description="Of the turn.")]
Before = Annotated[
    int | None,
    Field(ge=1, le=10**15, description="Only what is older: the lowest number of the page before. Null: the newest."),
]


def json_object(check: Callable[[object], object], example: str) -> BeforeValidator:
    """What the model writes as the text of a JSON object, since strict mode has no free keys; an object does as well.

    Args:
        check: raises `Permanent` for what is none that may be kept.
        example: of such a text.
    """

    def read(value: object) -> object:
        try:
            given = json.loads(value, parse_constant=_no_number) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            raise ValueError(f"expected the text of one JSON object, such as {example}") from None
        try:
            check(given)
        except Permanent as refused:
            raise ValueError(str(refused)) from None
        if not _is_storable(given):
            raise ValueError("it contains a number or a character that cannot be stored (NUL or an unpaired surrogate)")
        return given

    return BeforeValidator(read, json_schema_input_type=str)


def author(context: ToolContext, correlation_id: str) -> Author:
    return Author(context.user_id, correlation_id)


def rfp_record(rfp: Rfp) -> Document:
    """Only what there is to tell."""
    return {"rfp_id": rfp.rfp_id} | in_document(rfp)


def shown_rfps(records: Sequence[Document]) -> tuple[RecordGroup, ...]:
    """As people read them."""
    told = tuple(each | {"status": in_words(each["status"])} for each in records)
    return (RecordGroup("rfps", told),) if told else ()


def named(rfp_id: str, title: str) -> str:
    return f"{rfp_id} ({title})"


def in_words(status: str | RfpStatus) -> str:
    return str(status).replace("_", " ")


def moment(at: datetime) -> str:
    """ISO 8601 with its zone."""
    return at.isoformat(timespec="minutes")


def counted(count: int, one: str, many: str = "", *, more: bool = False) -> str:
    """`more`: there are further ones."""
    return f"{'more than ' if more else ''}{count} {one if count == 1 else many or f'{one}s'}"


def _no_number(constant: str) -> NoReturn:
    raise ValueError(constant)


def _is_storable(value: object) -> bool:
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:  # an endless number, or half of a pair
        return False
    return b"\\u0000" not in written.replace(rb"\\", b"")
