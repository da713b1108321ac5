"""`threadline cases`: show bug cases, and resolve one by hand."""

import getpass
import textwrap
import time
import uuid
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from threadline.cli import output
from threadline.cli.connections import transaction, use_running_stack
from threadline.cli.process import run_async

app = typer.Typer(
    help="Show bug cases, and resolve one by hand.",
    no_args_is_help=True,
    callback=use_running_stack,
)

Case = Annotated[str, typer.Argument(metavar="CASE", help="Number of the case, such as BUG-12.")]


@app.command("list")
@run_async
async def list_cases(
    everything: Annotated[bool, typer.Option("--all", help="Include resolved cases.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.")] = 50,
) -> None:
    """List the open cases, newest first."""
    from threadline.cases.store.lists import CaseLists

    async with transaction() as tx:
        found = await CaseLists(tx).list(open_only=not everything, limit=limit)
    table = Table(
        "case",
        "status",
        "severity",
        "title",
        "reporter",
        "opened",
        "cost",
        box=None,
        pad_edge=False,
    )
    for record in found:
        title = escape(textwrap.shorten(record.title, 60, placeholder="…"))
        state = (record.bug_id, record.status, record.severity, title, record.reporter_id)
        table.add_row(
            *state,
            f"{record.created_at:%Y-%m-%d %H:%M}",
            output.cost_text(record.cost_usd, digits=2),
        )
    output.console.print(table if table.row_count else "There is no case.")


@app.command()
@run_async
async def show(case: Case) -> None:
    """Show one case: its transitions, its conversation as stored, its turns and their cost."""
    from threadline.cases.store.case import CaseStore
    from threadline.cases.store.lists import CaseLists
    from threadline.cases.store.messages import CaseMessageStore

    async with transaction() as tx:
        store = CaseStore(tx)
        record = await store.get(case)
        request = await store.pull_request(case)
        transitions = await CaseLists(tx).transitions(case)
        turns = await store.turns(case)
        page = await CaseMessageStore(tx).page(case, limit=200)
        conversation = [*page.entries]
        while page.next_cursor is not None:
            page = await CaseMessageStore(tx).page(case, page.next_cursor, limit=200)
            conversation += page.entries
    output.console.print(f"[bold]{record.bug_id}[/bold] {escape(record.title)}")
    output.console.print(f"{record.status}, {record.severity}, reported by {record.reporter_id}")
    if request:
        output.console.print(f"Pull request ({request.state}): {escape(request.url)}")
    output.transitions(transitions)
    output.conversation(conversation)
    output.turns(turns)


@app.command()
@run_async
async def quarantine(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.")] = 50,
) -> None:
    """List unreadable messages. They are stored, and the bot did not answer them."""
    from threadline.cases.store.lists import CaseLists
    from threadline.threads.store import Quarantine

    async with transaction() as tx:
        kept = await Quarantine(tx).messages(limit)
        numbers = await CaseLists(tx).bug_ids({message.thread for message in kept})
    # each with its whole text, so that an admin can identify it
    for message in kept:
        case = numbers.get(message.thread, "no case")
        thread = escape(message.thread.key)
        output.console.print(
            f"[bold]{message.at:%Y-%m-%d %H:%M:%S}[/bold] {case}, thread {thread}, "
            f"{escape(message.message_id)}"
        )
        output.print_line(message.error)
        output.console.print(escape(message.text), soft_wrap=True)
    if not kept:
        output.print_line("Nothing is in quarantine.")


@app.command()
@run_async
async def resolve(
    case: Case,
    reason: Annotated[str, typer.Option(help="Reason. It is stored, and posted in the threads.")],
) -> None:
    """Resolve a case by hand. A message in its thread reopens it."""
    from threadline.cases.contract import case_start
    from threadline.cases.store.case import CaseStore
    from threadline.privacy.redaction import redact
    from threadline.threads.model import IncomingMessage, MessageKind, SenderType
    from threadline.threads.workflow_client import WorkflowClient
    from threadline.wiring.temporal import temporal_client

    async with transaction() as tx:
        record = await CaseStore(tx).get(case)
    # The case's workflow resolves it: a close is a signal like any other event.
    message = IncomingMessage(
        id=f"operator:{uuid.uuid4()}",
        kind=MessageKind.CLOSE,
        sender_type=SenderType.ADMIN,
        sender_id=getpass.getuser(),
        text=redact(reason),
        channel=record.thread.channel,
        ts=f"{time.time():.6f}",
    )
    await WorkflowClient(await temporal_client(tries=1)).start(case_start(record.thread, message))
    output.print_line(f"{case} is being resolved: {reason}")
