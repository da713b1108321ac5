"""`threadline gateway`, `threadline worker` and `threadline codec`: the processes of the product."""

from enum import StrEnum
from typing import Annotated

import typer

from threadline.cli import process as stopping
from threadline.errors import Permanent


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

    address = parse_address(http) if http else None
    stopping.serve(lambda stop: run_gateway(address, stop))


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
    from threadline.wiring.codec import run_codec

    host, port = parse_address(http)
    stopping.serve(lambda stop: run_codec(host, port, stop))


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`. An IPv6 address stands in brackets: `[::1]:3000` is `::1` and 3000.

    Raises:
        Permanent: it is written otherwise.
    """
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or not port.isdecimal() or (":" in bare and bare == host):
        raise Permanent(f"--http is {text!r}: write it as HOST:PORT, such as 127.0.0.1:3000 or [::1]:3000")
    return bare, int(port)
