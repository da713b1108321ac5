"""Stand-ins for Jira Cloud and GitHub Actions, for laptops and tests.

Written from the services' public API pages and never run beside the services themselves; each answers as much as the
product's clients ask for, and can misbehave on demand.
"""

from threadline_devstack.trackers.app import TrackerSandbox
from threadline_devstack.trackers.faults import Fault, Kind

__all__ = ["Fault", "Kind", "TrackerSandbox"]
