"""A repository that cannot be fetched: a refusal goes to the admin at once, an outage only when it
lasts.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.git_repository import GitRepository
from threadline.errors import Mendable, Transient
from threadline.forge.git import Git
from threadline.forge.mirrors import PATIENCE, SAME_FAULT, Mirrors

AWAY = "http://127.0.0.1:1/acme/shop.git"


async def outcomes(
    mirrors: Mirrors, clock: list[float], times: Sequence[float]
) -> list[type[Exception] | None]:
    """Ask for the head at each of these times; returns the kinds of the errors."""
    found = list[type[Exception] | None]()
    said = ""
    for clock[0] in times:
        try:
            await mirrors.commit("shop")
        except (Mendable, Transient) as error:
            found.append(type(error))
            said = str(error)
        else:
            found.append(None)
    assert "127.0.0.1" not in said
    assert "fatal" not in said
    return found


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0.0], [Transient]),
        ([0.0, 1.0, 2.0, 3.0, 4.0], [Transient] * 5),
        ([0.0, 60.0, PATIENCE - 1], [Transient] * 3),
        ([0.0, 60.0, PATIENCE, PATIENCE + 300], [Transient, Transient, Mendable, Mendable]),
        ([0.0, SAME_FAULT + 1], [Transient, Transient]),
    ],
    ids=["a blip", "many cases in one blip", "short of the patience", "an outage", "two blips"],
)
async def test_unreachable_repository_is_the_admins_only_when_it_stays_away(
    tmp_path: Path, times: Sequence[float], expected: Sequence[type[Exception]]
) -> None:
    clock = [0.0]
    mirrors = Mirrors(tmp_path / "mirrors", {"shop": AWAY}, Git(), clock=lambda: clock[0])
    assert await outcomes(mirrors, clock, times) == expected


async def test_good_fetch_ends_an_outage(tmp_path: Path, origin: GitRepository) -> None:
    clock = [0.0]
    root = tmp_path / "mirrors"
    mirrors = Mirrors(root, {"shop": str(origin.path)}, Git(), clock=lambda: clock[0])
    good = mirrors._remotes["shop"]
    away = Mirrors(root, {"shop": AWAY}, Git())._remotes["shop"]
    found = list[type[Exception] | None]()
    for remote, at in ((away, 0.0), (good, 60.0), (away, 2 * PATIENCE)):
        mirrors._remotes["shop"] = remote
        await asyncio.to_thread((root / "shop.fetched").unlink, missing_ok=True)
        found += await outcomes(mirrors, clock, [at])
    assert found == [Transient, None, Transient]


@pytest.mark.parametrize("address", ["{path}/missing.git", "file://{path}/missing.git"])
async def test_wrong_address_is_the_admins_at_once(tmp_path: Path, address: str) -> None:
    mirrors = Mirrors(tmp_path / "mirrors", {"shop": address.format(path=tmp_path)}, Git())
    with pytest.raises(Mendable, match="repository shop cannot be fetched") as raised:
        await mirrors.commit("shop")
    assert str(tmp_path) not in str(raised.value)
