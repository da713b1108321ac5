"""Slack's events as tests build them, and where the gateway routes them."""

from typing import Any

from threadline.gateway.router import EventRouter
from threadline.gateway.routes import Ignored, Route, RoutingConfig, route
from threadline.threads.model import IncomingMessage

TEAM = "T1"
REPORTS = "C_REPORTS"
SUMMARIES = "C_SUMMARIES"
ESCALATIONS = "C_ESCALATIONS"
BOT = "U_BOT"
REPORTER = "U_REPORTER"
DEVELOPER = "U_DEVELOPER"
OTHER = "U_OTHER"
ROOT = "100.000001"
LATER = "100.000002"
EDITED = "100.000009"
CONFIG = RoutingConfig(REPORTS, SUMMARIES, ESCALATIONS, BOT, "B_BOT", team=TEAM)

Json = dict[str, Any]


def said(**fields: Any) -> Json:
    return {
        "type": "message",
        "channel": REPORTS,
        "user": REPORTER,
        "text": "it breaks",
        "ts": ROOT,
        **fields,
    }


def reply(**fields: Any) -> Json:
    return said(**{"ts": LATER, "thread_ts": ROOT, "parent_user_id": REPORTER, **fields})


def case_reply(**fields: Any) -> Json:
    return reply(**{"channel": SUMMARIES, "user": DEVELOPER, "parent_user_id": BOT, **fields})


def edit(after: Json, before: Json) -> Json:
    return {
        "type": "message",
        "subtype": "message_changed",
        "channel": after["channel"],
        "ts": "100.000010",
        "message": {"edited": {"user": after.get("user"), "ts": EDITED}, **after},
        "previous_message": before,
    }


def deletion(before: Json) -> Json:
    return {
        "type": "message",
        "subtype": "message_deleted",
        "channel": before["channel"],
        "ts": "100.000010",
        "deleted_ts": before["ts"],
        "previous_message": before,
    }


def routed(event: Json, **body: Any) -> Route | Ignored:
    return route({"type": "event_callback", "team_id": TEAM, "event": event, **body}, CONFIG)


def message_of(found: Route | Ignored) -> IncomingMessage:
    assert not isinstance(found, Ignored), found
    return found.message


async def outcome(router: EventRouter, route: Route) -> str:
    """The outcome under which a route is counted."""
    return (await router.deliver(route)).outcome


def share(text: str) -> Json:
    return {"is_share": True, "text": text}
