"""Heartbeats beside work that has nothing to tell."""

import asyncio

import pytest
from temporalio.testing import ActivityEnvironment

from threadline.threads.activity import heartbeating


async def test_heartbeats_go_on_while_the_work_does_and_end_with_it() -> None:
    env, beats, thrice = ActivityEnvironment(), list[object](), asyncio.Event()

    def on_heartbeat(*details: object) -> None:
        beats.append(details)
        if len(beats) == 3:
            thrice.set()

    async def work() -> str:
        async with heartbeating(interval=0.001):
            await thrice.wait()
        return "done"

    env.on_heartbeat = on_heartbeat
    assert await env.run(work) == "done"
    assert len(asyncio.all_tasks()) == 1, "nothing beats any more"


async def test_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        async with heartbeating():
            raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        await ActivityEnvironment().run(work)
    assert len(asyncio.all_tasks()) == 1
