"""DocumentReader: reads a document in a child process, which may fail in every way without harm to this one."""

import asyncio
import contextlib
import json
import sys
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, ValidationError

from threadline.errors import Permanent

SECONDS = 20.0
"""For one document, all in all."""
MAX_CONCURRENT = 2
"""Documents that one process has read at a time: each may take a core and a GiB."""
_MAX_ANSWER = 16 * 1024 * 1024
"""Bytes: a text of full length, each character of it escaped."""
_CHUNK = 64 * 1024
_CHILD = "threadline.documents.extract"
_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""All of it: the child of a worker inherits no token."""


class DocumentKind(StrEnum):
    PDF = "pdf"
    DOCX = "docx"
    TEXT = "text"
    MARKDOWN = "markdown"


class DocumentText(BaseModel):
    """The text of a document. `pages`: of a PDF, else 0; `cut`: the text is not whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: DocumentKind
    text: str
    pages: int = 0
    cut: bool = False


class DocumentRejected(Exception):
    """In the child: a document that is not taken. The text follows "The file …" and says what to upload instead."""


class UnreadableDocument(Permanent):
    """A document that is not taken; the message says why, and what to upload instead."""


class _ReaderAnswer(BaseModel):
    document: DocumentText | None = None
    rejected: str = ""


class DocumentReader:
    """Args: `seconds` that one document may take."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def read(self, name: str, content: bytes) -> DocumentText:
        """The text of a document; a cancellation ends the reading. `name`: of the file; only its end is looked at.
        Raises `UnreadableDocument`: it is not taken."""
        suffix = name.rpartition(".")[2].lower() if "." in name else ""
        async with self._slots:
            answered = await self._run_child(suffix[:20], content)
        try:
            answer = _ReaderAnswer.model_validate(json.loads(answered))
        except (ValueError, ValidationError) as exc:
            raise _too_costly() from exc
        if answer.document is None:
            raise UnreadableDocument(f"The file {answer.rejected}") if answer.rejected else _too_costly()
        return answer.document

    async def _run_child(self, suffix: str, content: bytes) -> bytes:
        """The child's answer; empty when it was ended, by itself, by the system or by us."""
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
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended before it had read everything
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
        "The file took too much time or memory to read: upload the part that matters, or save it again."
    )
