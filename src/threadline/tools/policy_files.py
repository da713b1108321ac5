"""Reads the TOML files of `THREADLINE_POLICY` and `THREADLINE_ROLES` when a process starts."""

import re
import tomllib
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threadline.errors import Permanent
from threadline.tools.model import Risk
from threadline.tools.policy import BUILT_IN, CallRules, PolicyRule, Verdict
from threadline.tools.roles import Group, RecordKind, Roles

_CHANNEL = re.compile(r"[CDG][A-Z0-9]{2,40}")
_USER = re.compile(r"[UW][A-Z0-9]{2,40}")
_USER_GROUP = re.compile(r"S[A-Z0-9]{2,40}")
_MAX_BYTES = 100_000

Names = Annotated[tuple[str, ...], Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Rule(_Table):
    then: Verdict
    tools: Names = ("*",)
    risks: Annotated[tuple[Risk, ...], Field(min_length=1)] = tuple(Risk)
    channels: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


class _PolicyFile(_Table):
    rule: tuple[_Rule, ...] = ()


class _RolesFile(_Table):
    groups: dict[str, Names] = Field(default_factory=dict)
    see: dict[RecordKind, tuple[str, ...]] = Field(default_factory=dict)
    change: dict[RecordKind, tuple[str, ...]] = Field(default_factory=dict)


F = TypeVar("F", bound=_Table)


def load_roles(path: Path | None) -> Roles:
    """Read the groups and their rights; without a file, there are none.

    Raises:
        Permanent: the file is invalid.
    """
    if path is None:
        return Roles()
    setting = "THREADLINE_ROLES"
    given = _read("THREADLINE_ROLES", path, _RolesFile)
    groups = {name: _group(setting, name, members) for name, members in given.groups.items()}
    for title, rights in (("see", given.see), ("change", given.change)):
        for kind, names in rights.items():
            _check_names(setting, f"[{title}] {kind}", names, groups)
    return Roles(groups, _rights(given.see), _rights(given.change))


def load_rules(path: Path | None, roles: Roles, tools: Collection[str]) -> CallRules:
    """Read the rules, which come before the built-in ones.

    Args:
        tools: the names of all tools.

    Raises:
        Permanent: the file is invalid, or a rule names a group or a tool that does not exist.
    """
    if path is None:
        return CallRules()
    setting = "THREADLINE_POLICY"
    given = _read("THREADLINE_POLICY", path, _PolicyFile)
    for number, rule in enumerate(given.rule, 1):
        where = f"rule {number}"
        _check_names(setting, where, rule.roles, roles.groups)
        for pattern in rule.tools:
            if not any(fnmatchcase(name, pattern) for name in tools):
                raise Permanent(f"{setting}: {where} names {pattern!r}, which matches no tool.")
        for channel in rule.channels:
            if not _CHANNEL.fullmatch(channel):
                raise Permanent(
                    f"{setting}: {where} names {channel!r}, which is not a channel id such "
                    "as C012AB3CD."
                )
    rules = [
        PolicyRule(
            each.then,
            each.tools,
            frozenset(each.risks),
            frozenset(each.channels),
            frozenset(each.roles),
        )
        for each in given.rule
    ]
    return CallRules((*rules, *BUILT_IN))


def _read(setting: str, path: Path, kind: type[F]) -> F:
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise Permanent(
            f"{setting} names {path.name}, which cannot be read: {fault.strerror}."
        ) from fault
    if len(data) > _MAX_BYTES:
        raise Permanent(f"{setting}: {path.name} has more than {_MAX_BYTES:,} bytes.")
    try:
        return kind.model_validate(tomllib.loads(data.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise Permanent(f"{setting}: {path.name} is not TOML: {fault}.") from fault
    except ValidationError as fault:
        first = fault.errors()[0]
        place = ".".join(str(each + 1 if isinstance(each, int) else each) for each in first["loc"])
        raise Permanent(
            f"{setting}: {path.name} has a mistake at {place}: {first['msg']}."
        ) from fault


def _group(setting: str, name: str, members: Collection[str]) -> Group:
    kinds = (_USER, _USER_GROUP, _CHANNEL)
    for each in members:
        if not any(kind.fullmatch(each) for kind in kinds):
            raise Permanent(
                f"{setting}: the group {name} names {each!r}. A group takes ids of users (U…), "
                "user groups (S…) and channels (C…)."
            )
    users, user_groups, channels = (frozenset(filter(kind.fullmatch, members)) for kind in kinds)
    return Group(users, user_groups, channels)


def _check_names(
    setting: str, where: str, names: Collection[str], groups: Mapping[str, Group]
) -> None:
    for name in names:
        if name not in groups:
            known = ", ".join(sorted(groups)) or "none"
            raise Permanent(
                f"{setting}: {where} names the group {name!r}. The groups of "
                f"THREADLINE_ROLES: {known}."
            )


def _rights(given: Mapping[RecordKind, Collection[str]]) -> dict[RecordKind, frozenset[str]]:
    return {kind: frozenset(names) for kind, names in given.items()}
