"""`python -m threadline_devstack.trackers --port 8950`: the stand-ins as a process of their own."""

import argparse
import asyncio
import json
import signal
import sys

from threadline_devstack.trackers.app import TrackerSandbox


async def serve(port: int) -> None:
    """Serve until a signal asks to stop; one line of JSON on stdout says that it listens, and the settings."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with TrackerSandbox.running(port) as services:
        ready = {"event": "services_sandbox_ready", "url": services.url, "settings": services.settings}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m threadline_devstack.trackers", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 for a free one")
    asyncio.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
