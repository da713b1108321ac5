"""The card of a proposed action: what it is, who may decide until when, two buttons, and later the decision. Pure.

Limits: https://docs.slack.dev/reference/block-kit/blocks/section-block (3,000 characters) and
https://docs.slack.dev/reference/block-kit/block-elements/button-element (75 characters, 2,000 of its value).
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from threadline.approvals.model import APPROVE, CARD_KIND, REJECT, ApprovalDecision, button_value
from threadline.slack.formatting import Block, Rendered, context, escape_all, mention, section
from threadline.tools.blocks import EMPTY, MAX_LABEL, RenderedRecords, fits_whole, format_cell, format_label

MAX_LINES = 30
"""Lines of arguments on a card; of further ones it says how many."""
_MAX_VALUE = 1_500
"""Characters of one argument."""
_MAX_PEOPLE = 10
_MAX_CHARACTERS = 1_800
"""Of the arguments, as Slack counts them; what the tool does and the reason take at most half as much."""

Group = tuple[str, Sequence[object]]


@dataclass(frozen=True)
class ApprovalVerdict:
    """A decision. `by`: a Slack user id, empty if no person decided; `at`: seconds since 1970."""

    decision: ApprovalDecision
    by: str
    at: float


def other_groups(groups: Iterable[Group]) -> list[Group]:
    """Return the groups that are not approvals."""
    return [(kind, records) for kind, records in groups if kind != CARD_KIND]


def cards(groups: Iterable[Group]) -> tuple[RenderedRecords, ...]:
    """Return a card for each approval among the groups; `approvals.model.pending_result` makes their records."""
    pending = (each for kind, records in groups if kind == CARD_KIND for each in records)
    return tuple(_card(each) for each in pending if isinstance(each, Mapping))


def has_buttons(rendered: Rendered, action_id: str) -> bool:
    """Return whether a message has the buttons of this action."""
    return any(block.get("block_id") == _buttons_id(action_id) for block in rendered.blocks)


def action_ids(rendered: Rendered) -> list[str]:
    """Return the actions whose cards a message holds."""
    found = (_BUTTONS_ID.fullmatch(str(block.get("block_id"))) for block in rendered.blocks)
    return [match[1] for match in found if match]


def with_decision(rendered: Rendered, action_id: str, verdict: ApprovalVerdict) -> Rendered:
    """Return the message with the verdict in the place of the buttons."""
    shown = section(verdict_text(verdict)) | {"block_id": _buttons_id(action_id)}
    blocks = tuple(shown if each.get("block_id") == _buttons_id(action_id) else each for each in rendered.blocks)
    return replace(rendered, text=f"{rendered.text}\n{verdict_text(verdict)}", blocks=blocks)


def verdict_text(verdict: ApprovalVerdict) -> str:
    """Return a decision as a sentence in mrkdwn."""
    at = format_moment(verdict.at)
    if verdict.decision is ApprovalDecision.EXPIRED:
        return f":hourglass: *Expired* at {at}. Nobody decided in time, so nothing was done."
    if verdict.decision is ApprovalDecision.APPROVED:
        return f":white_check_mark: *Approved* by {_person(verdict.by)} at {at}."
    return f":no_entry_sign: *Rejected* by {_person(verdict.by)} at {at}. Nothing was done."


def format_moment(at: float) -> str:
    """Format seconds since 1970 in the reader's time zone: https://docs.slack.dev/messaging/formatting-message-text."""
    written = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"<!date^{int(at)}^{{date_num}} {{time}}|{written}>"


def fits_on_card(arguments: Mapping[str, Any]) -> bool:
    """Return whether a card shows all arguments of a call: nobody can decide what they cannot read."""
    values = [each for name, given in arguments.items() for each in _parts(name, given)]
    fits = all(len(str(name)) <= MAX_LABEL and fits_whole(value, _MAX_VALUE) for name, value in values)
    return fits and len(values) <= MAX_LINES and _room_left(_all_lines(arguments)) >= 0


def _card(record: Mapping[str, Any]) -> RenderedRecords:
    action_id, risk = str(record.get("action_id", "")), str(record.get("risk", ""))
    does, reason = format_cell(record.get("does")), format_cell(record.get("reason"))
    lines = _lines(record.get("arguments"))
    until = float(record.get("expires_at") or 0.0)
    head = f"*Proposed: {escape_all(does)}* ({escape_all(action_id)}, {escape_all(risk)} risk)"
    what = "\n".join([head, *(f"• {escape_all(each)}" for each in lines), f"*Why:* {escape_all(reason)}"])
    people = [str(each) for each in record.get("approvers") or ()]
    who = ", ".join(map(_person, people[:_MAX_PEOPLE])) + (" and others" if len(people) > _MAX_PEOPLE else "")
    requested_by = _person(str(record.get("requested_by", "")))
    terms = f"{who} can approve or reject this until {format_moment(until)}. Requested by {requested_by}."
    value = button_value(action_id, str(record.get("action_hash", "")))
    buttons = [_button(*each, value) for each in _BUTTONS]
    blocks = (
        section(what) | {"block_id": f"{CARD_KIND}:{action_id}:what"},
        context(terms) | {"block_id": f"{CARD_KIND}:{action_id}:terms"},
        {"type": "actions", "block_id": _buttons_id(action_id), "elements": buttons},
    )
    return RenderedRecords(
        "\n".join([f"Proposed: {does} ({action_id}, {risk} risk)", *lines, f"Why: {reason}"]), blocks
    )


def _lines(arguments: object) -> list[str]:
    """Return the arguments, a line each; a cut value ends in an ellipsis, and lines without room are counted."""
    lines = _all_lines(arguments if isinstance(arguments, Mapping) else {})
    shown = lines[:MAX_LINES]
    while _room_left(shown) < 0:
        shown.pop()
    more = len(lines) - len(shown)
    return [*shown, f"and {more} more that are not shown here"] if more else shown


def _all_lines(arguments: Mapping[str, Any]) -> list[str]:
    return [each for name, value in arguments.items() for each in _fields(str(name), value)]


def _room_left(lines: Sequence[str]) -> int:
    return _MAX_CHARACTERS - sum(len(escape_all(line)) + 3 for line in lines)


def _parts(name: str, value: object) -> list[tuple[str, object]]:
    """Split an object into its fields, such as those of a patch, also if it is given as JSON text."""
    value = _object(value)
    return [(str(each), what) for each, what in value.items()] if isinstance(value, Mapping) else [(name, value)]


def _fields(name: str, value: object) -> list[str]:
    parts = _parts(name, value)
    if isinstance(_object(value), Mapping):
        return [
            f"{format_label(each)}: {format_cell(what, _MAX_VALUE) if what is not None else 'removed'}"
            for each, what in parts
        ]
    filled = value not in (None, "", [], {}) and format_cell(value) != EMPTY
    return [f"{format_label(name)}: {format_cell(value, _MAX_VALUE)}"] if filled else []


def _object(value: object) -> object:
    if not (isinstance(value, str) and value.lstrip().startswith("{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


_BUTTONS = (("Approve", APPROVE, "primary"), ("Reject", REJECT, "danger"))


def _button(label: str, identity: str, style: str, value: str) -> Block:
    text = {"type": "plain_text", "text": label}
    return {"type": "button", "text": text, "action_id": identity, "style": style, "value": value}


_BUTTONS_ID = re.compile(rf"{CARD_KIND}:(.+):buttons")


def _buttons_id(action_id: str) -> str:
    return f"{CARD_KIND}:{action_id}:buttons"


def _person(user: str) -> str:
    return mention(user) if user else "nobody"
