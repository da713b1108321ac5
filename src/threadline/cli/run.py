"""The processes (`gateway`, `worker`, `codec`) and the commands for their operation: `db upgrade`,
`doctor`, `replay`.
"""

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadline.cli import output, process
from threadline.cli.connections import use_running_stack
from threadline.errors import Permanent

if TYPE_CHECKING:
    from threadline.wiring.doctor import Check

_REPORTED = 100
"""Histories between two lines of progress in a replay."""


class Queue(StrEnum):
    CORE = "core"
    AGENTS = "agents"
    ALL = "all"


def gateway(
    http: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Serve HTTP. Required without SLACK_APP_TOKEN."),
    ] = "",
) -> None:
    """Receive Slack's events and signal workflows: by Socket Mode when SLACK_APP_TOKEN is set,
    else by HTTP.
    """
    from threadline.wiring.gateway import run_gateway

    address = parse_address(http) if http else None
    process.run_service(lambda stop: run_gateway(address, stop))


def worker(
    queue: Annotated[
        Queue, typer.Option(help="Task queue to serve: core, agents or all.")
    ] = Queue.ALL,
    health: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Serve /healthz and /readyz there.")
    ] = "",
) -> None:
    """Run workflows and short activities (core), agent turns (agents), or both (all)."""
    from threadline.wiring.workers import run_worker

    address = parse_address(health, "--health") if health else None
    process.run_service(
        lambda stop: run_worker(queue.value, stop, address), fast=queue is Queue.CORE
    )


def codec(
    http: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Address. Beyond this machine it needs THREADLINE_CODEC_TOKEN.",
        ),
    ] = "127.0.0.1:8234",
) -> None:
    """Decrypt payloads for Temporal's UI and command line."""
    from threadline import telemetry
    from threadline.privacy.codec_server import serve
    from threadline.settings import CodecSettings, LogSettings, PayloadSettings

    host, port = parse_address(http)
    telemetry.configure_logging(LogSettings.load().log_level)
    keys = PayloadSettings.load().payload_keys
    settings = CodecSettings.load()
    token = settings.codec_token.get_secret_value() if settings.codec_token else ""
    process.run_service(lambda stop: serve(host, port, keys, token, settings.codec_origins, stop))


def parse_address(text: str, option: str = "--http") -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, the value of an `option`. An IPv6 address has brackets:
    `[::1]:3000` is `::1` and 3000. Raises `Permanent` for any other form.
    """
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or not port.isdecimal() or (":" in bare and bare == host):
        raise Permanent(
            f"{option} is {text!r}: write it as HOST:PORT, such as 127.0.0.1:3000 or [::1]:3000"
        )
    return bare, int(port)


db = typer.Typer(
    help="Manage the database schema.", no_args_is_help=True, callback=use_running_stack
)


@db.command()
def upgrade() -> None:
    """Migrate the database at DATABASE_URL to the newest schema. Safe to repeat, and to run
    concurrently.
    """
    from threadline.db import migrate
    from threadline.settings import DatabaseSettings

    migrate.upgrade(DatabaseSettings.load().url.get_secret_value())
    typer.echo("The database has the newest schema.")


@db.command()
@process.run_async
async def restored() -> None:
    """Record that the database was restored from a backup. Workers then look for posts in Slack
    before they send them.

    Run it before you start the workers. Threadline notices most restores by itself, but not that
    of a disk snapshot.
    """
    from threadline.cases.store.case import CaseStore
    from threadline.cli.connections import transaction
    from threadline.threads.installation_store import InstallationStore

    async with transaction() as tx:
        await InstallationStore(tx).record_restore(time.time())
        await CaseStore(tx).skip_numbers()
    typer.echo("The restore is recorded. Start the workers now.")


@process.run_async
async def doctor(as_json: output.Json = False) -> None:
    """Check everything that Threadline needs, and say how to fix what is missing."""
    from threadline.wiring.doctor import run_checks

    use_running_stack()
    checks = await run_checks()
    passed = all(check.ok for check in checks)
    output.show({"ok": passed, "checks": checks}, lambda: _print_checks(checks), as_json=as_json)
    if not passed:
        raise typer.Exit(1)


def _print_checks(checks: "Sequence[Check]") -> None:
    for check in checks:
        typer.secho(
            f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {check.found}",
            fg=None if check.ok else "red",
        )
        if not check.ok:
            typer.echo(f"     {check.advice}")


@process.run_async
async def replay(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="Saved histories as JSON, instead of those at TEMPORAL_ADDRESS.",
        ),
    ] = None,
    workflow: Annotated[
        str, typer.Option(help="Id of one workflow. Its newest run is replayed, open or not.")
    ] = "",
    query: Annotated[
        str, typer.Option(help="Visibility query. Without it, all open workflows.")
    ] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of workflows.")] = None,
    as_json: output.Json = False,
) -> None:
    """Replay all open workflows with this code. The exit code is 1 when one diverges. Run it
    before a deploy.
    """
    from threadline.wiring.replay import OPEN, replay_histories

    use_running_stack()
    query = query or OPEN
    count = 0
    failed: list[dict[str, str]] = []
    async for workflow_id, divergence in replay_histories(files or (), workflow, query, limit):
        count += 1
        if divergence:
            failed.append({"workflow_id": workflow_id, "divergence": divergence})
        if not as_json:
            _print_replayed(workflow_id, divergence, count, len(failed))
    document = {"replayed": count, "diverged": failed, "reached_limit": count == limit}
    output.show(document, lambda: _print_total(count, len(failed), query, limit), as_json=as_json)
    if failed:
        raise typer.Exit(1)


def _print_replayed(workflow_id: str, divergence: str, count: int, failed: int) -> None:
    """Print a divergence as soon as it is found, and the progress now and then."""
    if divergence:
        output.print_error(f"{workflow_id}, {divergence}")
    if count % _REPORTED == 0:
        output.print_line(f"{count} histories replayed so far, {failed} of them differently.")


def _print_total(count: int, failed: int, query: str, limit: int | None) -> None:
    if not count:
        output.print_line(f"No workflow matches {query}: there is nothing to replay.")
        return
    output.print_line(f"{count - failed} of {count} histories replay as they were recorded.")
    if count == limit:
        output.print_line(
            f"These were the newest {count}; more may be open, since --limit was given."
        )
