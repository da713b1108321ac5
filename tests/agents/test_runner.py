"""Turns of the investigator, on the real CLI."""

from typing import TYPE_CHECKING

from threadline.agents.investigator.runner import Investigator
from threadline.devstack.model_sandbox import Turn

if TYPE_CHECKING:
    from tests.agents.conftest import Bench


async def test_smoke(bench: "Bench") -> None:
    seen = []

    async def script(turn: Turn) -> None:
        seen.append(sorted(turn.tools))
        seen.append(await turn.call("mcp__bug__get_bug_conversations", bug_id="BUG-12"))
        seen.append(await turn.call("Grep", pattern="total", output_mode="content"))
        seen.append(await turn.call("Read", file_path=str(bench.workspace / "sample-shop/cart.py")))
        seen.append(await turn.call("mcp__bug__get_bug", bug_id="BUG-13"))
        await turn.finish(action="post_findings", title="t", summary="s", root_cause="", evidence=[], severity="S3",
            confidence=0.5, clarification_question="", recommended_actions=[], affected_components=[], fix_requested=False)

    bench.model.script(script)
    import time
    t = time.time()
    result = await bench.investigator.run_investigation(bench.brief(), bench.case, bench.store)
    print(time.time() - t, result)
    for s in seen: print("SEEN", s)
    print(bench.prompts()[0])
    assert 0
