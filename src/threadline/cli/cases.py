"""`threadline cases`: show bug cases, and resolve one by hand."""

import getpass
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from threadline.cli import output
from threadline.cli.connections import (
    Workspace,
    find_workspace,
    transaction,
    use_running_stack,
    workflow_url,
)
from threadline.cli.process import run_async
from threadline.errors import Permanent

if TYPE_CHECKING:
    from threadline.cases.model import CaseRecord, Entry
    from threadline.cases.store.case import TurnRecord
    from threadline.cases.store.lists import Transition
    from threadline.db.engine import Transaction
    from threadline.forge.model import PullRequest
    from threadline.slack.model import Thread
    from threadline.threads.store import QuarantinedMessage

app = typer.Typer(
    help="Show bug cases, and resolve one by hand.",
    no_args_is_help=True,
    callback=use_running_stack,
)

Case = Annotated[
    list[str],
    typer.Argument(metavar="CASE", help="Number of the case, such as BUG-12, bug-12 or 12."),
]
_NUMBER = re.compile(r"(?:bug[\s_#:.\-\u2010-\u2015\u2212]*|#\s*)?(\d{1,18})", re.IGNORECASE)
_AROUND = " \t\r\n*_`'\"<>()[]{}.,:;!?\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u2026"
"""Characters around a number that was copied from a sentence or from Slack."""


def case_id(words: Sequence[str]) -> str:
    """Return the id of a case from its number as people write it: `bug-4`, `#4`, `Bug 4`, `4`.

    Raises:
        Permanent: The words are no case number.
    """
    written = " ".join(words).strip(_AROUND)
    found = _NUMBER.fullmatch(written)
    if not found:
        raise Permanent(
            f"{' '.join(words)[:60]!r} is not a case number: write it as BUG-12 or 12. "
            "`threadline cases list` lists the cases."
        )
    return f"BUG-{int(found[1])}"


@app.command("list")
@run_async
async def list_cases(
    everything: Annotated[bool, typer.Option("--all", help="Include resolved cases.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.")] = 50,
    as_json: output.Json = False,
) -> None:
    """List the open cases, newest first."""
    from threadline.cases.store.lists import CaseLists

    async with transaction() as tx:
        found = await CaseLists(tx).list(open_only=not everything, limit=limit)
        names = dict[str, str]()
        for team in {each.thread.team for each in found}:
            reporters = {each.reporter_id for each in found if each.thread.team == team}
            names |= await _names(tx, team, reporters)
    document = {"cases": [_case_document(each, names) for each in found]}
    output.show(document, lambda: _print_cases(found, names), as_json=as_json)


async def _names(tx: "Transaction", team: str, user_ids: set[str]) -> dict[str, str]:
    from threadline.slack.store import UserStore

    return await UserStore(tx).names(team, user_ids)


def _case_document(case: "CaseRecord", names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "case": case.bug_id,
        "title": case.title,
        "status": case.status,
        "severity": case.severity,
        "reporter_id": case.reporter_id,
        "reporter_name": names.get(case.reporter_id, ""),
        "components": case.components,
        "opened_at": case.created_at,
        "close_reason": case.close_reason,
        "turns": case.turn,
        "cost_usd": case.cost_usd,
    }


def _print_cases(found: "Sequence[CaseRecord]", names: Mapping[str, str]) -> None:
    if not found:
        output.print_line("There is no case.")
        return
    heads = ("case", "sev", "opened", "cost", "status", "reporter", "title")
    rows = [
        (
            each.bug_id,
            each.severity,
            f"{each.created_at:%Y-%m-%d}",
            output.cost_text(each.cost_usd, digits=2),
            each.status,
            output.person_text(each.reporter_id, names),
            each.title,
        )
        for each in found
    ]
    fixed = ("case", "sev", "opened", "cost", "status")
    output.print_table(heads, rows, fixed=fixed, longest=60)


@dataclass(frozen=True)
class _CaseDetails:
    """Everything that `threadline cases show` shows of a case."""

    case: "CaseRecord"
    pull_request: "PullRequest | None"
    transitions: "Sequence[Transition]"
    conversation: "Sequence[Entry]"
    turns: "Sequence[TurnRecord]"
    names: Mapping[str, str]
    workspace: Workspace
    workflow_id: str


@app.command()
@run_async
async def show(case: Case, as_json: output.Json = False) -> None:
    """Show one case: its links, transitions, conversation as stored, and turns with their cost."""
    found = await _load_case(case_id(case))
    output.show(_details_document(found), lambda: _print_details(found), as_json=as_json)


async def _load_case(bug_id: str) -> _CaseDetails:
    from threadline.cases.model import bug_workflow_id
    from threadline.cases.store.case import CaseStore
    from threadline.cases.store.lists import CaseLists
    from threadline.cases.store.messages import CaseMessageStore

    async with transaction() as tx:
        store = CaseStore(tx)
        record = await store.get(bug_id)
        request = await store.pull_request(bug_id)
        transitions = await CaseLists(tx).transitions(bug_id)
        turns = await store.turns(bug_id)
        page = await CaseMessageStore(tx).page(bug_id, limit=200)
        conversation = [*page.entries]
        while page.next_cursor is not None:
            page = await CaseMessageStore(tx).page(bug_id, page.next_cursor, limit=200)
            conversation += page.entries
        people = {record.reporter_id, *(each.actor for each in transitions)}
        people |= {each.sender_id for each in conversation}
        names = await _names(tx, record.thread.team, people)
    workspace = await find_workspace(record.thread.team)
    workflow_id = bug_workflow_id(record.thread)
    return _CaseDetails(
        record, request, transitions, conversation, turns, names, workspace, workflow_id
    )


def _details_document(found: _CaseDetails) -> dict[str, Any]:
    names = found.names
    request = found.pull_request
    summary = found.case.summary
    return _case_document(found.case, names) | {
        "report": _thread_document(found.case.thread, found.workspace),
        "summary": _thread_document(summary, found.workspace) if summary else None,
        "no_permalinks_because": found.workspace.unknown,
        "pull_request": {"url": request.url, "number": request.number, "state": request.state}
        if request
        else None,
        "workflow": {"id": found.workflow_id, "url": workflow_url(found.workflow_id)},
        "transitions": [
            {
                "at": each.at,
                "from": each.before or "",
                "to": each.to,
                "reason": each.reason,
                "actor_id": each.actor,
                "actor_name": names.get(each.actor, ""),
            }
            for each in found.transitions
        ],
        "conversation": [
            {
                "at": each.at,
                "sender_type": each.sender_type,
                "sender_id": each.sender_id,
                "sender_name": names.get(each.sender_id, ""),
                "kind": each.kind,
                "text": each.text,
            }
            for each in found.conversation
        ],
        "agent_turns": [_turn_document(each) for each in found.turns],
    }


def _thread_document(thread: "Thread", workspace: Workspace) -> dict[str, str]:
    """Return the address of a thread; the permalink is empty while the workspace's is unknown."""
    return {
        "team": thread.team,
        "channel": thread.channel,
        "ts": thread.ts,
        "permalink": _permalink(thread, workspace),
    }


def _permalink(thread: "Thread", workspace: Workspace) -> str:
    from threadline.cases.model import CaseReaders

    return CaseReaders((), workspace.address).link(thread) if workspace.address else ""


def _turn_document(turn: "TurnRecord") -> dict[str, Any]:
    return {
        "turn": turn.turn,
        "attempt": turn.attempt,
        "status": turn.status,
        "action": turn.action or "",
        "input_tokens": turn.input_tokens,
        "output_tokens": turn.output_tokens,
        "seconds": turn.duration_s,
        "cost_usd": turn.cost_usd,
        "failure": turn.failure,
    }


def _print_details(found: _CaseDetails) -> None:
    case = found.case
    output.console.print(f"[bold]{case.bug_id}[/bold] {escape(case.title)}", soft_wrap=True)
    reporter = output.person_text(case.reporter_id, found.names)
    output.print_line(f"{case.status}, {case.severity}, reported by {reporter}")
    output.print_line(f"Report: {_place(case.thread, found.workspace)}")
    if case.summary:
        output.print_line(f"Summary: {_place(case.summary, found.workspace)}")
    if request := found.pull_request:
        output.print_line(f"Pull request ({request.state}): {request.url}")
    output.print_line(f"Workflow: {workflow_url(found.workflow_id) or found.workflow_id}")
    if found.workspace.unknown:
        output.print_line(f"Permalinks are left out: {found.workspace.unknown}.")
    output.transitions(found.transitions, found.names)
    output.conversation(found.conversation, found.names)
    output.turns(found.turns)


def _place(thread: "Thread", workspace: Workspace) -> str:
    return _permalink(thread, workspace) or f"{thread.channel}/{thread.ts}"


@app.command()
@run_async
async def quarantine(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.")] = 50,
    as_json: output.Json = False,
) -> None:
    """List unreadable messages. They are stored, and the bot did not answer them."""
    from threadline.cases.store.lists import CaseLists
    from threadline.threads.store import Quarantine

    async with transaction() as tx:
        kept = await Quarantine(tx).messages(limit)
        numbers = await CaseLists(tx).bug_ids({message.thread for message in kept})
    document = {
        "messages": [
            {
                "at": each.at,
                "case": numbers.get(each.thread, ""),
                "team": each.thread.team,
                "channel": each.thread.channel,
                "thread_ts": each.thread.ts,
                "message_id": each.message_id,
                "error": each.error,
                "text": each.text,
            }
            for each in kept
        ]
    }
    output.show(document, lambda: _print_quarantine(kept, numbers), as_json=as_json)


def _print_quarantine(
    kept: "Sequence[QuarantinedMessage]", numbers: "Mapping[Thread, str]"
) -> None:
    # each with its whole text, so that an admin can identify it
    for message in kept:
        case = numbers.get(message.thread, "no case")
        thread = escape(message.thread.key)
        output.console.print(
            f"[bold]{message.at:%Y-%m-%d %H:%M:%S}[/bold] {case}, thread {thread}, "
            f"{escape(message.message_id)}",
            soft_wrap=True,
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

    bug_id = case_id(case)
    async with transaction() as tx:
        record = await CaseStore(tx).get(bug_id)
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
    output.print_line(f"{bug_id} is being resolved: {reason}")
