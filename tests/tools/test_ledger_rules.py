"""A recorded change is not made again."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.tool_fakes import MemoryLedger, context
from tests.support.tool_results import code_of
from tests.tools.tool_calls import Caller
from threadline.db.engine import Transaction
from threadline.errors import NotDone, Transient
from threadline.models.model import ToolCall, ToolKind
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import ErrorCode, ToolResult
from threadline.tools.registry import ToolRegistry, tool
from threadline.tools.runner import MAX_RETRY_AFTER
from threadline.tools.store import CallIntent, EarlierIntent, LoggedCall


@dataclass
class Accounts:
    """Postings by operation key. The next posting raises `fault` before it is made, or after it
    (`too_late`).
    """

    posted: dict[str, int] = field(default_factory=dict)
    tried: int = 0
    fault: Exception | None = None
    too_late: bool = False
    unreachable: Exception | None = None
    hangs: bool = False
    slow: Callable[[], None] = lambda: None
    """Runs while a posting is looked up."""

    def post(self, key: str, amount: int) -> None:
        self.tried += 1
        fault = self.fault
        self.fault = None
        if fault and not self.too_late:
            raise fault
        self.posted[key] = amount
        if fault:
            raise fault


@tool("accounts.post", "Post an amount.", kind=ToolKind.CHANGE, remote=True)
async def post(context: ToolContext, *, amount: int) -> int:
    context.services[Accounts].post(context.operation_key, amount)
    return amount


async def _find(context: ToolContext, given: object) -> ToolResult | None:
    accounts = context.services[Accounts]
    accounts.slow()
    if accounts.unreachable:
        raise accounts.unreachable
    if accounts.hangs:
        await asyncio.Event().wait()
    amount = accounts.posted.get(context.operation_key)
    return None if amount is None else ToolResult(data=amount, display_text="found")


@tool(
    "accounts.postOnce",
    "Post an amount; knows how to look it up.",
    kind=ToolKind.CHANGE,
    look_up=_find,
    remote=True,
)
async def post_once(context: ToolContext, *, amount: int) -> int:
    context.services[Accounts].post(context.operation_key, amount)
    return amount


async def _tell(context: ToolContext, given: Any, result: ToolResult) -> str:
    return f"{given.amount} was told"


@tool(
    "accounts.postSlowly",
    "Post an amount; the bank may take its time.",
    kind=ToolKind.CHANGE,
    look_up=_find,
    timeout=0.05,
    settle_seconds=45,
    side_effects=(_tell,),
    remote=True,
)
async def post_slowly(context: ToolContext, *, amount: int) -> int:
    context.services[Accounts].post(context.operation_key, amount)
    return amount


@tool("accounts.total", "The sum.", remote=True)
async def total(context: ToolContext) -> int:
    context.services[Accounts].tried += 1
    return sum(context.services[Accounts].posted.values())


REGISTRY = ToolRegistry([post, post_once, post_slowly, total])


class Office(Caller):
    """Calls 5, one after the other, with the same id."""

    def __init__(self) -> None:
        self.accounts = Accounts()
        super().__init__(REGISTRY, Services().with_service(Accounts, self.accounts))

    async def post(self, name: str, retries_left: int = 0) -> ToolResult:
        return await self.call(f"accounts.{name}", "c1", retries_left, amount=5)

    async def post_and_lose_the_result(self, name: str) -> None:
        self.ledger.lost = Transient("The record cannot be reached.")
        with pytest.raises(Transient):
            await self.post(name)

    async def fail_to_post_slowly(self) -> None:
        """Fail to post, although the bank may still make the posting."""
        self.accounts.fault = Transient("The line broke.")
        with pytest.raises(Transient):
            await self.post("postSlowly", retries_left=2)


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.mark.parametrize(
    ("name", "given"), [("accounts.post", {"amount": 5}), ("accounts.total", {})]
)
async def test_repeated_call_gets_the_recorded_result(
    office: Office, name: str, given: dict[str, Any]
) -> None:
    first = await office.call(name, "c1", **given)
    assert await office.call(name, "c1", **given) == first
    assert office.accounts.tried == 1
    (entry,) = office.ledger.entries
    assert (entry.call.tool_name, entry.call.parameters, entry.result) == (name, given, first)
    assert (
        entry.call.operation.turn,
        entry.call.operation.step,
        entry.call.operation.call_id,
    ) == (
        1,
        1,
        "c1",
    )
    assert entry.milliseconds >= 0


async def test_call_id_of_another_call_is_refused(office: Office) -> None:
    await office.post("post")
    assert (
        code_of(await office.call("accounts.post", "c1", amount=6)) is ErrorCode.REPEATED_CALL_ID
    )
    assert list(office.accounts.posted.values()) == [5]


async def test_change_with_lost_result_has_an_unknown_outcome(office: Office) -> None:
    await office.post_and_lose_the_result("post")
    again = await office.post("post")
    assert code_of(again) is ErrorCode.OUTCOME_UNKNOWN
    assert office.accounts.tried == 1
    assert await office.post("post") == again, "the unknown outcome is recorded, too"


async def test_change_with_lost_result_is_looked_up(office: Office) -> None:
    await office.post_and_lose_the_result("postOnce")
    again = await office.post("postOnce")
    assert (again.data, again.display_text, office.accounts.tried) == (5, "found", 1)


async def test_failed_change_is_made_by_the_next_try(office: Office) -> None:
    office.accounts.fault = Transient("The bank is closed.")
    with pytest.raises(Transient):
        await office.post("postOnce", retries_left=1)
    assert (await office.post("postOnce")).data == 5
    assert office.accounts.tried == 2
    assert len(office.ledger.changes[("T1", "thread:T1:C1:1760000000.000100")]) == 1


async def test_change_before_a_fault_is_found_by_the_next_try(office: Office) -> None:
    office.accounts.fault = Transient("The line broke.")
    office.accounts.too_late = True
    with pytest.raises(Transient):
        await office.post("postOnce", retries_left=1)
    assert (await office.post("postOnce")).display_text == "found"
    assert office.accounts.tried == 1


async def test_long_wait_is_reported_instead_of_waited_out(office: Office) -> None:
    office.accounts.fault = NotDone("The bank limits the rate.", retry_after=MAX_RETRY_AFTER)
    with pytest.raises(NotDone):
        await office.post("postOnce", retries_left=2)
    office.accounts.fault = NotDone("The bank limits the rate.", retry_after=MAX_RETRY_AFTER + 1)
    result = await office.post("postOnce", retries_left=2)
    assert code_of(result) is ErrorCode.SERVICE_UNAVAILABLE
    assert f"{MAX_RETRY_AFTER + 1:.0f} seconds" in result.user_text


async def test_change_without_look_up_is_never_tried_again(office: Office) -> None:
    office.accounts.fault = Transient("The bank is closed.")
    result = await office.post("post", retries_left=5)
    assert code_of(result) is ErrorCode.OUTCOME_UNKNOWN
    assert "The bank is closed." in result.user_text


@pytest.mark.parametrize(
    "fault", [RuntimeError("boom"), Transient("The rate is limited.", retry_after=3600), None]
)
async def test_failed_look_up_leaves_the_outcome_unknown(
    office: Office, fault: Exception | None
) -> None:
    await office.fail_to_post_slowly()
    office.clock.advance(45)
    office.accounts.unreachable = fault
    office.accounts.hangs = fault is None
    assert code_of(await office.post("postSlowly", retries_left=1)) is ErrorCode.OUTCOME_UNKNOWN
    assert office.accounts.tried == 1


async def test_look_up_is_repeated_and_a_found_change_has_its_side_effects(office: Office) -> None:
    await office.post_and_lose_the_result("postSlowly")
    office.accounts.unreachable = Transient("The bank is closed.", retry_after=3)
    with pytest.raises(Transient, match="closed") as away:
        await office.post("postSlowly", retries_left=1)
    assert away.value.retry_after == 45
    office.accounts.unreachable = None
    found = await office.post("postSlowly")
    assert (found.display_text, found.notes) == ("found", ("[Side Effect] 5 was told",))
    assert await office.post("postSlowly") == found


async def test_look_up_that_fails_to_the_last_attempt_leaves_the_outcome_unknown(
    office: Office,
) -> None:
    """An approved call is retried without an end, and would be looked up for ever."""
    await office.post_and_lose_the_result("postSlowly")
    office.accounts.unreachable = Transient("The bank is closed.", retry_after=3)
    result = await office.post("postSlowly")
    assert result.error
    assert result.error.code is ErrorCode.OUTCOME_UNKNOWN
    assert await office.post("postSlowly") == result


async def test_missing_change_is_waited_for_before_it_is_made_again(office: Office) -> None:
    await office.fail_to_post_slowly()
    office.clock.advance(5)
    with pytest.raises(Transient) as early:
        await office.post("postSlowly", retries_left=1)
    assert early.value.retry_after == 40
    office.accounts.posted = dict.fromkeys(
        office.ledger.intents, 5
    )  # the first attempt arrives after all
    assert (await office.post("postSlowly")).display_text == "found"
    assert office.accounts.tried == 1


async def test_each_try_has_its_own_time_to_take_effect(office: Office) -> None:
    await office.fail_to_post_slowly()
    office.clock.advance(45)
    await office.fail_to_post_slowly()
    office.clock.advance(5)
    with pytest.raises(Transient) as early:
        await office.post("postSlowly", retries_left=1)
    assert (early.value.retry_after, office.accounts.tried) == (40, 2)


async def test_time_to_take_effect_is_counted_from_the_change_and_not_from_its_look_up(
    office: Office,
) -> None:
    await office.fail_to_post_slowly()
    office.clock.advance(45)
    office.accounts.slow = lambda: office.clock.advance(30)
    await office.fail_to_post_slowly()
    office.accounts.slow = lambda: None
    office.clock.advance(20)
    with pytest.raises(Transient) as early:
        await office.post("postSlowly", retries_left=1)
    assert (early.value.retry_after, office.accounts.tried) == (25, 2)


async def test_last_try_that_comes_too_early_makes_no_change(office: Office) -> None:
    await office.fail_to_post_slowly()
    office.clock.advance(1)
    assert code_of(await office.post("postSlowly")) is ErrorCode.OUTCOME_UNKNOWN
    assert office.accounts.tried == 1


async def test_undone_change_is_made_again_at_once(office: Office) -> None:
    office.accounts.fault = NotDone("The bank limits the rate.", retry_after=7)
    with pytest.raises(NotDone):
        await office.post("postSlowly", retries_left=1)
    assert (await office.post("postSlowly")).data == 5
    assert office.accounts.tried == 2


class OvertakenLedger(MemoryLedger):
    """Another attempt records its intent as soon as this one withdraws its own."""

    async def withdraw(
        self, tx: Transaction, call: LoggedCall, intent: CallIntent | EarlierIntent
    ) -> None:
        self.intents[call.operation.key] = intent.at + 45


async def test_change_is_left_to_a_faster_try(office: Office) -> None:
    await office.fail_to_post_slowly()
    office.clock.advance(45)
    ledger = OvertakenLedger()
    ledger.intents = office.ledger.intents
    office.use(ledger)
    with pytest.raises(Transient, match="under way"):
        await office.post("postSlowly")
    assert office.accounts.tried == 1


async def test_refused_call_leaves_no_intent(office: Office) -> None:
    await office.call("accounts.post", nothing=1)
    office.ledger.most = 0
    await office.call("accounts.post", amount=5)
    assert (office.ledger.intents, office.accounts.tried) == ({}, 0)
    assert [entry.status for entry in office.ledger.entries] == ["error", "error"]


async def test_fingerprint_is_the_same_only_for_the_same_question(office: Office) -> None:
    calls = [
        ("accounts.post", '{"amount":5}', "U1"),
        ("accounts_post", '{ "amount": 5 }', "U1"),
        ("accounts.post", '{"amount":6}', "U1"),
        ("accounts.post", '{"amount":5}', "U2"),
    ]
    for number, (name, arguments, user) in enumerate(calls):
        where = context(services=office.services, call_id=f"c{number}", user_id=user)
        await office.run(ToolCall(f"c{number}", name, arguments), where)
    one, same, *others = [entry.call.fingerprint for entry in office.ledger.entries]
    assert one == same
    assert len({one, *others}) == 3
