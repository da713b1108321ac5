"""Files that people upload: a request for proposals is made of one, once for each file."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Protocol

from pydantic import Field

from threadline.models.model import ToolKind
from threadline.rfps.model import LONGEST_CLIENT, LONGEST_TITLE, Rfp
from threadline.rfps.tool_parameters import CorrelationId, author, rfp_record, shown_rfps
from threadline.tools.context import ToolContext
from threadline.tools.model import Author, Change, Operation, Risk, ToolResult
from threadline.tools.registry import tool


@dataclass(frozen=True)
class Upload:
    """A file in Slack, and what is known of the request in it; what is empty is read from the file."""

    file_id: str
    title: str = ""
    client: str = ""
    due_date: date | None = None


@dataclass(frozen=True)
class ReadFile:
    """`kind`: by its content. `pages`: of a PDF, else 0. `cut`: more stood in it than `characters` were kept."""

    name: str
    kind: str
    pages: int
    characters: int
    cut: bool


@dataclass(frozen=True)
class Filed:
    """What became of a file: `new` is False where the request was there already, made from the same file.

    `about`: the request that the thread is about now. `beginning`: the first words of the file.
    """

    rfp: Rfp
    new: bool
    file: ReadFile
    about: str
    beginning: str


class RfpFiles(Protocol):
    async def create(self, change: Change, author: Author, upload: Upload) -> Filed:
        """Make the request, with its state and an event; a thread that is about none is about it from now on.

        Once for each operation, and once in a team for each file.

        Raises:
            Permanent: the file is not shown where `change` comes from, is by somebody external whose words do not count
                there and whom nobody of the workspace has shared it for, is too large, or is no document that can be
                read; nothing was made, and the message says what to do.
            Transient: Slack or the database did not answer; `NotDone` when surely nothing was made.
        """
        ...

    async def effect(self, operation: Operation) -> Filed | None:
        """What the operation did; None when it did nothing."""
        ...


TIMEOUT = 80.0
"""Seconds: for looking at the file, loading it, reading it, and keeping what was read."""


_FOR_ALL = (
    "What stands in it can be read in every channel now, wherever it was uploaded, and stays when the file is deleted "
    "in Slack."
)


def _record(given: Any) -> str:
    return f"file:{given.file_id}"


async def _look_up(context: ToolContext, given: Any) -> ToolResult | None:
    filed = await context.services[RfpFiles].effect(context.operation)
    return _told(filed) if filed else None


@tool(
    "rfp.create.from.slack.file",
    "Make an RFP of a file that was uploaded in this thread or channel: PDF, Word (DOCX), TXT or MD, at most 20 MiB. "
    "The same file twice gives the same RFP. The thread becomes about it if it is about none. "
    "What stands in it can be read in every channel from then on, and stays when the file is deleted in Slack.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(RfpFiles,),
    rate_limit_key=_record,
    look_up=_look_up,
    timeout=TIMEOUT,
    remote=True,
)
async def create_from_slack_file(
    context: ToolContext,
    *,
    file_id: Annotated[str, Field(pattern="^F[A-Z0-9]{2,40}$", description="The file's id, as the thread shows it.")],
    title: Annotated[
        str | None,
        Field(max_length=LONGEST_TITLE, description="Null: as the file begins, or is called."),
    ] = None,
    client: Annotated[
        str | None,
        Field(max_length=LONGEST_CLIENT, description="Who asks for proposals. Null where nobody has said it."),
    ] = None,
    due_date: Annotated[
        date | None, Field(description="When proposals are due, as 2026-03-31. Null where nobody has said it.")
    ] = None,
    correlation_id: CorrelationId,
) -> ToolResult:
    upload = Upload(file_id, title or "", client or "", due_date)
    who = author(context, correlation_id)
    return _told(await context.services[RfpFiles].create(context.change, who, upload))


TOOLS = [create_from_slack_file]


def _told(filed: Filed) -> ToolResult:
    rfp, file = filed.rfp, filed.file
    record = rfp_record(rfp)
    return ToolResult(
        data={
            **record,
            "existed_already": not filed.new,
            "file": vars(file),
            "thread_is_about": filed.about,
            "file_begins": filed.beginning,
        },
        display_text=" ".join(filter(None, (_made(filed), _thread(filed)))),
        structured=shown_rfps([record]),
    )


def _made(filed: Filed) -> str:
    named = f"{filed.rfp.rfp_id} ({filed.rfp.title})"
    if filed.new:
        return f"{filed.file.name} has become {named}: {_extent(filed.file)}. {_FOR_ALL}"
    return (
        f"{filed.file.name} was uploaded before: it is {named}. Nothing new was made, and its facts stay as they are."
    )


def _extent(file: ReadFile) -> str:
    pages = f"{file.pages:,} page{'' if file.pages == 1 else 's'}, " if file.pages else ""
    rest = "; not all of its text could be kept" if file.cut else ""
    return f"{pages}{file.characters:,} characters of text{rest}"


def _thread(filed: Filed) -> str:
    if filed.about != filed.rfp.rfp_id:
        return f"This thread stays about {filed.about}; “link {filed.rfp.rfp_id}” changes that."
    return "This thread is about it."
