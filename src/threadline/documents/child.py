"""The process in which a document is read: `python -I -B -m threadline.documents.child SUFFIX`.

It takes the bytes from its standard input and answers with JSON: `{"document": {…}}`, or `{"rejected": "…"}`. Its
resources are limited before it reads the first byte, and it cannot raise a limit again.
"""

import contextlib
import json
import resource
import sys

from threadline.documents.extract import extract_text
from threadline.documents.reader import DocumentRejected

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


def limit_resources() -> None:
    """Take away what reading a document does not need."""
    for what, limit in _LIMITS:
        with contextlib.suppress(ValueError, OSError):  # macOS has no limit of this kind for memory
            resource.setrlimit(what, (limit, limit))


def main() -> None:
    limit_resources()
    answer: dict[str, object]
    try:
        answer = {"document": extract_text(sys.stdin.buffer.read(), sys.argv[1]).model_dump(mode="json")}
    except DocumentRejected as rejected:
        answer = {"rejected": str(rejected)}
    except (MemoryError, RecursionError):
        answer = {"rejected": "needs too much memory to read: upload the part that matters."}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
