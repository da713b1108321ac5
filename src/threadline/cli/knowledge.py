"""`threadline knowledge`: manage the documents that questions are answered from."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadline.cli import output
from threadline.cli.connections import (
    Team,
    find_team,
    open_database,
    team_transaction,
    use_running_stack,
)
from threadline.cli.process import run_async
from threadline.errors import Permanent

if TYPE_CHECKING:
    from collections import Counter

    from threadline.knowledge.ingest import IngestReport
    from threadline.knowledge.model import Document

app = typer.Typer(
    help="Manage the documents that the bot answers questions from.",
    no_args_is_help=True,
    callback=use_running_stack,
)


@app.command()
@run_async
async def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH…", help="Folders of Markdown, files, and lists of addresses (*.urls)."
        ),
    ],
    allow_private: Annotated[
        bool,
        typer.Option(
            "--allow-private", help="Also fetch addresses of this machine and this network."
        ),
    ] = False,
    forget_all: Annotated[
        bool,
        typer.Option(
            "--forget-all", help="Also forget the documents of a folder or list that is now empty."
        ),
    ] = False,
    team: Team = "",
) -> None:
    """Ingest documents: read new and changed ones, forget those that are gone.

    A document that cannot be read is named and stays as it was. The exit code is then 1.
    """
    from threadline.knowledge.ingest import collect_sources
    from threadline.knowledge.ingest import ingest as ingest_sources
    from threadline.knowledge.languages import configuration
    from threadline.knowledge.web import open_web_fetcher
    from threadline.settings import ModelSettings
    from threadline.wiring.toolsets import configured_embedder

    settings = ModelSettings.load()
    async with (
        open_database() as database,
        configured_embedder(settings) as embedder,
        open_web_fetcher(allow_private=allow_private) as web,
    ):
        team_id = await find_team(team)
        sources = collect_sources(paths, web.fetch)
        with output.progress_bar("Reading") as advance:
            report = await ingest_sources(
                database,
                team_id,
                sources,
                embedder,
                advance,
                forget_all=forget_all,
                language=configuration(settings.knowledge_language),
            )
    _print_skipped(sources.skipped)
    _print_report(report)
    if report.refusals:
        raise typer.Exit(1)


def _print_report(report: "IngestReport") -> None:
    for source in report.removed:
        output.print_line(f"{source} no longer exists and was forgotten.")
    for notice in report.notices:
        output.print_line(notice)
    for refusal in report.refusals:
        output.print_error(refusal)
    if report.embedding_error:
        output.print_error(
            "Until you run this again, search finds some documents only by their words: "
            f"{report.embedding_error}"
        )
    from threadline.knowledge.ingest import SourceOutcome

    counts = ", ".join(f"{report.counts[each]} {each}" for each in SourceOutcome)
    output.print_line(f"{counts}.")


def _print_skipped(skipped: "Counter[str]") -> None:
    """Print how many files of a folder were skipped, of which kinds, and the remedy."""
    if not skipped:
        return
    kinds = ", ".join(
        f"{count} {suffix or 'without a suffix'}" for suffix, count in skipped.most_common()
    )
    number = skipped.total()
    files = "1 file was" if number == 1 else f"{number} files were"
    output.print_line(
        f"{files} skipped ({kinds}): only Markdown and plain text are read. Save the text of a "
        "document as .md or .txt in the same folder, and run this again."
    )


@app.command("list")
@run_async
async def list_documents(team: Team = "", as_json: output.Json = False) -> None:
    """List the documents, by their source."""
    from threadline.knowledge.store import KnowledgeStore

    async with team_transaction(team) as (tx, team_id):
        found = await KnowledgeStore(tx).documents(team_id)
    document = {
        "documents": [
            {
                "source": each.source,
                "title": each.title,
                "type": each.terms.type,
                "authority": each.terms.authority,
                "effective": each.terms.effective,
                "expires": each.terms.expires,
                "language": each.language,
                "characters": len(each.body),
            }
            for each in found
        ]
    }
    output.show(document, lambda: _print_documents(found), as_json=as_json)


def _print_documents(found: "Sequence[Document]") -> None:
    for document in found:
        terms = document.terms
        days = [
            f"from {terms.effective}" if terms.effective else "",
            f"until {terms.expires}" if terms.expires else "",
        ]
        told = ", ".join(
            filter(None, [terms.type.value, f"{len(document.body):,} characters", *days])
        )
        output.print_line(f"{document.source}: {document.title} ({told})")
    if not found:
        output.print_line("There is no document.")


@app.command()
@run_async
async def remove(
    source: Annotated[
        str,
        typer.Argument(help="Source of the document, as `threadline knowledge list` shows it."),
    ],
    team: Team = "",
) -> None:
    """Forget a document."""
    from threadline.knowledge.store import KnowledgeStore

    async with team_transaction(team) as (tx, team_id):
        if not await KnowledgeStore(tx).delete(team_id, source):
            raise Permanent(
                f"There is no document from {source}: `threadline knowledge list` lists them."
            )
    output.print_line(f"{source} is forgotten.")
