"""The kinds of files in which agents read text, as Slack lists them."""

import pytest

from threadline.slack.file_kinds import CANVAS, holds_text
from threadline.slack.model import FileRef
from threadline.slack.text import file_piece, files_of, forwarded_of, without_files


@pytest.mark.parametrize(
    ("mimetype", "name"),
    [
        ("text/plain", "Untitled"),
        ("text/plain", "main.py"),
        ("text/csv", "prices.csv"),
        ("text/x-log", "app"),
        ("text/html", "page.html"),
        ("application/json", "answer.json"),
        ("application/problem+json", "answer"),
        ("application/x-ndjson", "events"),
        ("application/octet-stream", "app.log"),
        ("application/octet-stream", "app.log.1"),
        ("application/octet-stream", "DEBUG.LOG"),
        ("application/octet-stream", "values.yml"),
        ("", "config.toml"),
        ("video/mp2t", "index.ts"),
        (CANVAS, "Plan"),
    ],
)
def test_text_is_known_by_type_or_name(mimetype: str, name: str) -> None:
    assert holds_text(mimetype, name)


@pytest.mark.parametrize(
    ("mimetype", "name"),
    [
        ("image/png", "error.log.png"),
        ("image/png", "error.log"),
        ("application/pdf", "brief.pdf"),
        ("application/zip", "logs.txt"),
        ("application/octet-stream", "core"),
        ("application/octet-stream", "tool.exe"),
        ("video/mp4", "demo.ts"),
        ("text/html", "Re: your order"),
        ("", ""),
    ],
)
def test_other_kinds_hold_no_text(mimetype: str, name: str) -> None:
    assert not holds_text(mimetype, name)


SNIPPET = {
    "id": "F1",
    "name": "app.log",
    "mimetype": "text/plain",
    "mode": "snippet",
    "preview": "<!here> a & b\nc",
}


def test_preview_of_a_snippet_is_kept_and_mentions_no_user() -> None:
    [file] = files_of({"files": [SNIPPET]})
    assert file.preview == "<\u2060!here> a & b\nc"
    assert len(files_of({"files": [SNIPPET | {"preview": "x" * 9_000}]})[0].preview) == 600


@pytest.mark.parametrize(
    "kind", [{"filetype": "email"}, {"filetype": "quip"}, {"mimetype": CANVAS}]
)
def test_preview_in_markup_is_left_out(kind: dict[str, str]) -> None:
    assert files_of({"files": [SNIPPET | kind]})[0].preview == ""


def test_snippet_of_a_forwarded_message_is_shown_within_it() -> None:
    shared = {"is_share": True, "author_name": "Ben", "text": "see", "files": [SNIPPET]}
    shown = forwarded_of({"user": "U1", "text": "", "attachments": [shared]})
    assert "> <\u2060!here> a & b\n> c" in shown


def test_removed_file_leaves_its_neighbours() -> None:
    pieces = [
        file_piece(FileRef(f"F{each}", "app.log"), f"line {each}\nmore") for each in (1, 2, 3)
    ]
    trouble = file_piece(FileRef("F4", "b.log"), "preview", "it was deleted")
    shown = "\n".join(["> a quote of the author", *pieces, trouble, "last words"])
    kept = "\n".join(["> a quote of the author", pieces[0], pieces[2], "last words"])
    assert without_files(shown, {"F2", "F4"}) == kept
    assert without_files(shown, ()) == shown
