"""`threadline gateway`, `threadline worker` and `threadline codec`: the product's own processes."""

from enum import StrEnum
from typing import Annotated

import typer

from threadline.cli import process as stopping


class Queue(StrEnum):
    CORE = "core"
    AGENTS = "agents"
    ALL = "all"


def gateway(
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Serve signed HTTP here; needed without SLACK_APP_TOKEN.")
    ] = "",
) -> None:
    """Turn Slack's events into signals: by Socket Mode when SLACK_APP_TOKEN is set, else by HTTP."""
    from threadline.wiring.gateway import run_gateway

    stopping.serve(lambda stop: run_gateway(http or None, stop))


def worker(queue: Annotated[Queue, typer.Option(help="Which work to take.")] = Queue.ALL) -> None:
    """Run workflows and short activities (core), the agents' turns (agents), or both."""
    from threadline.wiring.workers import run_worker

    stopping.serve(lambda stop: run_worker(queue.value, stop), fast=queue is Queue.CORE)


def codec(
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Serve here; beyond this machine it needs THREADLINE_CODEC_TOKEN.")
    ] = "127.0.0.1:8234",
) -> None:
    """Show Temporal's UI and command line in clear what is encrypted, to who may see it."""
    from threadline.privacy.codec_process import run_codec

    stopping.serve(lambda stop: run_codec(http, stop))
