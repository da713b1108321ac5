"""`threadline messages`: list and restore messages that Slack no longer shows although no deletion
was seen.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from threadline.cli import output
from threadline.cli.connections import Team, team_transaction, use_running_stack
from threadline.cli.process import run_async
from threadline.errors import Permanent

if TYPE_CHECKING:
    from threadline.db.engine import Transaction
    from threadline.threads.removed_store import RemovedMessage

app = typer.Typer(
    help="List and restore messages that Slack no longer shows although no deletion was seen.",
    no_args_is_help=True,
    callback=use_running_stack,
)

_MAX_LISTED = 1_000
"""Messages in one list, and in one restore."""
_MAX_DOUBTED = 100


@app.command(name="list")
@run_async
async def list_messages(team: Team = "") -> None:
    """List removed messages that can be restored, and kept messages that Slack does not show.

    Their texts are not shown. Messages whose deletion was seen are gone for good.
    """
    from threadline.threads.absence_store import AbsenceStore
    from threadline.threads.removed_store import RemovedStore

    async with team_transaction(team) as (tx, found_team):
        removed = await RemovedStore(tx).listed(found_team, _MAX_LISTED)
        doubted = await AbsenceStore(tx, found_team).doubted(_MAX_DOUBTED)
        count = await AbsenceStore(tx, found_team).count_doubted()
    if removed:
        _print_removed(removed)
        output.print_line("`threadline messages restore ID …` brings them back.")
    else:
        output.print_line("There is nothing to restore.")
    if doubted:
        table = Table(title="Kept, although Slack does not show them", title_justify="left")
        for name in ("message", "channel", "thread", "passes"):
            table.add_column(name)
        for each in doubted:
            table.add_row(escape(each.message_id), each.channel, each.thread_ts, str(each.looks))
        output.console.print(table)
        if count > len(doubted):
            output.print_line(f"{count - len(doubted)} more are not shown.")


@app.command()
@run_async
async def restore(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of messages, as the list shows them.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Restore all that can be restored.")
    ] = False,
    team: Team = "",
) -> None:
    """Restore messages that were removed because Slack no longer showed them.

    Texts, files, transcripts and titles of cases read as before, and the catch-up does not remove
    them again. Derived texts are not restored: the operator's memories, texts of decisions, and
    cards in Slack.
    """
    from threadline.threads.removed_store import RemovedStore

    if bool(ids) == everything:
        raise Permanent(
            "Name the messages to restore, or say --all. `threadline messages list` shows them."
        )
    async with team_transaction(team) as (tx, found_team):
        removed = await RemovedStore(tx).listed(found_team, _MAX_LISTED)
        known = {each.message_id for each in removed}
        if unknown := [each for each in ids or () if each not in known]:
            raise Permanent(f"There is no such message to restore: {', '.join(unknown)}.")
        chosen = [each for each in removed if everything or each.message_id in (ids or ())]
        for message in chosen:
            await _restore(tx, found_team, message)
    output.print_line(f"Restored: {len({each.message_id for each in chosen})}.")


async def _restore(tx: "Transaction", team: str, message: "RemovedMessage") -> None:
    from threadline.cases.store.messages import CaseMessageStore
    from threadline.conversations.store.messages import MessageStore
    from threadline.handovers.store import HandoverAnswerStore
    from threadline.threads.absence_store import RESTORED, AbsenceStore

    if message.bug_id:
        await CaseMessageStore(tx).restore(message.bug_id, message.message_id)
    elif message.record == "handover_answers":
        await HandoverAnswerStore(tx).restore(message.conversation_id, message.message_id)
    else:
        await MessageStore(tx).restore(message.conversation_id, message.message_id)
    await AbsenceStore(tx, team).set_verdict([message.message_id], RESTORED)


def _print_removed(removed: "list[RemovedMessage]") -> None:
    table = Table(title="Removed, and can be restored", title_justify="left")
    for name in ("message", "of", "removed at (UTC)"):
        table.add_column(name)
    for each in removed:
        owner = each.bug_id or f"conversation {each.conversation_id}"
        when = datetime.fromtimestamp(each.removed_at, UTC).strftime("%Y-%m-%d %H:%M")
        table.add_row(escape(each.message_id), owner, when)
    output.console.print(table)
