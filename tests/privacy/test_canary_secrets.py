"""Secrets never reach Temporal, whether it is encrypted or not: the gateway has taken them out by then."""

from decimal import Decimal
from pathlib import Path

import asyncpg
import pytest

from tests.privacy.canary_scene import dev_server, house_at
from tests.privacy.canary_search import found
from tests.support.case_scene import House, outcome
from threadline.cases.model import Action
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.gateway.routes import Message, RoutingConfig, Start, route
from threadline.threads import messages
from threadline_devstack.slack.identity import BOT_ID, BOT_USER, REPORTER, REPORTS, SUMMARIES, TEAM

pytestmark = pytest.mark.slow

CONFIG = RoutingConfig(REPORTS, SUMMARIES, "", BOT_USER, BOT_ID)
SECRETS = {
    "report": "ghp_" + "Rb7Kq2" * 6,
    "reply": "xoxb-" + "2718281828-3141592653-" + "Qw7Er9" * 4,
    "error": "AKIA" + "Q7XN4JZP" * 2,
}
PAST_THE_GATEWAY = "ghp_" + "Zt5Vm8" * 6
"""The control: a message that no gateway has seen."""


async def say(home: House, text: str, ts: str, **more: str) -> None:
    """As Slack delivers it to the gateway."""
    event = {"type": "message", "channel": REPORTS, "user": REPORTER, "text": text, "ts": ts, **more}
    routed = route({"type": "event_callback", "team_id": TEAM, "event": event}, CONFIG)
    assert isinstance(routed, Start | Message)
    await home.send(routed.message)


async def test_no_secret_reaches_temporals_file_also_without_keys(
    database: Database, pool: asyncpg.Pool, tmp_path: Path
) -> None:
    async with dev_server(tmp_path) as address, house_at(address, None, database, pool) as home:
        home.agent.script += [outcome(Action.ASK_REPORTER), Permanent(f"the host refuses the key {SECRETS['error']}")]
        await say(home, f"my token is {SECRETS['report']} and the cart is wrong", home.thread.ts)
        await home.until_status("awaiting_reporter")
        await say(
            home,
            f"and Slack's {SECRETS['reply']}",
            str(Decimal(home.thread.ts) + Decimal("0.000001")),
            thread_ts=home.thread.ts,
            parent_user_id=REPORTER,
        )
        await home.until_status("investigating", "escalated")
        await home.developer(f"past the gateway: {PAST_THE_GATEWAY}")
        await home.until_status("investigating", "pending_verification")
        await home.reporter("never mind", messages.CLOSE)
        assert await home.handle.result() == "resolved"
    assert len(home.agent.batches) == 3
    assert found({*SECRETS.values(), PAST_THE_GATEWAY}, tmp_path) == {PAST_THE_GATEWAY}
