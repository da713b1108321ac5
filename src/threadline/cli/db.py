"""`threadline db`: the database schema."""

import asyncio

import typer

from threadline.cli.running_stack import use_running_stack

app = typer.Typer(help="Manage the database schema.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    use_running_stack()


@app.command()
def upgrade() -> None:
    """Migrate the database at DATABASE_URL to the newest schema. Safe to repeat, and to run twice at once."""
    from threadline.wiring.workers import upgrade_database

    asyncio.run(upgrade_database())
    typer.echo("The database has the newest schema.")
