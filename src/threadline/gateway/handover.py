"""The one road from Slack's JSON to Temporal: for what Slack delivers, and for what the catch-up finds."""

from collections.abc import Mapping
from typing import Any

from threadline.gateway.dispatch import Dispatcher, Outcome
from threadline.gateway.events import RoutingConfig, route


class Handover:
    """Args: `config` says which channels count and who the bot is."""

    def __init__(self, config: RoutingConfig, dispatcher: Dispatcher) -> None:
        self._config = config
        self._dispatcher = dispatcher

    async def take(self, body: Mapping[str, Any]) -> str:
        """Route an event and hand it over; returns an `Outcome`, or why it is ignored.

        Raises:
            NotAccepted: Temporal did not take it.
        """
        return await self._dispatcher.dispatch(route(body, self._config))

    async def signals(self, body: Mapping[str, Any]) -> bool:
        """The same, told as whether anything was signalled."""
        return await self.take(body) in set(Outcome)
