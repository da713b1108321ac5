"""Has a document read by a child process, which may fail in every way without harm to this one."""

import asyncio
import contextlib
import json
import sys

from pydantic import BaseModel, ConfigDict, ValidationError

from threadline.documents.file_kinds import Kind
from threadline.errors import Permanent

SECONDS = 20.0
"""For one document, all in all."""
AT_ONCE = 2
"""Documents that one process has read at a time: each may take a core and a GiB."""
_MOST_ANSWER = 16 * 1024 * 1024
"""Bytes: a text of full length, each character of it escaped."""
_CHUNK = 64 * 1024
_CHILD = "threadline.documents.child"
_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""All of it: the child of a worker inherits no token."""


class Document(BaseModel):
    """What was read. `pages`: of a PDF, else 0; `cut`: the text is not whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    text: str
    pages: int
    cut: bool


class UnreadableDocument(Permanent):
    """A document that is not taken; the message says why, and what to upload instead."""


class _Answer(BaseModel):
    text: Document | None = None
    refused: str = ""


class Reader:
    """Args: `seconds` that one document may take."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._places = asyncio.Semaphore(AT_ONCE)

    async def read(self, name: str, content: bytes) -> Document:
        """The text of a document; a cancellation ends the reading.

        Args:
            name: of the file; only its end is looked at.

        Raises:
            UnreadableDocument: it is not taken.
        """
        suffix = name.rpartition(".")[2].lower() if "." in name else ""
        async with self._places:
            said = await self._asked(suffix[:20], content)
        try:
            answer = _Answer.model_validate(json.loads(said))
        except (ValueError, ValidationError) as exc:
            raise _too_much() from exc
        if answer.text is None:
            raise UnreadableDocument(f"The file {answer.refused}") if answer.refused else _too_much()
        return answer.text

    async def _asked(self, suffix: str, content: bytes) -> bytes:
        """What the child says; nothing when it was ended, by itself, by the system or by us."""
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
                _, said = await asyncio.gather(_give(child, content), _answer(child))
                return said if await child.wait() == 0 else b""
        except TimeoutError:
            return b""
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


async def _give(child: asyncio.subprocess.Process, content: bytes) -> None:
    if child.stdin is None:
        raise RuntimeError("the child has no standard input")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended before it had read everything
        child.stdin.write(content)
        await child.stdin.drain()
    child.stdin.close()


async def _answer(child: asyncio.subprocess.Process) -> bytes:
    if child.stdout is None:
        raise RuntimeError("the child has no standard output")
    said = bytearray()
    while chunk := await child.stdout.read(_CHUNK):
        said += chunk
        if len(said) > _MOST_ANSWER:
            child.kill()
            return b""
    return bytes(said)


def _too_much() -> UnreadableDocument:
    return UnreadableDocument(
        "The file took too much time or memory to read: upload the part that matters, or save it again."
    )
