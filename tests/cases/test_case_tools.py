"""The tools that find and show cases, limited to what the readers of a channel may know."""

from typing import Any

import pytest

from tests.support.case_store import THREAD, Scene, report, said
from tests.support.tool_scene import SUMMARIES, ToolScene
from threadline.cases import tools as cases
from threadline.cases.model import Action, CaseStatus, Reason
from threadline.cases.store.case import CaseStore
from threadline.forge.model import PullRequest
from threadline.slack.model import Thread

TOLD = "We know why your total was wrong, and are working on it."
FOUND = {
    "title": "Totals are wrong with a discount",
    "summary": "The discount is taken twice in shop/cart.py, since bulk prices call it again.",
    "root_cause": "apply_code() runs after the bulk price was reckoned.",
    "evidence": [{"file": "shop/cart.py", "line": 12, "note": "the second call"}],
    "affected_components": ["checkout", "tax-service"],
    "severity": "S2",
    "for_reporter": TOLD,
}


@pytest.fixture
async def desk(scene: Scene) -> ToolScene:
    """BUG-1 is under investigation and has findings."""
    await scene.opened()
    await scene.turn(1, Action.POST_FINDINGS, result=FOUND)
    return ToolScene(scene.database, cases.TOOLS)


async def another(
    scene: Scene, words: str, root: str = "1700000500.000000", team: str = "T1"
) -> None:
    thread = Thread(team, THREAD.channel, root)
    opening = report(words, id=f"{team}:{THREAD.channel}:{root}")
    await scene.flush(opening, thread=thread)


async def found(desk: ToolScene, **arguments: Any) -> list[str]:
    return [each["bug_id"] for each in (await desk.done("cases.search", **arguments))["cases"]]


async def test_reporters_channel_gets_only_the_words_for_the_reporter(desk: ToolScene) -> None:
    result = await desk.ask("cases.get", bug_id="bug-1")
    card = dict(result.data)
    assert card.pop("opened_at") <= card.pop("status_since")
    assert card == {
        "bug_id": "BUG-1",
        "title": "Totals are wrong with a discount",
        "status": "investigating",
        "severity": "S2",
        "link": "https://example.slack.com/archives/C1/p1700000000000000",
        "told": TOLD,
    }
    assert [each.kind for each in result.structured] == ["cases"]


async def test_developers_channel_gets_the_findings_too(desk: ToolScene, scene: Scene) -> None:
    url = "https://code.example/pr/7"
    async with scene.database.begin() as tx:
        await CaseStore(tx).save_pull_request(
            "BUG-1", PullRequest("shop", "fix", url, 7, "0" * 40)
        )
    card = await desk.done("cases.get", bug_id="BUG-1", channel=SUMMARIES)
    assert (card["findings"], card["components"]) == (
        FOUND["summary"],
        ["checkout", "tax-service"],
    )
    assert card["pull_request"] == url
    assert "pull_request" not in await desk.done("cases.get", bug_id="BUG-1")


@pytest.mark.parametrize(
    "title",
    [
        "The discount is taken twice in shop/cart.py",
        "Broken `apply_code`",
        "tax-service rounds twice",
    ],
)
async def test_internal_text_in_a_title_or_reply_is_not_shown_elsewhere(
    scene: Scene, title: str
) -> None:
    await scene.opened()
    result = {**FOUND, "title": title, "for_reporter": "It is in shop/cart.py."}
    await scene.turn(1, Action.POST_FINDINGS, result=result)
    desk = ToolScene(scene.database, cases.TOOLS)
    for each in (await desk.ask("cases.get", bug_id="BUG-1"), await desk.ask("cases.search")):
        assert "The cart total is wrong" in str(each.data), "as in the report itself"
        assert title not in f"{each.data}{each.display_text}{each.structured}"
        assert "It is in shop/cart.py." not in str(each.data)
    assert (await desk.done("cases.get", bug_id="BUG-1", channel=SUMMARIES))["title"] == title


async def test_question_to_the_reporter_is_shown_as_the_last_reply(
    desk: ToolScene, scene: Scene
) -> None:
    await scene.flush(said(10, "Any news?"))
    await scene.turn(
        2, Action.ASK_REPORTER, result={"clarification_question": "Which browser is it?"}
    )
    await scene.become(CaseStatus.AWAITING_REPORTER, Reason.QUESTION_ASKED)
    card = await desk.done("cases.get", bug_id="BUG-1")
    assert (card["told"], card["status"]) == ("Which browser is it?", "awaiting_reporter")


async def test_case_without_a_title_is_shown(scene: Scene) -> None:
    await another(scene, "... the checkout hangs")
    result = await ToolScene(scene.database, cases.TOOLS).ask("cases.get", bug_id="BUG-1")
    assert (result.success, result.data["title"]) == (True, "")


async def test_unsettled_turn_is_not_shown(scene: Scene) -> None:
    await scene.opened()
    await scene.claim(1)
    assert "told" not in await ToolScene(scene.database, cases.TOOLS).done(
        "cases.get", bug_id="BUG-1"
    )


async def test_cases_are_found_by_words_component_and_status(
    desk: ToolScene, scene: Scene
) -> None:
    await another(scene, "The search page shows no pictures of the cart")
    assert await found(desk) == ["BUG-2", "BUG-1"], "newest first"
    assert await found(desk, words="discounts") == ["BUG-1"]
    assert await found(desk, words="pictures") == ["BUG-2"]
    assert await found(desk, words="cart TOTALS") == ["BUG-1", "BUG-2"], (
        "cases match any word; those with most matches come first"
    )
    assert await found(desk, words="bug-2") == ["BUG-2"]
    assert await found(desk, words="the of and") == ["BUG-2", "BUG-1"], "stop words"
    assert await found(desk, component="Checkout") == ["BUG-1"]
    assert await found(desk, component="tax") == ["BUG-1"]
    assert await found(desk, words="pictures", component="checkout") == []
    assert await found(desk, status="new") == ["BUG-2"]
    assert (await desk.ask("cases.search", words="' | & ! :*")).success
    assert await found(desk, words="giraffe") == []


async def test_resolved_cases_are_left_out_unless_asked_for(desk: ToolScene, scene: Scene) -> None:
    await scene.end(Reason.AGENT_RESOLVED)
    assert await found(desk) == []
    assert await found(desk, open_only=False) == ["BUG-1"]
    assert await found(desk, status="resolved") == ["BUG-1"]


async def test_long_list_is_cut_with_a_note(desk: ToolScene, scene: Scene) -> None:
    for number in range(cases.MOST):
        await another(scene, f"Report {number}", f"17000005{number:02}.000000")
    result = await desk.ask("cases.search")
    assert (len(result.data["cases"]), result.data["more"]) == (cases.MOST, True)


async def test_cases_of_another_team_are_not_found(desk: ToolScene, scene: Scene) -> None:
    await another(scene, "The cart is empty", team="T2")
    assert await found(desk, words="cart") == ["BUG-1"]
    assert await found(desk, words="cart", team="T2") == ["BUG-2"]
    for team, bug_id in (("T1", "BUG-2"), ("T2", "BUG-1"), ("T1", "BUG-77"), ("T1", "cart")):
        refusal = await desk.refused("cases.get", team=team, bug_id=bug_id)
        assert refusal.error
        assert refusal.error.message.startswith(f"there is no case {bug_id.upper()}")


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("get", {}, "`bug_id` is missing"),
        ("search", {"status": "open"}, "`status`: Input should be 'new', 'investigating'"),
    ],
)
async def test_invalid_argument_is_named(
    desk: ToolScene, tool: str, arguments: dict[str, Any], says: str
) -> None:
    refusal = await desk.refused(f"cases.{tool}", **arguments)
    assert refusal.error
    assert says in refusal.error.message
