"""The one road from Slack's JSON to Temporal: for what Slack delivers, and for what the catch-up finds."""

from collections.abc import Mapping
from typing import Any

from threadline.gateway import interactions as clicks
from threadline.gateway.dispatcher import Dispatcher, Outcome
from threadline.gateway.routes import RoutingConfig, route
from threadline.slack.model import AuthorRefusal
from threadline.threads.contract import Handled


class Door:
    """Args: `config` says which channels count and who the bot is."""

    def __init__(self, config: RoutingConfig, dispatcher: Dispatcher) -> None:
        self._config = config
        self._dispatcher = dispatcher

    async def take(self, body: Mapping[str, Any]) -> str:
        """Route an event or a click and hand it over; returns an `Outcome`, or why it is ignored.

        Raises:
            NotAccepted: Temporal did not take it.
        """
        clicked = body.get("type") == clicks.CLICK
        return await self._dispatcher.dispatch(clicks.route(body) if clicked else route(body, self._config))

    async def pass_on(self, body: Mapping[str, Any]) -> Handled:
        """The same, told as the catch-up wants to know it."""
        outcome = await self.take(body)
        if isinstance(outcome, AuthorRefusal):
            return Handled.REFUSED
        return Handled.SIGNALLED if outcome in set(Outcome) else Handled.IGNORED
