"""Groups of people, without Slack's user groups."""

from threadline.slack.user_groups import UserGroups
from threadline.tools.context import Services
from threadline.tools.roles import Group, RecordKind, RoleDirectory, Roles

SELLER = "USELLER"
"""The only member of the group sales."""


async def _no_user_group(group_id: str) -> frozenset[str]:
    raise AssertionError(f"no group of these roles names the user group {group_id}")


def directory(roles: Roles | None = None) -> RoleDirectory:
    """Return the roles; without any, everybody may see and change all records."""
    return RoleDirectory(roles or Roles(), UserGroups(_no_user_group))


def with_roles(services: Services) -> Services:
    """Return the services, with roles that restrict nothing unless the services bring their
    own.
    """
    return (
        services
        if RoleDirectory in services
        else services.with_service(RoleDirectory, directory())
    )


def sellers(*seen: RecordKind) -> RoleDirectory:
    """Return the roles in which only the group sales may see these kinds of record."""
    only = frozenset({"sales"})
    return directory(
        Roles({"sales": Group(users=frozenset({SELLER}))}, see=dict.fromkeys(seen, only))
    )
