"""What processes use: CPU seconds and memory, each with all that it has started."""

from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]


def cpu_seconds(*pids: int) -> float:
    """CPU that the processes, and their children of now and before, have used so far."""
    total = 0.0
    for pid in pids:
        for process in _family(pid):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue  # its time is its parent's by now
            total += times.user + times.system + times.children_user + times.children_system
    return total


def resident_mib(pid: int) -> float:
    """Memory of one process, without its children."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def proportional_mib(pid: int) -> float:
    """Memory of a process and its children, shared pages counted once (resident where the system tells no more)."""
    total = 0.0
    for process in _family(pid):
        try:
            told = process.memory_full_info()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        total += getattr(told, "pss", told.rss)
    return total / 2**20


@dataclass
class Meter:
    """CPU seconds of some processes since a moment."""

    pids: tuple[int, ...]
    began: float = 0.0

    def start(self) -> None:
        self.began = cpu_seconds(*self.pids)

    @property
    def used(self) -> float:
        return cpu_seconds(*self.pids) - self.began


def _family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
