"""Handovers: their activities."""

from threadline.handovers.activities import (
    HandoverSettings,
    LiveHandoverActivities,
)
from threadline.settings import (
    DecisionSettings,
)
from threadline.wiring.core import CoreDeps


def handover_activities(settings: DecisionSettings, deps: CoreDeps) -> LiveHandoverActivities:
    handover_settings = HandoverSettings(
        deps.case_channels.escalations,
        deps.readers,
        settings.handover_reminder,
        on_call=deps.case_channels.on_call(0),
    )
    return LiveHandoverActivities(
        deps.database,
        deps.slack,
        deps.outbox,
        deps.authors,
        deps.workflows,
        handover_settings,
    )
