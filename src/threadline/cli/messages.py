"""`threadline messages`: list and restore messages that Slack no longer shows although no deletion
was seen.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from threadline.cli import output
from threadline.cli.connections import Team, team_transaction, use_running_stack
from threadline.cli.process import run_async
from threadline.errors import Permanent

if TYPE_CHECKING:
    from threadline.db.engine import Transaction
    from threadline.threads.absence_store import AbsentMessage
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
async def list_messages(team: Team = "", as_json: output.Json = False) -> None:
    """List removed messages that can be restored, and kept messages that Slack does not show.

    Their texts are not shown. Messages whose deletion was seen are gone for good.
    """
    from threadline.threads.absence_store import AbsenceStore
    from threadline.threads.removed_store import RemovedStore

    async with team_transaction(team) as (tx, found_team):
        removed = await RemovedStore(tx).listed(found_team, _MAX_LISTED)
        doubted = await AbsenceStore(tx, found_team).doubted(_MAX_DOUBTED)
        count = await AbsenceStore(tx, found_team).count_doubted()
    document = {
        "removed": [
            {
                "message_id": each.message_id,
                "case": each.bug_id,
                "conversation_id": each.conversation_id or None,
                "removed_at": _moment(each.removed_at),
            }
            for each in removed
        ],
        "kept": [
            {
                "message_id": each.message_id,
                "channel": each.channel,
                "thread_ts": each.thread_ts,
                "passes": each.looks,
            }
            for each in doubted
        ],
        "kept_in_all": count,
    }
    output.show(document, lambda: _print_lists(removed, doubted, count), as_json=as_json)


def _print_lists(
    removed: "Sequence[RemovedMessage]", doubted: "Sequence[AbsentMessage]", count: int
) -> None:
    if removed:
        output.print_title("Removed, and can be restored")
        heads = ("message", "of", "removed at (UTC)")
        rows = [
            (
                each.message_id,
                each.bug_id or f"conversation {each.conversation_id}",
                f"{_moment(each.removed_at):%Y-%m-%d %H:%M}",
            )
            for each in removed
        ]
        output.print_table(heads, rows)
        output.print_line("`threadline messages restore ID …` brings them back.")
    else:
        output.print_line("There is nothing to restore.")
    if doubted:
        output.print_title("Kept, although Slack does not show them")
        kept = [
            (each.message_id, each.channel, each.thread_ts, str(each.looks)) for each in doubted
        ]
        output.print_table(("message", "channel", "thread", "passes"), kept)
        if count > len(doubted):
            output.print_line(f"{count - len(doubted)} more are not shown.")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


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
