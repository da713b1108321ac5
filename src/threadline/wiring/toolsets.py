"""The tools of every feature, whether they are configured or not."""

from collections.abc import Sequence

from threadline.appointments import tools as appointments_tools
from threadline.approvals import tools as approvals_tools
from threadline.cases import tools as cases_tools
from threadline.ci import tools as ci_tools
from threadline.conversations import thread_tool
from threadline.estimates import tools as estimates_tools
from threadline.jobs import tools as jobs_tools
from threadline.knowledge import tools as knowledge_tools
from threadline.operator import tools as operator_tools
from threadline.rfps import files as rfps_files
from threadline.rfps import tools as rfps_tools
from threadline.sales import tools as sales_tools
from threadline.tools.registry import Tool
from threadline.trackers import tools as trackers_tools

_TOOLSETS = (
    appointments_tools,
    cases_tools,
    ci_tools,
    sales_tools,
    estimates_tools,
    trackers_tools,
    jobs_tools,
    operator_tools,
    approvals_tools,
    knowledge_tools,
    rfps_files,
    rfps_tools,
    thread_tool,
)

TOOLS: Sequence[Tool] = tuple(tool for toolset in _TOOLSETS for tool in toolset.TOOLS)
