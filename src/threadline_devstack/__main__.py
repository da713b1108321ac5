"""`python -m threadline_devstack slack|models|trackers`: one sandbox as a process of its own, until SIGTERM."""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable
from typing import Any

from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.slack.app import SlackSandbox
from threadline_devstack.trackers.app import TrackerSandbox


async def _run(name: str, **options: Any) -> None:
    """Serve until a signal asks to stop; one line of JSON on stdout says that it listens, and the settings for it."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    kinds: dict[str, Callable[..., Any]] = {
        "slack": SlackSandbox.running,
        "models": ModelSandbox.running,
        "trackers": TrackerSandbox.running,
    }
    async with kinds[name](**options) as sandbox:
        ready = {"event": "sandbox_ready", "name": name, "url": sandbox.url, "settings": sandbox.settings}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m threadline_devstack", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes a free one")
    kinds = parser.add_subparsers(dest="name", required=True)
    slack, models = kinds.add_parser("slack"), kinds.add_parser("models")
    kinds.add_parser("trackers")
    slack.add_argument("--request-url", default="", help="send events there as signed HTTP, not by Socket Mode")
    models.add_argument("--pace", type=float, default=0.0, help="seconds of pause before every reply")
    models.add_argument("--api-key", default="", help="the only key that is let in; any when left out")
    asyncio.run(_run(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
