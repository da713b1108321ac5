"""The tools of each agent: the conversational one reads and makes changes outside of RFPs; the
operator has all.
"""

import pytest

from threadline.slack.users import UserDirectory
from threadline.tools.context import Services
from threadline.tools.registry import ToolRegistry, allowed_tools
from threadline.wiring.toolsets import TOOLS

OWN = {
    "opportunity.patch",
    "journal.append",
    "event.append",
    "slack.post.summary",
    "slack.ask.clarifying.question",
    "propose.action",
}
"""Tools that the protocol restricts."""
REGISTRY = ToolRegistry(TOOLS)
SERVICES = Services(
    {port: object() for each in TOOLS for port in each.needs} | {UserDirectory: object()}
)
EVERYTHING = {each.name for each in TOOLS}
READS = {each.name for each in TOOLS if not each.mutating}


@pytest.mark.parametrize("read_only", [False, True])
def test_conversational_agent_has_no_protocol_tools(read_only: bool) -> None:
    common = READS if read_only else EVERYTHING - OWN
    assert allowed_tools(REGISTRY, SERVICES, read_only=read_only).names == common
    assert (
        allowed_tools(REGISTRY, SERVICES, operator=True, read_only=read_only).names == common | OWN
    )
    assert {"opportunity.load", "schedule.job", "rfp.create.from.slack.file"} <= EVERYTHING - OWN
