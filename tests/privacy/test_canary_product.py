"""The whole product with a key: Temporal's file and the logs hold no user text."""

import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from google.protobuf import json_format
from temporalio.api.common.v1 import Payloads
from temporalio.client import Client

from tests.privacy.canary_scene import found
from tests.support.journey_scene import JourneyScene
from threadline.cases.model import CaseStatus
from threadline_devstack import environment
from threadline_devstack.slack.identity import REPORTER
from threadline_devstack.stack import PRODUCT, Stack, StackOptions

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(240)]

KEYS = "canary:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
REPORT = "canary-report-of-the-journey"
REPLY = "canary-reply-of-the-journey"
MACHINE = environment.pick(os.environ, environment.MACHINE)


async def shown(stack: Stack, scene: JourneyScene) -> str:
    """Return the case's title as Temporal's UI gets it from the codec server. The server itself
    has it encrypted.
    """
    async with aiohttp.ClientSession() as browser:
        async with browser.get(f"{stack.ui_url}/api/v1/settings") as answer:
            endpoint = (await answer.json())["Codec"]["Endpoint"]
        client = await Client.connect(stack.temporal_address)
        stored = (
            await client.get_workflow_handle(scene.workflow_id).describe()
        ).raw_info.memo.fields["title"]
        asked = json_format.MessageToJson(Payloads(payloads=[stored]))
        async with browser.post(
            f"{endpoint}/decode", data=asked, headers={"Origin": stack.ui_url}
        ) as answer:
            decoded = json_format.Parse(await answer.text(), Payloads()).payloads[0]
    assert decoded != stored
    return decoded.data.decode()


def replay(stack: Stack, **keys: str) -> subprocess.CompletedProcess[str]:
    known = environment.pick(stack.settings, environment.TEMPORAL) | {
        "DATABASE_URL": "postgresql://none"
    }
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "threadline",
            "replay",
            "--query",
            "WorkflowType = 'BugInvestigationWorkflow'",
        ],
        env=MACHINE | known | keys,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


async def test_file_of_temporal_and_logs_hold_no_user_text(tmp_path: Path) -> None:
    wishes = StackOptions(given=MACHINE, settings={"THREADLINE_PAYLOAD_KEYS": KEYS})
    async with Stack.running(tmp_path, wishes) as stack, JourneyScene.on(stack) as scene:
        await scene.write_report(f"Something is broken, {REPORT}.")
        await scene.until_status(CaseStatus.AWAITING_REPORTER, seconds=90)
        await scene.reply(
            REPORTER, f"The cart total is too high with the discount code SAVE10, {REPLY}."
        )
        await scene.until_status(CaseStatus.PENDING_VERIFICATION, seconds=90)
        title = (await scene.case()).title
        workflow_id = scene.workflow_id

        async def has_title() -> bool:
            return title in await shown(stack, scene)

        await scene.until("the workflow's memo has the title", has_title)
        with_key = replay(stack, THREADLINE_PAYLOAD_KEYS=KEYS)
        without = replay(stack)
    assert "1 of 1 histories" in with_key.stdout
    assert without.returncode == 1
    assert (
        "under the key 'canary', and THREADLINE_PAYLOAD_KEYS is not set"
        in without.stdout + without.stderr
    )
    said = {REPORT, REPLY, title}
    assert found({*said, workflow_id}, tmp_path / "temporal") == {workflow_id}
    logs = "".join(
        (tmp_path / "logs" / f"{name}.log").read_text() for name in (*PRODUCT, "codec", "temporal")
    )
    assert workflow_id in logs
    assert {word for word in said if word in logs} == set()
