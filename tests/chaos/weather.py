"""Random faults of Slack, from a seeded generator."""

from dataclasses import dataclass, field
from random import Random

from threadline_devstack.slack.faults import CallFault, CallFaultKind, DeliveryPlan

REFUSED_TOKEN = ("invalid_auth", "token_revoked")
"""Slack refuses every call of the bot, and no call of the app."""
REFUSED_POST = ("not_in_channel", "missing_scope")
"""Slack refuses only the bot's messages."""
REFUSALS = (*REFUSED_TOKEN, *REFUSED_POST)
_POST = "chat.postMessage"
_OF_THE_APP = "apps.connections.open"
_SCOPE = "chat:write"


@dataclass
class Weather:
    """Random faults, as shares between 0 and 1 of all deliveries and of all calls of `methods`.

    `dice` gives the same numbers for the same seed. `seconds` is the longest delay of a delivery
    (delays also change the order of deliveries), `silence` the delay of an answer that is `slow`.
    `refused` is one of `REFUSALS`, or empty.
    """

    dice: Random
    dropped: float = 0.0
    duplicated: float = 0.0
    delayed: float = 0.0
    seconds: float = 1.5
    rate_limited: float = 0.0
    error_before: float = 0.0
    error_after: float = 0.0
    slow: float = 0.0
    silence: float = 4.0
    refused: str = ""
    methods: frozenset[str] = field(
        default=frozenset(
            {"chat.postMessage", "reactions.add", "conversations.replies", "conversations.history"}
        )
    )

    def call(self, method: str) -> CallFault | None:
        """Draw the fault of one call."""
        if self._is_refused(method):
            needed = _SCOPE if self.refused == "missing_scope" else ""
            return CallFault("refused", error=self.refused, needed=needed)
        if method not in self.methods:
            return None
        thrown = self.dice.random()
        for kind, share, seconds in self._kinds():
            if thrown < share:
                return CallFault(kind, seconds)
            thrown -= share
        return None

    def delivery(self) -> DeliveryPlan:
        """Draw the fault of one event; a `dropped` event is never delivered, as when Slack has
        given up.
        """
        if self.dice.random() < self.dropped:
            return DeliveryPlan(copies=0)
        copies = 2 if self.dice.random() < self.duplicated else 1
        late = self.dice.random() < self.delayed
        return DeliveryPlan(copies, self.dice.uniform(0, self.seconds) if late else 0.0)

    def _is_refused(self, method: str) -> bool:
        if self.refused in REFUSED_TOKEN:
            return method != _OF_THE_APP
        return bool(self.refused) and method == _POST

    def _kinds(self) -> tuple[tuple[CallFaultKind, float, float], ...]:
        return (
            ("rate_limited", self.rate_limited, 1.0),
            ("error_before", self.error_before, 0.0),
            ("error_after", self.error_after, 0.0),
            ("slow", self.slow, self.silence),
        )
