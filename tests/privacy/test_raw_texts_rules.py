"""Raw texts of errors on their way to Slack: every route removes places, stack traces and texts of
a database.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import pytest

from threadline.conversations.blocks import no_answer_text
from threadline.conversations.model import answers
from threadline.errors import Permanent
from threadline.handovers import blocks as handover_blocks
from threadline.jobs import blocks as job_blocks
from threadline.jobs.model import AgentJob
from threadline.threads.fault_store import InstallationFault
from threadline.threads.faults import fault_text
from threadline.tools.model import ErrorCode, error_result
from threadline.tools.public_text import public_lines

RAW = {
    "path": ("could not write /srv/threadline/work/BUG-1.tmp", "/srv"),
    "home": ("could not read ~/.ssh/id_ed25519", ".ssh"),
    "traceback": (
        'Traceback (most recent call last):\n  File "/app/x.py", line 3, in f\nOSError: full',
        "line 3",
    ),
    "connection string": (
        "no answer from postgresql://threadline:hunter22@db-1.internal:5432/threadline",
        "hunter22",
    ),
    "libpq": ("connection failed: host=db-1 dbname=threadline", "db-1"),
    "sql": ("it failed [SQL: INSERT INTO cases (id) VALUES (1)]", "INSERT"),
    "constraint": ('new row violates check constraint "cases_status_check"', "cases_status_check"),
    "host": ("nobody answers at temporal:7233", "7233"),
    "git": (
        "could not clone shop from https://git.corp/acme/shop.git: fatal: not found",
        "git.corp",
    ),
    "exception": ("ConnectionRefusedError(111, 'Connect call failed')", "Connect call"),
    "errno": ("[Errno 28] No space left on device: '/var/lib/x'", "Errno"),
}


class _Job:
    job_id = "JOB-1"
    job_type = "status_digest"


def _fault(text: str, *, over: bool) -> str:
    at = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
    return fault_text(
        InstallationFault(
            1,
            "investigation",
            "disk",
            text,
            at,
            at,
            at if over else None,
            told_open=False,
            told_over=False,
        )
    )


def _tool(text: str) -> str:
    error = error_result(ErrorCode.REFUSED, text).error
    return error.text if error else ""


ROUTES: dict[str, Callable[[str], str]] = {
    "the admin's channel": lambda text: _fault(text, over=False),
    "the end of a fault": lambda text: _fault(text, over=True),
    "a failed job": lambda text: job_blocks.failure_text(
        cast("AgentJob", _Job), job_blocks.error_text(text), ""
    ),
    "a refused reply": lambda text: handover_blocks.refused_text(
        Permanent(text), handover_blocks.NOT_POSTED
    ),
    "a failed turn": lambda text: public_lines(
        answers.failure_text(text, ()), answers.GENERIC_FAILURE
    ),
    "an unanswered call of the model": lambda text: public_lines(
        no_answer_text(text), answers.GENERIC_FAILURE
    ),
    "a tool's error": _tool,
}


@pytest.mark.parametrize(("text", "secret"), RAW.values(), ids=RAW)
@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_raw_text_of_an_error_reaches_no_channel(
    route: Callable[[str], str], text: str, secret: str
) -> None:
    said = route(text)
    assert said.strip(), "people get a text"
    assert secret not in said
