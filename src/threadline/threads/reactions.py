"""Emoji on people's messages: cosmetic, so what fails is left out."""

from collections.abc import Iterable

import structlog

from threadline.errors import Permanent, Transient
from threadline.slack.client import Slack

_log = structlog.get_logger(__name__)


async def react(slack: Slack, name: str, items: Iterable[tuple[str, str]]) -> None:
    """Put one emoji on messages, (channel, ts) each; where Slack cannot be had for now, the rest go without."""
    for channel, ts in items:
        try:
            await slack.react(channel, ts, name)
        except (Permanent, Transient) as error:
            _log.info("reaction_not_added", name=name, reason=str(error))
            if isinstance(error, Transient):
                return
