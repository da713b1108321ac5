"""`python -m threadline_devstack.slack`: the sandbox as a process of its own, until SIGTERM or SIGINT."""

import argparse
import asyncio
import json
import signal
import sys

from threadline_devstack.slack.app import SlackSandbox


async def serve(port: int, request_url: str) -> None:
    """Serve until a signal asks to stop; one line of JSON on stdout says that it listens, and where."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with SlackSandbox.running(port=port, request_url=request_url) as slack:
        sys.stdout.write(
            json.dumps({"event": "slack_sandbox_ready", "url": slack.url, "api_url": slack.api_url}) + "\n"
        )
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m threadline_devstack.slack", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 for a free one")
    parser.add_argument("--request-url", default="", help="send events there as signed HTTP, not by Socket Mode")
    given = parser.parse_args()
    asyncio.run(serve(given.port, given.request_url))


if __name__ == "__main__":
    main()
