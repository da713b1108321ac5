"""A secret in a case reaches no row, no post and no failure."""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.worker import Worker

from tests.cli.command import run_command
from tests.support.case_scene import CaseScene, case_scene, outcome
from tests.support.temporal import skipping_time
from tests.threads.failing import Failing, FailingActivity
from threadline.cases.model import Action
from threadline.db.engine import Database
from threadline.threads.activity import ErrorInterceptor
from threadline.threads.model import INCOMING_MESSAGE
from threadline_devstack.slack.identity import REPORTS, SUMMARIES

TOKEN = "gh" + "p_" + "a1B2" * 9
MARK = "[redacted: GitHub token]"


async def stored(home: CaseScene) -> str:
    """The rows of a case, as text."""
    tables = ("bug_conversations", "cases", "case_transitions", "quarantine")
    async with home.database.begin() as tx:
        rows = [
            await tx.exec_driver_sql(f"SELECT t::text FROM {name} t")  # noqa: S608
            for name in tables
        ]
        return "\n".join(str(row[0]) for result in rows for row in result)


async def test_unread_and_unredacted_messages_are_stored_without_secrets(
    database: Database, agent_database: Database
) -> None:
    """A gateway of an older version redacted nothing."""
    async with case_scene(database, agent_database, outcome(Action.POST_FINDINGS)) as home:
        await home.report(f"the build fails with {TOKEN}")
        await home.until_status("pending_verification")
        await home.handle.signal(INCOMING_MESSAGE, args=[{"unreadable": f"use {TOKEN}"}])

        async def quarantined() -> bool:
            return "quarantine:" in await stored(home)

        await home.until(quarantined, "the signal is in quarantine")
        kept = await stored(home)

    assert TOKEN not in kept
    assert kept.count(MARK) >= 2


async def test_secrets_in_a_fetched_report_and_an_admins_reason_are_redacted(
    database: Database, agent_database: Database, database_url: str, tmp_path: Path
) -> None:
    async with case_scene(database, agent_database, outcome(Action.POST_FINDINGS)) as home:
        home.slack.workspace.message(REPORTS, home.thread.ts).text = f"it fails with {TOKEN}"
        await home.reporter("and again")
        await home.until_status("pending_verification")
        kept = await stored(home)
        temporal = home.environment.client
        environment = {
            "DATABASE_URL": database_url,
            "TEMPORAL_ADDRESS": temporal.service_client.config.target_host,
            "TEMPORAL_NAMESPACE": temporal.namespace,
        }
        resolve = ("cases", "resolve", "BUG-1", "--reason", f"they revoked {TOKEN} themselves")
        resolved = await asyncio.to_thread(run_command, resolve, environment, tmp_path)
        assert (resolved.returncode, resolved.stderr) == (0, "")
        await home.until_status("resolved")
        history = b"".join(
            event.SerializeToString() for event in (await home.handle.fetch_history()).events
        )

    assert f"it fails with {MARK}" in kept
    assert f"they revoked {MARK} themselves".encode() in history
    assert TOKEN.encode() not in history


async def test_findings_and_questions_are_posted_without_secrets(
    database: Database, agent_database: Database
) -> None:
    found = outcome(
        Action.POST_FINDINGS,
        f"The deploy key {TOKEN} is in the code",
        root_cause=f"config.py has {TOKEN}",
    )
    asked = outcome(Action.ASK_REPORTER, clarification_question=f"Did you use {TOKEN}?")
    async with case_scene(database, agent_database, asked, found) as home:
        await home.report()
        await home.until_said("Did you use")
        await home.reporter("yes")
        await home.until_said("config.py has", SUMMARIES)
        said = "\n".join([*home.said(), *home.said(SUMMARIES)])

    assert TOKEN not in said
    assert said.count(MARK) >= 3


async def test_failure_reaches_temporal_without_its_secret() -> None:
    async with (
        skipping_time() as environment,
        Worker(
            environment.client,
            task_queue="failing",
            workflows=[Failing],
            activities=[
                FailingActivity(f"the remote https://bot:{TOKEN}@git.example refused").fail
            ],
            interceptors=[ErrorInterceptor({})],
        ),
    ):
        handle = await environment.client.start_workflow(
            Failing.run, id="failing", task_queue="failing"
        )
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        history = await handle.fetch_history()

    whole = b"".join(event.SerializeToString() for event in history.events)
    assert b"the remote https://bot:" in whole
    assert TOKEN.encode() not in whole
