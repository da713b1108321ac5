"""The command `threadline`: its subcommands, its error messages, and the end of the process."""

import gc
import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from threadline.cli import (
    cases,
    decisions,
    devstack,
    explain,
    knowledge,
    messages,
    policy,
    records,
    run,
)
from threadline.cli.process import GC_THRESHOLDS
from threadline.errors import Permanent, Transient

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def print_version(asked: bool) -> None:
    """Print the version of the installed package, and end."""
    if asked:
        from importlib.metadata import version

        typer.echo(f"threadline {version('threadline')}")
        raise typer.Exit


@app.callback()
def threadline(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Durable agents for Slack threads. Each thread is one Temporal workflow."""


app.command()(devstack.up)
app.command()(devstack.demo)
app.command()(run.gateway)
app.command()(run.worker)
app.command()(run.codec)
app.add_typer(run.db, name="db")
app.command()(run.doctor)
app.add_typer(cases.app, name="cases")
app.command()(explain.explain)
app.add_typer(messages.app, name="messages")
app.add_typer(knowledge.app, name="knowledge")
app.add_typer(records.app, name="records")
app.add_typer(decisions.app, name="decisions")
app.add_typer(policy.app, name="tools")
app.command()(run.replay)


def main() -> None:
    """Run the command in this process's arguments, and end the process."""
    # before the command's imports: saves a twentieth of the command's time
    gc.set_threshold(*GC_THRESHOLDS)
    exit_now(run_command())


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. An expected error is one sentence on stderr and code
    1.
    """
    try:
        app(arguments, prog_name="threadline")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except (Permanent, Transient) as error:
        sys.stderr.write(f"threadline: {error}\n")
        return 1
    return 0


def exit_now(code: int) -> NoReturn:
    """End without tearing the interpreter down: Temporal's native threads abort in a quarter of
    such exits. https://github.com/temporalio/sdk-python/issues/300
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
