"""`threadline doctor`: check that everything Threadline needs is there and usable."""

import asyncio

import typer

from threadline.cli.running_stack import use_running_stack


def doctor() -> None:
    """Check everything that Threadline needs, and say how to fix what is missing."""
    from threadline.wiring.doctor import run_checks

    use_running_stack()
    checks = asyncio.run(run_checks())
    for check in checks:
        typer.secho(f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {check.found}", fg=None if check.ok else "red")
        if not check.ok:
            typer.echo(f"     {check.advice}")
    if not all(check.ok for check in checks):
        raise typer.Exit(1)
