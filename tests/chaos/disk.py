"""A disk that is full for a while, under the workspaces of the real agent."""

import asyncio
import os

from tests.chaos.stage import Stage

_NO_ROOM = ("-t", "tmpfs", "-o", "size=4k,nr_inodes=1", "tmpfs")
"""A file system of one node, which its own root takes: every file that is made there meets ENOSPC, whoever makes it."""


async def fill_disk(stage: Stage, seconds: float) -> None:
    """Lay a full file system over the workspaces; who may not mount one makes their folder unusable instead."""
    cases = stage.workspaces / "cases"
    if not cases.is_dir():
        return
    if await _mount("mount", *_NO_ROOM, str(cases)):
        stage.say("the disk under the workspaces is full")
        try:
            await asyncio.sleep(seconds)
        finally:
            await _mount("umount", "--lazy", str(cases))
    else:
        stage.say("no workspace can be written")
        away = cases.rename(cases.with_name("cases.away"))
        cases.write_text("")
        await asyncio.sleep(seconds)
        cases.unlink()
        away.rename(cases)
    stage.say("workspaces can be written again")


async def _mount(*command: str) -> bool:
    path = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        process = await asyncio.create_subprocess_exec(*command, env=path, stderr=asyncio.subprocess.DEVNULL)
    except OSError:
        return False
    return await process.wait() == 0
