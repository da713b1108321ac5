"""DocumentReader: reads a document in a child process, whose failures cannot harm this one."""

import asyncio
import contextlib
import json
import sys
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, ValidationError

from threadline.errors import Permanent

SECONDS = 20.0
"""Seconds for one document, in total."""
MAX_CONCURRENT = 2
"""Documents that one process reads concurrently: each may take a core and a GiB."""
_MAX_ANSWER = 16 * 1024 * 1024
"""Bytes of an answer: a text of full length with each character escaped."""
_CHUNK = 64 * 1024
_CHILD = "threadline.documents.extract"
_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""The complete environment: the child of a worker inherits no token."""


class DocumentKind(StrEnum):
    PDF = "pdf"
    DOCX = "docx"
    TEXT = "text"
    MARKDOWN = "markdown"


class DocumentText(BaseModel):
    """The text of a document.

    Args:
        kind: its format.
        text: the extracted text.
        pages: pages of a PDF, else 0.
        unread: noun phrases for the parts that were not read; empty where the text is complete.
            Every user of the text has to show them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: DocumentKind
    text: str
    pages: int = 0
    unread: tuple[str, ...] = ()


class DocumentRejected(Exception):
    """A rejected document, in the child. The text follows "The file …" and says what to upload
    instead.
    """


class UnreadableDocument(Permanent):
    """A rejected document; the message gives the reason, and what to upload instead."""


class _ReaderAnswer(BaseModel):
    document: DocumentText | None = None
    rejected: str = ""


class DocumentReader:
    """Reads documents in child processes. `seconds` bounds the time for one document."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def read(self, name: str, content: bytes) -> DocumentText:
        """Return the text of a document; a cancellation ends the child.

        Args:
            name: of the file; only its suffix matters.
            content: the file's bytes.

        Raises:
            UnreadableDocument: the document is rejected.
        """
        suffix = name.rpartition(".")[2].lower() if "." in name else ""
        async with self._slots:
            answered = await self._run_child(suffix[:20], content)
        try:
            answer = _ReaderAnswer.model_validate(json.loads(answered))
        except (ValueError, ValidationError) as exc:
            raise _too_costly() from exc
        if answer.document is None:
            raise (
                UnreadableDocument(f"The file {answer.rejected}")
                if answer.rejected
                else _too_costly()
            )
        return answer.document

    async def _run_child(self, suffix: str, content: bytes) -> bytes:
        """Return the child's answer; empty when the child ended early, by itself, by the system or
        by this process.
        """
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-B", "-m", _CHILD, suffix),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd="/",
            env=_ENVIRONMENT,
        )
        try:
            async with asyncio.timeout(self._seconds):
                _, answer = await asyncio.gather(_send(child, content), _receive(child))
                return answer if await child.wait() == 0 else b""
        except TimeoutError:
            return b""
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


async def _send(child: asyncio.subprocess.Process, content: bytes) -> None:
    if child.stdin is None:
        raise RuntimeError("the child has no standard input")
    # the child ended before it read everything
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child.stdin.write(content)
        await child.stdin.drain()
    child.stdin.close()


async def _receive(child: asyncio.subprocess.Process) -> bytes:
    if child.stdout is None:
        raise RuntimeError("the child has no standard output")
    answer = bytearray()
    while chunk := await child.stdout.read(_CHUNK):
        answer += chunk
        if len(answer) > _MAX_ANSWER:
            child.kill()
            return b""
    return bytes(answer)


def _too_costly() -> UnreadableDocument:
    return UnreadableDocument(
        "The file took too much time or memory to read: upload the part that matters, or "
        "save it again."
    )
