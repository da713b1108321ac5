"""The session store as one turn sees it: what was lost on its way there is known, whenever it was lost."""

from claude_agent_sdk import SessionKey, SessionStore, SessionStoreEntry


class SessionLedger:
    """A `SessionStore` of the two methods that a turn needs: passes on to `store`, and remembers what it never took.

    The SDK retries a failed append and then goes on without it; what fails after the turn's result is told to nobody.
    A turn whose transcript has a hole cannot be resumed, so it must not count as done.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._failed: list[SessionStoreEntry] | None = None
        self._dropped = False

    @property
    def incomplete(self) -> bool:
        return self._dropped or self._failed is not None

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        if self._failed is not None and entries != self._failed:  # no retry of the failed ones: they were given up
            self._dropped = True
        self._failed = entries
        await self._store.append(key, entries)
        self._failed = None

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Without the running total of costs: with it, a resumed turn reports what the whole session has cost."""
        entries = await self._store.load(key)
        return entries and [entry for entry in entries if entry.get("type") != "cost-state"]
