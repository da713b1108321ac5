"""`threadline explain`: show how an answer came about."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from threadline.cli import output
from threadline.cli.connections import open_database, temporal_namespace, use_running_stack
from threadline.cli.process import run_async

if TYPE_CHECKING:
    from threadline.conversations.model.turn_route import TurnRoute
    from threadline.conversations.store.explain import CaseMessage, Explanation, Stored
    from threadline.db.engine import Database

LONGEST = 300
"""Characters of a text in the terminal; `--json` prints all of it."""
_LONGEST_REASON = 800
_MODEL_COLUMNS = {
    "step": "step",
    "for": "purpose",
    "model": "model",
    "in": "input_tokens",
    "cached": "cached_tokens",
    "out": "output_tokens",
    "ms": "milliseconds",
    "cost": "cost_usd",
}
_NEEDS = {True: "needs an RFP", False: "needs no RFP", None: "may need an RFP"}


@run_async
async def explain(
    message: Annotated[
        str,
        typer.Argument(
            help="Permalink or CHANNEL/TS of an answer, or of the message that it answers."
        ),
    ],
    as_json: output.Json = False,
) -> None:
    """Show how an answer came about: the turn's route, context, tool calls, protocol, cost and
    workflow.
    """
    from threadline.conversations.store import explain as explaining
    from threadline.settings import TemporalUiSettings

    use_running_stack()
    # only the database: Temporal and Slack need not answer
    async with open_database() as database:
        ui = TemporalUiSettings.load().temporal_ui
        found = await explaining.explain_turn(
            database, message, ui=ui, namespace=temporal_namespace()
        )
        if isinstance(found, explaining.CaseMessage):
            _show_case(found, as_json=as_json)
            return
        named = await _with_names(database, found)
    output.show(named, lambda: _tell(named), as_json=as_json)


def _show_case(found: "CaseMessage", *, as_json: bool) -> None:
    sentence = f"This message belongs to the case {found.case}: `{found.command}` shows it."
    output.show(found, lambda: output.print_line(sentence), as_json=as_json)


async def _with_names(database: "Database", told: "Explanation") -> "Explanation":
    """Add the stored name of its author to each message."""
    from threadline.slack.store import UserStore

    async with database.begin() as tx:
        authors = {each["user_id"] for each in told.said}
        names = await UserStore(tx).names(told.thread.team, authors)
    said = [{**each, "name": names.get(each["user_id"], "")} for each in told.said]
    return replace(told, said=said)


def _tell(told: "Explanation") -> None:
    _head(f"Turn {told.turn} of the thread {told.thread.channel}/{told.thread.ts}")
    for label, value in _facts(told):
        output.console.print(f"{label + ':':<16}{escape(value)}", soft_wrap=True)
    for each in told.said:
        words = "(deleted by its author)" if each["deleted"] else _short(each["text"])
        author = output.person_text(each["user_id"], {each["user_id"]: each["name"]})
        output.print_line(f"  {author} at {each['ts']}: {words}")
    layers = sorted(
        {name for each in told.layers for name in each}, key=lambda name: (name != "layer", name)
    )
    _table("Context", {name: name for name in layers}, told.layers)
    _head("Tool calls" if told.tool_calls else "No tool was called")
    for number, call in enumerate(told.tool_calls, start=1):
        took = "" if call["milliseconds"] is None else f", {call['milliseconds']} ms"
        output.print_line(
            f"{number}. step {call['step']}: {call['tool_name']}, {call['status']}{took}"
        )
        output.print_line(f"   arguments: {_short(call['parameters'])}")
        output.print_line(f"   result:    {_short(call['result'])}" if call["result"] else "")
    _protocol(told.protocol)
    for title, written in (("Journal entries", told.journal), ("Events", told.events)):
        _head(title if written else "")
        for entry in written:
            output.print_line(
                f"{entry['id']}. {entry['rfp_id']}, {entry['kind']}: {_short(entry['what'])}"
            )
    _model_calls(told)
    _end(told)


def _model_calls(told: "Explanation") -> None:
    answered = [each for each in told.model_calls if not each["failure"]]
    costs = [{**each, "cost_usd": output.cost_text(each["cost_usd"])} for each in answered]
    _table("Model calls", _MODEL_COLUMNS, costs)
    if answered:
        output.print_line(
            f"{told.spent['tokens']:,} tokens, {output.cost_text(told.spent['cost_usd'])} in all"
        )
    elif not told.model_calls:
        _head("No model was called")
    failed = [each for each in told.model_calls if each["failure"]]
    _head("Failed model calls" if failed else "")
    for (step, purpose, reason), alike in groupby(
        failed, key=itemgetter("step", "purpose", "failure")
    ):
        calls = list(alike)
        often = f", {len(calls)} times" if len(calls) > 1 else ""
        output.print_line(
            f"step {step}, {purpose}{often}, the last after {calls[-1]['milliseconds']} ms:"
        )
        output.print_line(f"   {textwrap.shorten(reason, _LONGEST_REASON, placeholder=' …')}")


def _facts(told: "Explanation") -> Iterator[tuple[str, str]]:
    yield "workflow", told.workflow_id
    yield "in Temporal", told.workflow_url
    yield "correlation id", told.correlation_id
    user_id = told.asker["user_id"]
    yield "asked by", output.person_text(user_id, {user_id: told.asker["name"]}) or "nobody"
    if told.route:
        yield from _way(told.route)
    else:
        yield (
            "route",
            "not on record: the turn ended before it had one, or before routes were stored",
        )


def _way(route: "TurnRoute") -> Iterator[tuple[str, str]]:
    yield "branch", route.branch.value
    yield "agent", route.agent.value
    need = route.requirement
    if need:
        because = f" by {need.phrase!r}" if need.phrase else ""
        unless = f", with {need.exception!r}" if need.exception else ""
        yield "requirement", f"{_NEEDS[need.required]} (step {need.step.value}{because}{unless})"
    else:
        yield "requirement", "not asked"
    others = f"; also named: {', '.join(route.scope.others)}" if route.scope.others else ""
    yield (
        "scope",
        f"{route.scope.rfp_id} (from the {route.scope.origin}){others}"
        if route.scope.rfp_id
        else "no RFP",
    )
    told = {
        "resumes": f"the request of turn {route.resumes_turn}" if route.resumes_turn else "",
        "missing": route.missing,
        "ended by rule": route.ends.value if route.ends else "",
        "notes": _short(" ".join(route.notes)),
    }
    yield from ((label, value) for label, value in told.items() if value)


def _protocol(state: Mapping[str, Any] | None) -> None:
    from threadline.operator.model.protocol import ProtocolState

    _head("Protocol at the end" if state else "")
    # JSON in Postgres has an order of its own
    order = [each.name for each in fields(ProtocolState)]
    for name in sorted(
        state or {}, key=lambda each: order.index(each) if each in order else len(order)
    ):
        value = (state or {})[name]
        shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        output.print_line(f"{name}: {shown or 'nothing'}")


def _table(title: str, columns: Mapping[str, str], rows: "Sequence[Stored]") -> None:
    """Print columns (head to field name) of stored rows. Print nothing without rows."""
    if rows:
        _head(title)
        cells = [[_plain(each.get(name, "")) for name in columns.values()] for each in rows]
        output.print_table(list(columns), cells, longest=LONGEST)


def _end(told: "Explanation") -> None:
    _head("End")
    if told.ended is None:
        output.print_line("The turn has not ended yet.")
        return
    took = (
        f", after {told.result['seconds']} s" if told.result and "seconds" in told.result else ""
    )
    output.print_line(f"{told.ended.kind.value}, steps: {told.ended.model_calls}{took}")
    if not told.ended.answer:
        output.print_line("The turn has no answer.")
        return
    said = (
        f"{told.ended.posted_at:%Y-%m-%d %H:%M:%S %Z}"
        if told.ended.posted_at
        else "not in Slack yet"
    )
    output.print_line(f"answer ({said}): {_short(told.ended.answer)}")
    for fault in told.faults:
        output.print_line(f"waits for the admin: {_short(fault)}")


def _head(title: str) -> None:
    if title:
        output.print_title(title)


def _short(value: Any) -> str:
    return textwrap.shorten(_plain(value), LONGEST, placeholder=" …")


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
