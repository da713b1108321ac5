"""Resource use of processes: CPU seconds and memory, each including child processes."""

from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]


def cpu_seconds(*pids: int) -> float:
    """Return the CPU seconds of the processes, and of their present and former children, so
    far.
    """
    total = 0.0
    for pid in pids:
        for process in _family(pid):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue  # its parent's figures include its time by now
            total += times.user + times.system + times.children_user + times.children_system
    return total


def resident_mib(pid: int) -> float:
    """Return the memory of one process, without its children."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def proportional_mib(pid: int) -> float:
    """Return the memory of a process and its children, shared pages counted once (resident memory
    where the system does not report them).
    """
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
    """CPU seconds of some processes since `start`."""

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
