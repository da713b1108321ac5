"""The replay before a deploy, on a running stack: this code passes, and for changed code the
replay names the event from which it differs.
"""

import asyncio
import os
import re
import sys

import pytest
from temporalio.client import Client

from tests.support.journey_scene import JourneyScene
from threadline.cases.model import CaseStatus
from threadline_devstack import environment
from threadline_devstack.stack import Stack

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(120),
]

THIS_CODE = "from threadline.cli.main import main; main()"
CHANGED_CODE = (
    """
from tests.replay import diverging
from threadline.wiring import temporal
temporal.WORKFLOWS = tuple(
    diverging.OneActivityMore if each.__name__ == "BugInvestigationWorkflow" else each
    for each in temporal.WORKFLOWS
)
"""
    + THIS_CODE
)


async def threadline(stack: Stack, *words: str, code: str = THIS_CODE) -> tuple[int, str, str]:
    """The command as a deploy calls it, in an environment of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, *words),
        env=environment.pick(os.environ, environment.MACHINE)
        | {
            "TEMPORAL_ADDRESS": stack.temporal_address,
            "DATABASE_URL": stack.database_url,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "COLUMNS": "400",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_replay_passes_on_a_running_stack_and_names_the_event_where_changed_code_differs(
    scene: JourneyScene, stack: Stack
) -> None:
    await scene.write_report("Something is broken.")
    await scene.until_status(CaseStatus.AWAITING_REPORTER)

    code, said, complaints = await threadline(stack, "replay")
    assert code == 0, said + complaints
    assert "histories replay as they were recorded." in said

    code, said, complaints = await threadline(stack, "replay", "--workflow", scene.workflow_id)
    assert (code, said) == (0, "1 of 1 histories replay as they were recorded.\n"), (
        said + complaints
    )

    code, said, complaints = await threadline(
        stack, "replay", "--workflow", scene.workflow_id, code=CHANGED_CODE
    )
    assert code == 1
    told = f"✗ {scene.workflow_id}, at event "
    assert told in said
    for words in ("(ActivityTaskScheduled flush_messages)", "fetch_report", "workflow.patched"):
        assert words in said
    assert "0 of 1 histories" in said
    assert "Traceback" not in said + complaints

    code, said, _ = await threadline(stack, "replay", "--query", "WorkflowId = 'nobody'")
    assert (code, said) == (
        0,
        "No workflow matches WorkflowId = 'nobody': there is nothing to replay.\n",
    )

    code, _, complaints = await threadline(stack, "replay", "--workflow", "nobody")
    assert (code, complaints) == (
        1,
        "threadline: There is no workflow 'nobody' in the namespace 'default'.\n",
    )


async def test_a_limit_and_a_bad_query_are_reported(scene: JourneyScene, stack: Stack) -> None:
    await scene.write_report("Something is broken.")
    await scene.until_status(CaseStatus.AWAITING_REPORTER)
    code, said, _ = await threadline(stack, "replay", "--limit", "1")
    assert code == 0
    assert "more may be open, since --limit was given" in said
    code, _, complaints = await threadline(stack, "replay", "--query", "Nonsense = 1")
    assert code == 1
    [sentence] = complaints.splitlines()
    assert "Temporal did not return the histories of 'Nonsense = 1'" in sentence


async def test_an_unreadable_message_is_shown_with_its_case(
    scene: JourneyScene, stack: Stack
) -> None:
    await scene.write_report("Something is broken.")
    client = await Client.connect(stack.temporal_address, namespace=stack.temporal_namespace)
    await client.get_workflow_handle(scene.workflow_id).signal(
        "incoming_message", args=["three", "words", "here"]
    )

    async def shown() -> bool:
        code, said, complaints = await threadline(stack, "cases", "quarantine")
        assert code == 0, complaints
        return f"{scene.bug_id}, thread" in said and '["three", "words", "here"]' in said

    await scene.until("the quarantine shows it", shown)
    _, said, _ = await threadline(stack, "doctor")
    assert re.search(r"ok   quarantine: \d+ messages, newest", said)
    assert "ok   open workflows:" in said
    assert "ok   workers: both queues are served" in said
