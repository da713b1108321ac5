"""Documents are read in a child process. Every reading ends with a text or a
sentence that explains the refusal.
"""

import asyncio
import contextlib
import io
import os
import sys
import zipfile
import zlib
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.documents import document_samples as papers
from tests.documents.pdf_samples import scan
from threadline.documents import archive
from threadline.documents import reader as reading
from threadline.documents.reader import (
    DocumentReader,
    DocumentRejected,
    DocumentText,
    UnreadableDocument,
)
from threadline.documents.reading import MAX_TEXT


async def _read(name: str, content: bytes) -> DocumentText:
    return await DocumentReader().read(name, content)


async def _refused(name: str, content: bytes, seconds: float = reading.SECONDS) -> str:
    with pytest.raises(UnreadableDocument) as told:
        await DocumentReader(seconds).read(name, content)
    return str(told.value)


async def test_text_and_pages_of_a_pdf_are_read() -> None:
    read = await _read("brief.pdf", papers.pdf("A crane for the harbour", "Due on 31 March"))
    assert (read.kind, read.pages, read.unread) == ("pdf", 2, ())
    assert read.text == "A crane for the harbour\n\nDue on 31 March"


async def test_paragraphs_and_tables_of_a_word_document_are_read() -> None:
    content = papers.word(
        "A crane\tfor", "the harbour", table=[["Due", "31 March"], ["Budget", "40,000"]]
    )
    read = await _read("brief.docx", content)
    assert (read.kind, read.pages) == ("docx", 0)
    assert read.text == "A crane for\nthe harbour\nDue | 31 March |\nBudget | 40,000 |"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("brief.md", b"# Crane\n\n\n\n\nfor the harbour", "markdown"),
        ("brief.TXT", "Krän".encode("utf-16"), "text"),
        ("brief", b"\xef\xbb\xbfKr\xc3\xa4n", "text"),
        ("brief.txt", "Krän".encode("utf-32"), "text"),
    ],
)
async def test_plain_text_is_read_in_the_usual_encodings(
    name: str, content: bytes, kind: str
) -> None:
    read = await _read(name, content)
    assert read.kind == kind
    assert read.text in ("# Crane\n\nfor the harbour", "Krän")


async def test_content_and_not_name_decides_the_kind() -> None:
    assert (await _read("brief.docx", papers.pdf("A crane"))).kind == "pdf"
    assert (await _read("brief.pdf", papers.word("A crane"))).kind == "docx"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("brief.pdf", b"MZ\x90\x00" + bytes(200), "is a program"),
        ("brief.pdf", b"\x7fELF" + bytes(200), "is a program"),
        ("brief.pdf", b"#!/bin/sh\nrm -rf ~", "its name ends in .pdf"),
        ("brief.pdf", b"<!DOCTYPE html><html>Sign in", "is a web page"),
        ("brief.txt", b"\x00\x01\x02\x03" * 50, "has a type that cannot be read"),
        (
            "brief.doc",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
            "an old Office file, or has a password",
        ),
        ("brief.txt", b" \n ", "is empty"),
        ("brief.pdf", b"%PDF-1.7\n" + b"\x93" * 5_000, "cannot be read"),
        ("brief.pdf", papers.pdf("A crane")[:200], "cannot be read"),
        ("brief.pdf", papers.locked_pdf("hunter2", "A crane"), "has a password"),
        ("scan.pdf", papers.pdf("", ""), "contains no text"),
        ("scan.docx", papers.word(""), "contains no text"),
        ("brief.docx", papers.archive(), "is an archive, not a Word document"),
        ("brief.docx", papers.office_file(), "is an Excel workbook"),
        ("brief.docx", papers.word("A crane")[:-500], "is damaged"),
        ("brief.docx", papers.packed_badly(), "is damaged"),
        ("brief.docx", papers.office_file(types="[content_types].xml"), "is an Excel workbook"),
        (
            "brief.docx",
            papers.changed(papers.word(""), {"word/document.xml": b"<w:document"}),
            "is damaged",
        ),
        ("brief.docx", papers.with_macros(), "contains macros"),
    ],
)
async def test_unreadable_document_is_refused(name: str, content: bytes, reason: str) -> None:
    told = await _refused(name, content)
    assert told.startswith("The file ")
    assert reason in told


async def test_archive_that_unpacks_to_too_much_is_refused() -> None:
    member = zipfile.ZipInfo("word/media/image1.bin")
    member.file_size = 101 * 2**20
    with pytest.raises(DocumentRejected, match="would unpack to 101 MiB"):
        archive._check_size([member], packed=member.file_size)
    assert "would unpack to 2" in await _refused("brief.docx", papers.bomb(20))
    assert "contains" in await _refused("brief.docx", papers.crowded(2_001))
    assert (await _read("brief.docx", papers.bomb(3))).text == "Boom"


async def test_pdf_that_only_forbids_printing_is_read() -> None:
    assert (await _read("brief.pdf", papers.locked_pdf("", "A crane"))).text == "A crane"


async def test_pdf_of_too_many_pages_is_refused_and_a_long_one_is_not() -> None:
    assert "has 1,001 pages" in await _refused("long.pdf", papers.pdf(*["x"] * 1_001))
    assert (await _read("long.pdf", papers.pdf(*["x"] * 300))).pages == 300


async def test_word_document_with_entities_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the crown jewels")
    outside = papers.with_entities(f'<!ENTITY x SYSTEM "{secret.as_uri()}">', "&x;")
    laughs = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    for trap in (outside, papers.with_entities(f'<!ENTITY a0 "ha">{laughs}', "&a11;")):
        assert "declares XML entities" in await _refused("brief.docx", trap)


@pytest.mark.parametrize("by_extension", [False, True])
async def test_entities_are_refused_under_any_name_of_the_main_part(by_extension: bool) -> None:
    plain = papers.renamed_body(
        papers.word("A crane"), "word/document.bin", by_extension=by_extension
    )
    assert (await _read("brief.docx", plain)).text == "A crane"
    trap = papers.with_entities('<!ENTITY x "ha">', "&x;")
    trap = papers.renamed_body(trap, "word/document.bin", by_extension=by_extension)
    assert "declares XML entities" in await _refused("brief.docx", trap)


async def test_member_with_two_spellings_is_refused() -> None:
    """python-docx reads one spelling, and another check might read the other."""
    content = io.BytesIO(papers.word("A crane"))
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr("[content_types].xml", "<Types/>")
    assert "is damaged" in await _refused("brief.docx", content.getvalue())


async def test_main_part_that_cannot_be_checked_is_refused() -> None:
    trap = papers.with_entities('<!ENTITY x "ha">', "&x;", encoding="Shift_JIS")
    assert "is damaged" in await _refused(
        "brief.docx", papers.renamed_body(trap, "word/document.bin")
    )


async def test_picture_with_a_document_type_is_accepted() -> None:
    drawing = b'<?xml version="1.0"?><!DOCTYPE svg SYSTEM "svg11.dtd"><svg/>'
    assert (
        await _read(
            "brief.docx", papers.changed(papers.word("A crane"), {"word/media/a.svg": drawing})
        )
    ).text


async def test_text_that_is_too_long_is_cut() -> None:
    read = await _read("long.txt", b"word " * 500_000)
    assert len(read.text) == MAX_TEXT
    assert read.unread == ("text after the first 1,000,000 characters",)


async def test_child_names_the_parts_that_it_did_not_read() -> None:
    read = await _read("scan.pdf", scan("A crane", scans=10))
    assert read.unread == ("pages 2–11 (no text, like a scan or a drawing)",)


async def test_stream_that_unpacks_to_too_much_is_refused() -> None:
    packed = zlib.compress(bytes(100 * 2**20))
    content = papers.pdf("A crane").replace(b"<< /Length ", b"<< /Filter /FlateDecode /Length ", 1)
    start = content.index(b"stream\n") + 7
    end = content.index(b"\nendstream")
    assert "would unpack to too much" in await _refused(
        "brief.pdf", content[:start] + packed + content[end:]
    )


async def test_document_that_takes_too_long_is_refused_and_its_process_ended() -> None:
    told = await _refused("long.pdf", papers.pdf(*["x" * 200] * 900), seconds=0.05)
    assert "took too much time or memory" in told
    assert _children() == []


async def test_cancelled_reading_leaves_no_process() -> None:
    task = asyncio.create_task(_read("long.pdf", papers.pdf(*["x" * 200] * 900)))
    while not _children():  # noqa: ASYNC110 - no event announces a started process
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _children() == []


async def test_child_inherits_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    task = asyncio.create_task(_read("long.pdf", papers.pdf(*["x" * 200] * 900)))
    seen: dict[str, str] = {}
    while not task.done() and "LC_ALL" not in seen:
        for child in _children():
            with contextlib.suppress(psutil.Error):
                seen = child.environ() if child.cmdline()[1:2] == ["-I"] else {}
        await asyncio.sleep(0.005)
    await task
    assert set(seen) == {"LC_ALL"}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory has no such limit")
@pytest.mark.parametrize(
    ("deed", "end"),
    [
        ("bytearray(2 << 30)", "MemoryError"),
        ("open(sys.argv[1], 'wb', 0).write(b'x')", "OSError"),
        ("[open('/dev/null') for _ in range(20)]", "OSError"),
    ],
)
async def test_child_is_held_to_its_limits(tmp_path: Path, deed: str, end: str) -> None:
    program = (
        "import sys; from threadline.documents.extract import limit_resources; "
        f"limit_resources(); {deed}"
    )
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-B", "-c", program, str(tmp_path / "x")),
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await child.communicate()
    assert child.returncode != 0
    assert said.decode().splitlines()[-1].startswith(end)


def _children() -> list[psutil.Process]:
    """Return the processes that read documents, among all children of the tests."""
    found = []
    for each in psutil.Process(os.getpid()).children():
        with contextlib.suppress(psutil.Error):
            if "threadline.documents.extract" in each.cmdline():
                found.append(each)
    return found
