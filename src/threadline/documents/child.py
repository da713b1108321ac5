"""The process in which a document is read: `python -I -B -m threadline.documents.child SUFFIX`.

It takes the bytes from its standard input and answers with JSON: `{"text": {…}}`, or `{"refused": "…"}`. What it may
use is bounded before it reads the first byte; nothing of that can be taken back.
"""

import contextlib
import json
import resource
import sys
from dataclasses import asdict

from threadline.documents.extract import text_of
from threadline.documents.file_kinds import Refused

MEMORY = 1024 * 1024 * 1024
"""Bytes, of which Python and its libraries take some 200 MiB."""
CPU = 16
"""Seconds of computing; then the system ends the process."""
_FILES = 16

_LIMITS = (
    (resource.RLIMIT_AS, MEMORY),
    (resource.RLIMIT_CPU, CPU),
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_NOFILE, _FILES),
    (resource.RLIMIT_NPROC, 0),
)


def bound() -> None:
    """Take away what reading a document does not need."""
    for what, most in _LIMITS:
        with contextlib.suppress(ValueError, OSError):  # macOS has no limit of this kind for memory
            resource.setrlimit(what, (most, most))


def main() -> None:
    bound()
    answer: dict[str, object]
    try:
        answer = {"text": asdict(text_of(sys.stdin.buffer.read(), sys.argv[1]))}
    except Refused as refused:
        answer = {"refused": str(refused)}
    except (MemoryError, RecursionError):
        answer = {"refused": "needs too much memory to read: upload the part that matters."}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
