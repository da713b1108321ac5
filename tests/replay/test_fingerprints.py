"""The order of the workflows' commands changes only on purpose."""

from functools import cache

import pytest

from tests.replay.fingerprints import Fingerprints, committed, fingerprints, sources


@cache
def present() -> Fingerprints:
    """The fingerprints of the code as it is."""
    return fingerprints(sources())


def test_order_of_commands_is_the_committed_one() -> None:
    now = present()
    before = committed()
    changed = sorted(
        name for name in now.keys() | before.keys() if now.get(name) != before.get(name)
    )
    assert not changed, (
        f"The commands of {', '.join(changed)} have changed, which may wedge threads in flight: "
        "put the change behind a gate (`workflow.patched`), then announce it with `python -m "
        "tests.replay.fingerprints`."
    )


@pytest.mark.parametrize(
    ("module", "before", "after"),
    [
        ("cases.workflow", "        announced = await self._start_turn()\n", ""),
        (
            "cases.workflow",
            "await self._notice(NoticeKind.INTAKE)",
            "await call(CaseActivities.fetch_report, 'x')",
        ),
        ("cases.workflow", "workflow.continue_as_new(self.state, memo=_memo(self.case))", "pass"),
        ("cases.workflow", "workflow.upsert_memo(_memo(case))", "workflow.sleep(1)"),
        ("cases.sla", "timeout=seconds,", ""),
        ("cases.sla", ".signal(signal)", ".cancel()"),
        (
            "threads.calls",
            "workflow.execute_activity_method(",
            "workflow.execute_local_activity_method(",
        ),
    ],
)
def test_another_command_changes_the_fingerprint(module: str, before: str, after: str) -> None:
    code = sources()
    assert before in code[module]
    changed = {**code, module: code[module].replace(before, after)}
    assert fingerprints(changed) != present()


@pytest.mark.parametrize(("first", "second"), [("call(A.one)", "call(A.two)"), ("g()", "h()")])
def test_another_order_changes_the_fingerprint(first: str, second: str) -> None:
    parts = "def g():\n    call(A.one)\ndef h():\n    call(A.two)\n"
    one, other = (
        f"{parts}def f():\n    {a}\n    {b}\n" for a, b in ((first, second), (second, first))
    )
    assert fingerprints({"m": one}) != fingerprints({"m": other})


def test_layout_and_plain_calculations_do_not_count() -> None:
    plain = (
        'async def f():\n    "Told."\n    number = len(g())\n    await call(\n        A.one, '
        "number\n    )  # why\n"
    )
    assert fingerprints({"m": plain}) == fingerprints(
        {"m": "async def f():\n    await call(A.one, 2)\n"}
    )
