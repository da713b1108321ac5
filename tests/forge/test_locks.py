"""One process at a time holds a lock, also when its file is deleted or its holder is killed."""

import asyncio
import fcntl
import sys
from pathlib import Path

import pytest

from threadline.errors import Transient
from threadline.forge import locks


async def test_one_holder_at_a_time_also_when_each_deletes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "x.lock"
    inside = 0
    most = 0

    async def work() -> None:
        nonlocal inside, most
        async with locks.file_lock(path, wait=20, message="busy"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            path.unlink()  # the holder's last act: another one may create the file again

    await asyncio.gather(*(work() for _ in range(8)))
    assert most == 1


async def test_file_deleted_between_opening_and_locking_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lock"
    flock = fcntl.flock
    calls = 0

    def deleted_meanwhile(descriptor: int, operation: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            path.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", deleted_meanwhile)
    async with locks.file_lock(path, wait=5, message="busy"):
        assert calls == 2
        with pytest.raises(Transient):
            async with locks.file_lock(path, wait=0, message="busy"):
                pytest.fail("held twice")


async def test_wait_ends_with_the_given_message(tmp_path: Path) -> None:
    async with locks.file_lock(tmp_path / "x.lock", wait=0, message="busy"):
        with pytest.raises(Transient, match="come again"):
            async with locks.file_lock(tmp_path / "x.lock", wait=0.1, message="come again"):
                pytest.fail("held twice")


async def test_killed_holder_gives_the_lock_up(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    program = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, "
        "flush=True); input()"
    )
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        path,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdout
    await holder.stdout.readline()
    with pytest.raises(Transient):
        async with locks.file_lock(path, wait=0, message="busy"):
            pytest.fail("held twice")
    holder.kill()
    await holder.wait()
    async with locks.file_lock(path, wait=5, message="busy"):
        assert path.exists()


async def test_link_in_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "x.lock").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        async with locks.file_lock(tmp_path / "x.lock", wait=0, message="busy"):
            pytest.fail("followed a link")
    assert not (tmp_path / "target").exists()
