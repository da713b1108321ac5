"""Holds: named points at which a scripted reply waits until somebody lets it go."""

import asyncio
from collections import Counter


class Holds:
    """What is known of each name: armed, released (for good, until armed again), and how many replies wait there."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._released: set[str] = set()
        self._armed: set[str] = set()
        self._waiting: Counter[str] = Counter()

    def arm(self, name: str) -> None:
        """From now on replies stop at `name`, where they would have passed or it was released before."""
        self._armed.add(name)
        self._released.discard(name)

    async def release(self, name: str) -> None:
        """Let every reply pass `name`: those that wait there, and those still to come."""
        async with self._changed:
            self._armed.discard(name)
            self._released.add(name)
            self._changed.notify_all()

    async def wait_if_armed(self, name: str) -> None:
        if name in self._armed:
            await self.wait(name)

    async def wait(self, name: str) -> None:
        async with self._changed:
            self._waiting[name] += 1
            self._changed.notify_all()
            try:
                await self._changed.wait_for(lambda: name in self._released)
            finally:
                self._waiting[name] -= 1
                self._changed.notify_all()

    async def reached(self, name: str) -> None:
        """Return as soon as a reply waits at `name`."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting[name] > 0)

    async def deserted(self, name: str) -> None:
        """Return as soon as no reply waits at `name`."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting[name] == 0)

    def overview(self) -> dict[str, object]:
        """`armed` and `released`: sorted names; `waiting`: how many replies wait at each name."""
        return {
            "armed": sorted(self._armed),
            "released": sorted(self._released),
            "waiting": {name: count for name, count in self._waiting.items() if count},
        }
