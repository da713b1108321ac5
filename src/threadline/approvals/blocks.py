"""An action that waits for a word: what it is, who decides until when, two buttons, and what was decided. Pure.

Limits: https://docs.slack.dev/reference/block-kit/blocks/section-block (3,000 characters) and
https://docs.slack.dev/reference/block-kit/block-elements/button-element (75 characters, 2,000 of its value).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from threadline.approvals.model import APPROVE, REJECT, Decision, button_value
from threadline.slack.formatting import Block, Rendered, context, mention, plain, section
from threadline.tools.blocks import EMPTY, LONGEST_LABEL, RenderedRecords, fits_whole, format_cell, format_label

KIND = "approval"
MOST_SHOWN = 30
"""Arguments that are told; of more only the number is."""
_LONGEST = 1_500
"""Characters of one argument."""
_MOST_PEOPLE = 10
_MOST_CHARACTERS = 1_800
"""Of the arguments, as Slack counts them; what the tool does and the reason take at most half as much."""

Group = tuple[str, Sequence[object]]


@dataclass(frozen=True)
class Verdict:
    """What was decided; `by` a user's id, empty for nobody's; `at` in seconds since 1970."""

    decision: Decision
    by: str
    at: float


def plain_groups(groups: Iterable[Group]) -> list[Group]:
    """Without those that are shown here."""
    return [(kind, records) for kind, records in groups if kind != KIND]


def shown(groups: Iterable[Group]) -> tuple[RenderedRecords, ...]:
    """Each approval among the groups; see `approvals/tools.py` for its fields."""
    waiting = (each for kind, records in groups if kind == KIND for each in records)
    return tuple(_card(each) for each in waiting if isinstance(each, Mapping))


def holds(rendered: Rendered, action_id: str) -> bool:
    """Whether a message has the buttons of this action."""
    return any(block.get("block_id") == _buttons_id(action_id) for block in rendered.blocks)


def decided(rendered: Rendered, action_id: str, verdict: Verdict) -> Rendered:
    """The message with the verdict in the place of the buttons."""
    said = section(in_words(verdict)) | {"block_id": _buttons_id(action_id)}
    blocks = tuple(said if each.get("block_id") == _buttons_id(action_id) else each for each in rendered.blocks)
    return replace(rendered, text=f"{rendered.text}\n{in_words(verdict)}", blocks=blocks)


def in_words(verdict: Verdict) -> str:
    """In mrkdwn."""
    at = moment(verdict.at)
    if verdict.decision is Decision.EXPIRED:
        return f":hourglass: *Expired* at {at}. Nobody decided in time, so nothing was done."
    if verdict.decision is Decision.APPROVED:
        return f":white_check_mark: *Approved* by {_person(verdict.by)} at {at}."
    return f":no_entry_sign: *Rejected* by {_person(verdict.by)} at {at}. Nothing was done."


def moment(at: float) -> str:
    """Seconds since 1970, in the reader's time zone: https://docs.slack.dev/messaging/formatting-message-text."""
    written = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"<!date^{int(at)}^{{date_num}} {{time}}|{written}>"


def is_whole(arguments: Mapping[str, Any]) -> bool:
    """Whether all that a call is given is shown beside the buttons: nobody can decide what they cannot read."""
    values = [each for name, given in arguments.items() for each in _parts(name, given)]
    fits = all(len(str(name)) <= LONGEST_LABEL and fits_whole(value, _LONGEST) for name, value in values)
    return fits and len(values) <= MOST_SHOWN and _room_left(_all_lines(arguments)) >= 0


def _card(record: Mapping[str, Any]) -> RenderedRecords:
    action_id, risk = str(record.get("action_id", "")), str(record.get("risk", ""))
    does, reason = format_cell(record.get("does")), format_cell(record.get("reason"))
    lines = _lines(record.get("arguments"))
    until = float(record.get("expires_at") or 0.0)
    head = f"*Proposed: {plain(does)}* ({plain(action_id)}, {plain(risk)} risk)"
    what = "\n".join([head, *(f"• {plain(each)}" for each in lines), f"*Why:* {plain(reason)}"])
    people = [str(each) for each in record.get("deciders") or ()]
    who = ", ".join(map(_person, people[:_MOST_PEOPLE])) + (" and others" if len(people) > _MOST_PEOPLE else "")
    asked_by = _person(str(record.get("asked_by", "")))
    terms = f"{who} can approve or reject this until {moment(until)}. Requested by {asked_by}."
    value = button_value(action_id, str(record.get("action_hash", "")))
    buttons = [_button(*each, value) for each in _BUTTONS]
    blocks = (
        section(what) | {"block_id": f"{KIND}:{action_id}:what"},
        context(terms) | {"block_id": f"{KIND}:{action_id}:terms"},
        {"type": "actions", "block_id": _buttons_id(action_id), "elements": buttons},
    )
    return RenderedRecords(
        "\n".join([f"Proposed: {does} ({action_id}, {risk} risk)", *lines, f"Why: {reason}"]), blocks
    )


def _lines(arguments: object) -> list[str]:
    """What the call is given, a line each; a value that is cut ends in an ellipsis, and what has no room is counted."""
    lines = _all_lines(arguments if isinstance(arguments, Mapping) else {})
    shown = lines[:MOST_SHOWN]
    while _room_left(shown) < 0:
        shown.pop()
    more = len(lines) - len(shown)
    return [*shown, f"and {more} more that are not shown here"] if more else shown


def _all_lines(arguments: Mapping[str, Any]) -> list[str]:
    return [each for name, value in arguments.items() for each in _fields(str(name), value)]


def _room_left(lines: Sequence[str]) -> int:
    return _MOST_CHARACTERS - sum(len(plain(line)) + 3 for line in lines)


def _parts(name: str, value: object) -> list[tuple[str, object]]:
    """An object's own fields stand for it, as those of a patch do, be it given as its text."""
    value = _object(value)
    return [(str(each), what) for each, what in value.items()] if isinstance(value, Mapping) else [(name, value)]


def _fields(name: str, value: object) -> list[str]:
    parts = _parts(name, value)
    if isinstance(_object(value), Mapping):
        return [
            f"{format_label(each)}: {format_cell(what, _LONGEST) if what is not None else 'removed'}"
            for each, what in parts
        ]
    filled = value not in (None, "", [], {}) and format_cell(value) != EMPTY
    return [f"{format_label(name)}: {format_cell(value, _LONGEST)}"] if filled else []


def _object(value: object) -> object:
    if not (isinstance(value, str) and value.lstrip().startswith("{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


_BUTTONS = (("Approve", APPROVE, "primary"), ("Reject", REJECT, "danger"))


def _button(words: str, identity: str, style: str, value: str) -> Block:
    text = {"type": "plain_text", "text": words}
    return {"type": "button", "text": text, "action_id": identity, "style": style, "value": value}


def _buttons_id(action_id: str) -> str:
    return f"{KIND}:{action_id}:buttons"


def _person(user: str) -> str:
    return mention(user) if user else "nobody"
