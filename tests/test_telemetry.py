"""Logs: one JSON object a line, and no secret in any of it."""

import json
import logging
import subprocess
import sys

import pytest
import structlog

from threadline import telemetry

TOKEN = "gh" + "p_" + "a1B2" * 9
MARK = "[redacted: GitHub token]"


def refuse() -> None:
    raise RuntimeError(f"refused: {TOKEN}")


def test_no_part_of_a_log_line_holds_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.configure_logging("DEBUG")
    log = structlog.get_logger("test")
    structlog.contextvars.bind_contextvars(where=f"at {TOKEN}")
    try:
        refuse()
    except RuntimeError:
        log.exception(f"went wrong {TOKEN}", nested={"a": [f"b {TOKEN}"]}, odd=RuntimeError(TOKEN), bot_token="abc")
    finally:
        structlog.contextvars.clear_contextvars()
    logging.getLogger("other").error("password=%s for %s", "hunter2", TOKEN, exc_info=ValueError(TOKEN))
    logging.getLogger("other").info("plain", extra={"url": f"https://bot:{TOKEN}@x.example", "count": 3})

    lines = capsys.readouterr().out.splitlines()

    entries = [json.loads(line) for line in lines]
    assert len(entries) == 3
    assert TOKEN not in "".join(lines)
    assert "hunter2" not in "".join(lines)
    assert entries[0]["nested"] == {"a": [f"b {MARK}"]}
    assert entries[0]["where"] == f"at {MARK}"
    assert entries[0]["bot_token"] == "[redacted: secret]"
    assert "RuntimeError" in entries[0]["exception"]
    assert (entries[2]["event"], entries[2]["count"]) == ("plain", 3)


def test_rules_for_secrets_are_loaded_before_the_first_record() -> None:
    """They take a fifth of a second, which no event of Slack's is to wait for."""
    code = "import sys; from threadline import telemetry; telemetry.configure_logging(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "threadline.privacy.secret_rules" in done.stdout.split()
