"""`python -m bench`: measure, and show one table; see `--help`."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from bench.cli import arguments, run

if __name__ == "__main__":
    asked = arguments(sys.argv[1:])
    with tempfile.TemporaryDirectory(
        prefix="threadline-bench-", ignore_cleanup_errors=True
    ) as folder:
        code = asyncio.run(run(asked, Path(folder)))
    sys.stdout.flush()
    os._exit(code)  # Temporal's core sometimes aborts in the interpreter's teardown
