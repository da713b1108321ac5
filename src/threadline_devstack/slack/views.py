"""Modals: the app opens one with the trigger of a person's press, and the person sends it or
closes it.

Sources: https://docs.slack.dev/reference/methods/views.open,
https://docs.slack.dev/reference/views/modal-views and
https://docs.slack.dev/reference/interaction-payloads/view-interactions-payload.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from threadline_devstack.slack.blocks import check_blocks
from threadline_devstack.slack.identity import APP_ID, BOT_ID, TEAM
from threadline_devstack.slack.model import Json, SlackRefusal

TRIGGER_SECONDS = 3.0
"""Seconds in which a trigger opens a modal."""
MAX_METADATA = 3_000
_MAX_TITLE = 24
_MAX_BLOCKS = 100
_MAX_SIZE = 250_000
"""Characters of the JSON."""


@dataclass
class Trigger:
    """A press that may open one modal."""

    user: str
    expires: float
    used: bool = False


@dataclass(frozen=True)
class SandboxView:
    """A modal that is shown to one person."""

    id: str
    user: str
    given: Json
    hash: str

    def as_slack(self, values: Mapping[str, str] | None = None) -> Json:
        """Return the view as Slack shows it; `values`: the contents of its fields, by their
        `action_id`.
        """
        state: dict[str, dict[str, Json]] = {}
        for block in self.given["blocks"]:
            element = block.get("element", {})
            if block["type"] == "input":
                value = (values or {}).get(element["action_id"]) or None
                field = {"type": element["type"], "value": value}
                state[block["block_id"]] = {element["action_id"]: field}
        defaults: Json = {
            "private_metadata": "",
            "callback_id": "",
            "external_id": "",
            "close": None,
        }
        return {
            **defaults,
            "clear_on_close": False,
            "notify_on_close": False,
            **self.given,
            "id": self.id,
            "team_id": TEAM,
            "app_id": APP_ID,
            "app_installed_team_id": TEAM,
            "bot_id": BOT_ID,
            "root_view_id": self.id,
            "previous_view_id": None,
            "hash": self.hash,
            "state": {"values": state},
        }


def check_view(view: Any) -> Json:
    """Return a modal's view with an id on each block. Raises `SlackRefusal` with Slack's error."""
    if (
        not isinstance(view, dict)
        or view.get("type") != "modal"
        or not isinstance(view.get("blocks"), list)
    ):
        _refuse("missing required field: type, title or blocks")
    for name in ("title", "submit", "close"):
        if name in view or name == "title":
            _check_text(name, view.get(name))
    if len(str(view.get("private_metadata", ""))) > MAX_METADATA:
        _refuse(f"private_metadata must be less than {MAX_METADATA + 1} characters")
    if len(view["blocks"]) > _MAX_BLOCKS or len(json.dumps(view)) > _MAX_SIZE:
        raise SlackRefusal("view_too_large")
    blocks = check_blocks(view["blocks"])
    for block in blocks:
        if block["type"] == "input":
            _check_input(block, has_submit="submit" in view)
    return view | {"blocks": blocks}


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, dict) or text.get("type") != "plain_text" or not text.get("text"):
        _refuse(f"{name} must be a plain_text object")
    if len(text["text"]) > _MAX_TITLE:
        _refuse(f"{name} must be less than {_MAX_TITLE + 1} characters")


def check_values(view: SandboxView, values: Mapping[str, str]) -> None:
    """Check the contents of a modal's fields. Raises `SlackRefusal` for those that Slack's client
    does not send.
    """
    for block in view.given["blocks"]:
        if block["type"] != "input":
            continue
        element = block["element"]
        text = values.get(element["action_id"], "")
        if not text and not block.get("optional"):
            raise SlackRefusal("field_is_empty")
        if len(text) > element.get("max_length", MAX_METADATA):
            raise SlackRefusal("field_is_too_long")


def _check_input(block: Mapping[str, Any], *, has_submit: bool) -> None:
    if not has_submit:
        _refuse("missing required field: submit")
    element = block.get("element")
    label = block.get("label")
    if (
        not isinstance(label, dict)
        or label.get("type") != "plain_text"
        or len(str(label.get("text"))) > 2_000
    ):
        _refuse("an input needs a label of at most 2000 characters")
    if (
        not isinstance(element, dict)
        or element.get("type") != "plain_text_input"
        or "action_id" not in element
    ):
        _refuse("an input needs an element with an action_id")
    if not 0 < element.get("max_length", MAX_METADATA) <= MAX_METADATA:
        _refuse("max_length must be between 1 and 3000")


def _refuse(problem: str) -> NoReturn:
    raise SlackRefusal("invalid_arguments", response_metadata={"messages": [f"[ERROR] {problem}"]})
