"""Temporal's file holds no plain text where there are keys, and no secret in any case."""

from decimal import Decimal
from pathlib import Path

import pytest

from tests.privacy.canary_scene import (
    FINDINGS,
    TOLD,
    UNPROTECTED,
    case_scene_at,
    dev_server,
    found,
    play,
)
from tests.support.case_scene import CaseScene, outcome
from threadline.cases.model import Action
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.gateway.routes import Route, RoutingConfig, route
from threadline.privacy.keys import Key, KeyRing
from threadline.threads.model import MessageKind
from threadline_devstack.slack.identity import BOT_ID, BOT_USER, REPORTER, REPORTS, SUMMARIES, TEAM

pytestmark = pytest.mark.slow

EVERYTHING = {*TOLD.values(), FINDINGS, UNPROTECTED}
CONFIG = RoutingConfig(REPORTS, SUMMARIES, "", BOT_USER, BOT_ID, team=TEAM)
SECRETS = {
    "report": "ghp_" + "Rb7Kq2" * 6,
    "reply": "xoxb-" + "2718281828-3141592653-" + "Qw7Er9" * 4,
    "error": "AKIA" + "Q7XN4JZP" * 2,
}
PAST_THE_GATEWAY = "ghp_" + "Zt5Vm8" * 6
"""The control: no gateway has redacted it."""


@pytest.mark.parametrize(
    ("ring", "in_clear"),
    [
        (KeyRing((Key("canary", bytes(range(32))),)), {UNPROTECTED}),
        (
            None,
            EVERYTHING - {FINDINGS, TOLD["cause"]},
        ),  # the control: the search finds an existing word
    ],
    ids=["with a key", "without keys"],
)
async def test_file_of_temporal_holds_words_only_without_keys(
    ring: KeyRing | None,
    in_clear: set[str],
    database: Database,
    agent_database: Database,
    tmp_path: Path,
) -> None:
    async with (
        dev_server(tmp_path) as address,
        case_scene_at(address, ring, database, agent_database) as home,
    ):
        await play(home)
    assert found(EVERYTHING, tmp_path) == in_clear


async def say(home: CaseScene, text: str, ts: str, **more: str) -> None:
    """Signal a message as Slack delivers it to the gateway."""
    event = {
        "type": "message",
        "channel": REPORTS,
        "user": REPORTER,
        "text": text,
        "ts": ts,
        **more,
    }
    routed = route({"type": "event_callback", "team_id": TEAM, "event": event}, CONFIG)
    assert isinstance(routed, Route)
    await home.send(routed.message)


async def test_file_of_temporal_holds_no_secret_also_without_keys(
    database: Database, agent_database: Database, tmp_path: Path
) -> None:
    async with (
        dev_server(tmp_path) as address,
        case_scene_at(address, None, database, agent_database) as home,
    ):
        home.agent.script += [
            outcome(Action.ASK_REPORTER),
            Permanent(f"the host refuses the key {SECRETS['error']}"),
        ]
        await say(home, f"my token is {SECRETS['report']} and the cart is wrong", home.thread.ts)
        await home.until_status("awaiting_reporter")
        later = str(Decimal(home.thread.ts) + Decimal("0.000001"))
        in_thread = {"thread_ts": home.thread.ts, "parent_user_id": REPORTER}
        await say(home, f"and Slack's {SECRETS['reply']}", later, **in_thread)
        await home.until_status("investigating", "escalated")
        await home.developer(f"past the gateway: {PAST_THE_GATEWAY}")
        await home.until_status("investigating", "pending_verification")
        await home.reporter("never mind", MessageKind.CLOSE)
        assert await home.handle.result() == "resolved"
    assert len(home.agent.batches) == 3
    assert found({*SECRETS.values(), PAST_THE_GATEWAY}, tmp_path) == {PAST_THE_GATEWAY}
