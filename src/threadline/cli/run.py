"""`threadline gateway`, `threadline worker` and `threadline codec`: the processes of the product."""

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
        str,
        typer.Option(metavar="HOST:PORT", help="Address to serve signed HTTP at. Required without SLACK_APP_TOKEN."),
    ] = "",
) -> None:
    """Receive Slack's events and signal workflows: by Socket Mode when SLACK_APP_TOKEN is set, else by HTTP."""
    from threadline.wiring.gateway import run_gateway

    stopping.serve(lambda stop: run_gateway(http or None, stop))


def worker(queue: Annotated[Queue, typer.Option(help="Task queue to serve: core, agents or all.")] = Queue.ALL) -> None:
    """Run workflows and short activities (core), agent turns (agents), or both (all)."""
    from threadline.wiring.workers import run_worker

    stopping.serve(lambda stop: run_worker(queue.value, stop), fast=queue is Queue.CORE)


def codec(
    http: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Address to serve at. Beyond this machine it needs THREADLINE_CODEC_TOKEN."
        ),
    ] = "127.0.0.1:8234",
) -> None:
    """Decrypt payloads for Temporal's UI and command line."""
    from threadline.privacy.codec_process import run_codec

    stopping.serve(lambda stop: run_codec(http, stop))
