"""`python -m threadline_devstack.models --port 8900 [--pace 0.5]`: the model sandbox as a process of its own."""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence

from threadline_devstack.models.sandbox import ModelSandbox


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m threadline_devstack.models", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the ready line names it")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds of pause before every reply")
    parser.add_argument("--api-key", default="", help="the only key that is let in; any when left out")
    asyncio.run(_serve(**vars(parser.parse_args(arguments))))


async def _serve(port: int, pace: float, api_key: str) -> None:
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
    async with ModelSandbox.running(port=port, pace=pace, api_key=api_key) as sandbox:
        sys.stdout.write(json.dumps({"event": "model_sandbox_ready", "url": sandbox.url}) + "\n")
        sys.stdout.flush()
        await asked_to_stop.wait()


if __name__ == "__main__":
    main()
