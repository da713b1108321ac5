"""Logs as one JSON object a line: an event's name and its fields, never the text of a message."""

import asyncio
import logging
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

from threadline.privacy.redaction import redact, redact_value

_VERBOSE_LIBRARIES = (
    "slack_sdk",
    "aiohttp.access",
    "urllib3",
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
)
"""Libraries that log each request with its address."""
_CORE_LEVELS = {"DEBUG": "INFO", "INFO": "WARN", "WARNING": "WARN", "ERROR": "ERROR"}
"""The level of Temporal's core for each of ours. Its INFO lines are about its own work, and its
debug lines contain payloads.
"""
_CORE_LOGGER = "temporalio.core"


def expand_core_entry(_logger: WrappedLogger, _method: str, entry: EventDict) -> EventDict:
    """A structlog processor that gives an entry of Temporal's core its own fields and the part of
    the core that logged it.
    """
    core = entry.pop("temporal_log", None)
    if core is None:
        return entry
    fields = {name: value for name, value in core.fields.items() if name not in entry}
    return {**entry, "target": core.target, **fields}


_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    expand_core_entry,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
]


def strip_secrets(_logger: WrappedLogger, _method: str, entry: EventDict) -> EventDict:
    """A structlog processor that removes secrets from every text of the entry, nested texts and
    tracebacks included.
    """
    return {name: redact_value(value, field=name) for name, value in entry.items()}


def configure_logging(level: str = "INFO") -> None:
    """Send structlog's and the standard library's records to standard output as JSON lines. Call
    once a process.
    """
    redact("")  # loads the rules for secrets now, not at the first record
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                # Last but one, so that no processor adds to the entry after it.
                strip_secrets,
                structlog.processors.JSONRenderer(default=str),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in _VERBOSE_LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*_SHARED[:-1], structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def temporal_runtime(level: str = "INFO") -> Runtime:
    """Return the runtime of Temporal's core for a process that has called `configure_logging`: the
    core's logs go to the same place in the same form. Call once a process.
    """
    forwarding = LogForwardingConfig(
        logging.getLogger(_CORE_LOGGER),
        append_target_to_name=False,
        prepend_target_on_message=False,
        append_log_fields_to_message=False,
    )
    wanted = TelemetryFilter(core_level=_CORE_LEVELS[level], other_level="ERROR")
    return Runtime(
        telemetry=TelemetryConfig(logging=LoggingConfig(filter=wanted, forwarding=forwarding))
    )


async def flush_callbacks() -> None:
    """Let callbacks of Temporal's core end. Call before the event loop ends: the core aborts the
    interpreter when it is torn down in mid-callback. See
    https://github.com/temporalio/sdk-python/issues/300.
    """
    await asyncio.sleep(0.5)
