"""The parts that a laptop lacks, for real: Temporal's server, Postgres, and a stack that fails
while it starts.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client

from threadline.db import migrate
from threadline.errors import Permanent
from threadline_devstack import environment, postgres, temporal
from threadline_devstack.processes import FreePorts, ProcessGroup
from threadline_devstack.stack import Stack, StackOptions
from threadline_devstack.state_folder import StateFolder

MACHINE = environment.pick(os.environ, environment.MACHINE)


@pytest.fixture
async def home() -> AsyncIterator[Path]:
    """A folder outside pytest's, which other accounts may not enter: under root, Postgres runs as
    the user nobody.
    """
    folder = Path(tempfile.mkdtemp(prefix="threadline-test-"))
    (folder / "logs").mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def family(home: Path) -> AsyncIterator[ProcessGroup]:
    family = ProcessGroup(home / "logs")
    yield family
    await family.stop_all([])


@pytest.mark.slow
async def test_temporal_knows_the_search_attributes_and_keeps_its_data(
    family: ProcessGroup, home: Path
) -> None:
    server = await temporal.start(family, home, FreePorts(usual=False), MACHINE)
    client = await Client.connect(server.address)
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace="default")
    )
    keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    assert {listed.custom_attributes.get(name) for name in temporal.SEARCH_ATTRIBUTES} == {keyword}
    await client.start_workflow(
        "Unserved", id="kept", task_queue="nobody", execution_timeout=timedelta(hours=1)
    )
    await family.restart("temporal")
    again = await Client.connect(server.address)
    assert (await again.get_workflow_handle("kept").describe()).workflow_type == "Unserved"


async def test_a_missing_temporal_program_is_reported_with_the_remedy(
    family: ProcessGroup, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(home / "python"))
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(Permanent, match="TEMPORAL_ADDRESS"):
        await temporal.start(family, home, FreePorts(usual=False), MACHINE)


@pytest.mark.slow
async def test_postgres_is_created_once_with_a_restricted_login_for_the_agent(
    family: ProcessGroup, home: Path
) -> None:
    (home / "postgres" / "data-half" / "base").mkdir(
        parents=True
    )  # left by an initdb that was interrupted
    databases = await postgres.start(family, home, FreePorts(usual=False), MACHINE)
    assert migrate.is_current(databases.owner)
    assert [path.name for path in (home / "postgres").glob("data*")] == ["data"], (
        "no incomplete data is left"
    )
    with psycopg.connect(databases.owner, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (x int)")
    await family.stop_all([])
    again = await postgres.start(family, home, FreePorts(usual=False), MACHINE)
    with psycopg.connect(again.owner) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    with (
        psycopg.connect(again.agent) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("SELECT * FROM cases")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(again.agent.replace("threadline_agent:", "threadline:"))


async def test_a_database_without_a_login_for_the_agent_is_refused(home: Path) -> None:
    wishes = StackOptions(given=MACHINE | {"DATABASE_URL": "postgresql://localhost/mine"})
    with pytest.raises(Permanent, match="THREADLINE_AGENT_DATABASE_URL is not"):
        async with Stack.running(home, wishes):
            pytest.fail("it must not come up")


@pytest.mark.slow
async def test_a_start_that_fails_leaves_nothing_running(home: Path) -> None:
    before = children()
    told = list[str]()
    wishes = StackOptions(given=MACHINE, settings={"THREADLINE_MAX_QUESTIONS": "many"})
    with pytest.raises(Permanent, match=r"core ended[\s\S]*THREADLINE_MAX_QUESTIONS is 'many'"):
        async with Stack.running(home, wishes, told.append):
            pytest.fail("it must not come up")
    assert any("Temporal is up" in line for line in told)
    assert children() == before


def children() -> set[str]:
    """Return the ids of this process's children."""
    return {
        pid
        for listed in Path("/proc/self/task").glob("*/children")
        for pid in listed.read_text().split()
    }


@pytest.mark.parametrize("name", ["ANTHROPIC", "OPENAI"])
async def test_the_address_of_a_model_without_its_key_is_refused(home: Path, name: str) -> None:
    told: list[str] = []
    wishes = StackOptions(given=MACHINE | {f"{name}_BASE_URL": "http://127.0.0.1:8080/v1"})
    with pytest.raises(Permanent, match=f"{name}_API_KEY is not: set the key as well") as raised:
        async with Stack.running(home, wishes, told.append):
            pytest.fail("it must not come up")
    assert str(raised.value).count(".") == 1, "one sentence"
    assert told == []


@pytest.mark.parametrize(
    "given", [{}, {"OPENAI_API_KEY": "sk-mine"}, {"ANTHROPIC_API_KEY": "sk-ant-mine"}]
)
async def test_the_model_sandbox_replaces_each_model_without_a_key(
    home: Path, given: dict[str, str]
) -> None:
    stack = Stack(StateFolder(home), StackOptions(given=given), lambda line: None)
    await stack._start_model()
    await stack._stop()
    scripted = {name for name in ("ANTHROPIC", "OPENAI") if f"{name}_API_KEY" not in given}
    assert {name.partition("_")[0] for name in stack.settings} == scripted


async def test_with_both_keys_there_is_no_model_sandbox(home: Path) -> None:
    given = {"OPENAI_API_KEY": "sk-mine", "ANTHROPIC_API_KEY": "sk-ant-mine"}
    stack = Stack(StateFolder(home), StackOptions(given=given), print)
    await stack._start_model()
    assert stack.settings == {}
    with pytest.raises(Permanent, match="a real model"):
        _ = stack.model


def test_a_proxy_serves_real_services_and_spares_this_machine(home: Path) -> None:
    proxy = {"HTTPS_PROXY": "http://proxy.example:3128", "no_proxy": "intern.example"}

    def proxies(process: str, **given: str) -> dict[str, str]:
        stack = Stack(StateFolder(home), StackOptions(given=given | proxy), print)
        stack.settings = dict(proxy)
        return stack._proxies(process)

    assert [proxies(name) for name in ("gateway", "core", "agents")] == [{}, {}, {}]
    spared = {"no_proxy": "intern.example,127.0.0.1", "NO_PROXY": "intern.example,127.0.0.1"}
    assert proxies("core", OPENAI_API_KEY="sk-mine") == proxy | spared
    assert proxies("core", SLACK_BOT_TOKEN="xoxb-mine") == proxy | spared
    assert proxies("agents", OPENAI_API_KEY="sk-mine") == {}
