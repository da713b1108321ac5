"""The card of a proposed action: its effect, its approvers and deadline, two buttons, and later
the decision. Pure.

Limits: https://docs.slack.dev/reference/block-kit/blocks/section-block (3,000 characters) and
https://docs.slack.dev/reference/block-kit/block-elements/button-element (75 characters, 2,000 of
its value).
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from threadline.approvals.model import (
    APPROVE,
    CARD_KIND,
    REJECT,
    ApprovalStage,
    ProposedAction,
    button_value,
)
from threadline.slack.formatting import Block, Rendered, context, escape_all, mention, section
from threadline.threads.model import format_utc
from threadline.tools.blocks import (
    EMPTY,
    MAX_LABEL,
    RenderedRecords,
    fits_whole,
    format_cell,
    format_label,
)

MAX_LINES = 30
"""Lines of arguments on a card; it shows only the number of further ones."""
_MAX_VALUE = 1_500  # characters of one argument
_MAX_OLD = 200  # characters of a value that would be replaced
_MAX_PEOPLE = 10
_MAX_CHARACTERS = 1_800
"""Maximum characters of the arguments, as Slack counts them; the effect and the reason take at
most half as many.
"""

Group = tuple[str, Sequence[object]]


def other_groups(groups: Iterable[Group]) -> list[Group]:
    """Return the groups that are not approvals."""
    return [(kind, records) for kind, records in groups if kind != CARD_KIND]


def cards(groups: Iterable[Group]) -> tuple[RenderedRecords, ...]:
    """Return a card for each approval among the groups, whose records come from
    `approvals.model.pending_result`.
    """
    pending = (each for kind, records in groups if kind == CARD_KIND for each in records)
    return tuple(_card(each) for each in pending if isinstance(each, Mapping))


def action_ids(rendered: Rendered) -> list[str]:
    """Return the actions whose cards are in a message."""
    found = (_BUTTONS_ID.fullmatch(str(block.get("block_id"))) for block in rendered.blocks)
    return [match[1] for match in found if match]


def with_decision(rendered: Rendered, action: ProposedAction) -> Rendered:
    """Return the message with the decision, if there is one, in place of the action's buttons."""
    if action.decision is None:
        return rendered
    text = verdict_text(action)
    place = _buttons_id(action.action_id)
    shown = section(text) | {"block_id": place}
    blocks = tuple(shown if each.get("block_id") == place else each for each in rendered.blocks)
    return replace(rendered, text=f"{rendered.text}\n{text}", blocks=blocks)


def verdict_text(action: ProposedAction) -> str:
    """Return the decision as a sentence in mrkdwn; empty for an open action."""
    if action.decision is None or action.decided_at is None:
        return ""
    at = format_moment(action.decided_at.timestamp())
    by = _person(action.decided_by)
    if action.decision is ApprovalStage.EXPIRED:
        return f":hourglass: *Expired* at {at}. Nobody decided in time, so nothing was done."
    if action.decision is ApprovalStage.APPROVED:
        return f":white_check_mark: *Approved* by {by} at {at}."
    return f":no_entry_sign: *Rejected* by {by} at {at}. Nothing was done."


def format_moment(at: float) -> str:
    """Format seconds since 1970 in the reader's time zone:
    https://docs.slack.dev/messaging/formatting-message-text.
    """
    return f"<!date^{int(at)}^{{date_num}} {{time}}|{format_utc(at)}>"


def fits_on_card(arguments: Mapping[str, Any], changes: Sequence[Mapping[str, Any]] = ()) -> bool:
    """Return whether a card shows all of a call: people can only decide on arguments that they can
    read. For a long old value, its beginning is enough. `changes`: with `field`, `old` and `new`.
    """
    fields = [
        *_fields(arguments),
        *((str(each["field"]), each["new"], _change_line(each)) for each in changes),
    ]
    fits = all(
        len(name) <= MAX_LABEL and fits_whole(value, _MAX_VALUE) for name, value, _ in fields
    )
    return fits and len(fields) <= MAX_LINES and _room_left([line for *_, line in fields]) >= 0


def _card(record: Mapping[str, Any]) -> RenderedRecords:
    action_id = str(record.get("action_id", ""))
    risk = str(record.get("risk", ""))
    does = format_cell(record.get("does"))
    reason = format_cell(record.get("reason"))
    changes = [each for each in record.get("changes") or () if isinstance(each, Mapping)]
    given = [line for *_, line in _fields(record.get("arguments")) if line]
    given += [_change_line(each) for each in changes]
    lines = given[:MAX_LINES]
    while _room_left(lines) < 0:
        lines.pop()
    if more := len(given) - len(lines):
        lines.append(f"and {more} more that are not shown here")
    until = float(record.get("expires_at") or 0.0)
    head = f"*Proposed: {escape_all(does)}* ({escape_all(action_id)}, {escape_all(risk)} risk)"
    why = [f"*Why:* {escape_all(reason)}"] if record.get("reason") else []
    what = "\n".join([head, *(f"• {escape_all(each)}" for each in lines), *why])
    people = [str(each) for each in record.get("approvers") or ()]
    who = ", ".join(map(_person, people[:_MAX_PEOPLE])) + (
        " and others" if len(people) > _MAX_PEOPLE else ""
    )
    requested_by = _person(str(record.get("requested_by", "")))
    terms = (
        f"{who} can approve or reject this until {format_moment(until)}. Requested by "
        f"{requested_by}."
    )
    value = button_value(action_id, str(record.get("action_hash", "")))
    buttons = [
        _button("Approve", APPROVE, "primary", value),
        _button("Reject", REJECT, "danger", value),
    ]
    blocks = (
        section(what) | {"block_id": f"{CARD_KIND}:{action_id}:what"},
        context(terms) | {"block_id": f"{CARD_KIND}:{action_id}:terms"},
        {"type": "actions", "block_id": _buttons_id(action_id), "elements": buttons},
    )
    plain = [
        f"Proposed: {does} ({action_id}, {risk} risk)",
        *lines,
        *(["Why: " + reason] if why else []),
    ]
    return RenderedRecords("\n".join(plain), blocks)


def _room_left(lines: Iterable[str]) -> int:
    return _MAX_CHARACTERS - sum(len(escape_all(line)) + 3 for line in lines if line)


def _change_line(change: Mapping[str, Any]) -> str:
    """Return a change as `Status: shortlisted → lost`."""
    old = change.get("old")
    new = change.get("new")
    before = "not set" if old is None else format_cell(old, _MAX_OLD)
    after = "removed" if new is None else format_cell(new, _MAX_VALUE)
    return f"{format_label(change.get('field', ''))}: {before} → {after}"


def _fields(arguments: object) -> list[tuple[str, object, str]]:
    """Return each argument as its name, its value, and its line, which is empty for an empty
    value. An object, such as a patch, is shown by its own fields, also if it is given as JSON
    text.
    """
    found = list[tuple[str, object, str]]()
    for name, given in arguments.items() if isinstance(arguments, Mapping) else ():
        value = given
        if isinstance(given, str) and given.lstrip().startswith("{"):
            with suppress(ValueError, RecursionError):
                value = json.loads(given)
        if isinstance(value, Mapping):
            texts = {
                each: "removed" if what is None else format_cell(what, _MAX_VALUE)
                for each, what in value.items()
            }
            found += [
                (str(each), value[each], f"{format_label(each)}: {text}")
                for each, text in texts.items()
            ]
        else:
            text = format_cell(value, _MAX_VALUE)
            is_empty = value in (None, "", [], {}) or text == EMPTY
            found.append((str(name), value, "" if is_empty else f"{format_label(name)}: {text}"))
    return found


def _button(label: str, action_id: str, style: str, value: str) -> Block:
    text = {"type": "plain_text", "text": label}
    return {"type": "button", "text": text, "action_id": action_id, "style": style, "value": value}


_BUTTONS_ID = re.compile(rf"{CARD_KIND}:(.+):buttons")


def _buttons_id(action_id: str) -> str:
    return f"{CARD_KIND}:{action_id}:buttons"


def _person(user: str) -> str:
    return mention(user) if user else "nobody"
