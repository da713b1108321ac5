"""Logs: one JSON object a line, and no secret in any of it."""

import json
import logging
import subprocess
import sys
from dataclasses import dataclass

import pytest
import structlog
from temporalio.runtime import TelemetryConfig, TelemetryFilter

from tests.support.patience import patient
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
        log.exception(
            f"went wrong {TOKEN}",
            nested={"a": [f"b {TOKEN}"]},
            odd=RuntimeError(TOKEN),
            bot_token="abc",
        )
    finally:
        structlog.contextvars.clear_contextvars()
    logging.getLogger("other").error(
        "password=%s for %s", "hunter2", TOKEN, exc_info=ValueError(TOKEN)
    )
    logging.getLogger("other").info(
        "plain", extra={"url": f"https://bot:{TOKEN}@x.example", "count": 3}
    )

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


@dataclass
class CoreEntry:
    """Return an entry as Temporal's core hands it over."""

    target: str
    fields: dict[str, object]


def test_entry_of_temporals_core_is_one_of_ours_with_its_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    telemetry.configure_logging("INFO")
    entry = CoreEntry(
        "temporalio_client::retry",
        {"attempt": 3, "error": f"refused {TOKEN}", "level": "none of ours"},
    )
    logging.getLogger("temporalio.core").warning("a call failed", extra={"temporal_log": entry})

    told = json.loads(capsys.readouterr().out)

    assert (told["event"], told["level"], told["logger"]) == (
        "a call failed",
        "warning",
        "temporalio.core",
    )
    assert (told["target"], told["attempt"]) == ("temporalio_client::retry", 3)
    assert told["error"] == f"refused {MARK}"
    assert "temporal_log" not in told


@pytest.mark.parametrize(
    ("level", "core"),
    [("DEBUG", "INFO"), ("INFO", "WARN"), ("WARNING", "WARN"), ("ERROR", "ERROR")],
)
def test_level_of_the_log_is_that_of_temporals_core(
    level: str, core: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[TelemetryConfig]()
    monkeypatch.setattr(telemetry, "Runtime", lambda telemetry: made.append(telemetry))
    telemetry.temporal_runtime(level)
    [config] = made
    assert config.logging
    assert isinstance(config.logging.filter, TelemetryFilter)
    assert config.logging.filter.core_level == core
    assert config.logging.forwarding


def test_rules_for_secrets_are_loaded_before_the_first_record() -> None:
    """Loading takes a fifth of a second, and no Slack event may wait for it."""
    code = (
        "import sys; from threadline import telemetry; telemetry.configure_logging(); "
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=True,
    )
    assert "threadline.privacy.secret_rules" in done.stdout.split()
