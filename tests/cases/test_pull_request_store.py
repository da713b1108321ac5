"""The one pull request of a case."""

from dataclasses import replace

from tests.support.case_store import Scene
from threadline.cases.pull_request_rows import PullRequestRecord

OPEN = PullRequestRecord("shop", "threadline/bug-1", "https://git.example/shop/1", 1, "abc", 1)


async def test_a_case_has_one_pull_request_and_its_marks_say_whether_it_is_open(scene: Scene) -> None:
    before = await scene.opened()
    async with scene.database.begin() as work:
        assert await work.pull_requests.of("BUG-1") is None
        opened = await work.pull_requests.save("BUG-1", OPEN)
    assert opened.pull_request_open
    assert opened.rev > before.rev
    later = replace(OPEN, commit="def", turn=2)
    async with scene.database.begin() as work:
        await work.pull_requests.save("BUG-1", later)
        assert await work.pull_requests.of("BUG-1") == later
        merged = await work.pull_requests.save("BUG-1", replace(later, state="merged"))
    assert not merged.pull_request_open
    [row] = await scene.rows("SELECT merged_at, opened_at FROM pull_requests")
    assert row["merged_at"] >= row["opened_at"]
