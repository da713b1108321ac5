"""`threadline knowledge`: the documents that questions are answered from."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from threadline.cli import telling
from threadline.cli.settings import adopt_running_stack
from threadline.domain.errors import Permanent
from threadline.domain.records import Document

app = typer.Typer(help="The documents that questions are answered from.", no_args_is_help=True)

Team = Annotated[str, typer.Option(help="The workspace's id; without it, that of the bot's token.")]


@app.callback()
def _group() -> None:
    adopt_running_stack()


@app.command()
def add(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Texts in UTF-8, such as Markdown.")],
    team: Team = "",
) -> None:
    """Keep texts, one document a file; a file that was added before is replaced."""
    documents = [_document(path) for path in files]  # all are read before the first is kept

    async def run() -> None:
        from threadline.bootstrap import records_desk

        async with records_desk(team) as desk:
            for document in documents:
                await desk.save(document)
                telling.progress(f"{document.source}: {document.title}")

    asyncio.run(run())


@app.command("list")
def list_documents(team: Team = "") -> None:
    """The documents that are known, by where they are from."""

    async def run() -> None:
        from threadline.bootstrap import records_desk

        async with records_desk(team) as desk:
            found = await desk.documents()
        for document in found:
            telling.line(f"{document.source}: {document.title} ({len(document.body):,} characters)")
        if not found:
            telling.line("There is no document.")

    asyncio.run(run())


@app.command()
def remove(
    source: Annotated[str, typer.Argument(help="Where it is from, as `threadline knowledge list` says it.")],
    team: Team = "",
) -> None:
    """Forget a document."""

    async def run() -> None:
        from threadline.bootstrap import records_desk

        async with records_desk(team) as desk:
            if not await desk.forget(source):
                raise Permanent(f"There is no document from {source}: `threadline knowledge list` lists them.")
        telling.line(f"{source} is forgotten.")

    asyncio.run(run())


def _document(path: Path) -> Document:
    """A heading at the head of a text is its title; without one the file's name is."""
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Permanent(f"{path} cannot be read as a text in UTF-8: {error}") from error
    first, _, rest = text.partition("\n")
    if first.startswith("# ") and rest.strip():
        return Document(first.removeprefix("# "), str(path), rest)
    return Document(path.stem.replace("-", " ").replace("_", " "), str(path), text)
