"""What was done is on record and is not done again."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.tool_fakes import Clock, MemoryCache, MemoryLimit, MemoryLog, context
from threadline.errors import Permanent, Transient, Undone
from threadline.models.model import ToolCall
from threadline.tools.access import allowed
from threadline.tools.calls import LONGEST_WAIT, Run
from threadline.tools.context import Port, Ports, ToolContext
from threadline.tools.ledger import Entry, Intent
from threadline.tools.model import Code, ToolResult
from threadline.tools.registry import Registry, Success, tool
from threadline.tools.runner import Guards, pipeline

LOST = Transient("The record cannot be reached.")


@dataclass
class Accounts:
    """Postings by operation key. `fault` is raised by the next posting, before or after it is made."""

    posted: dict[str, int] = field(default_factory=dict)
    tried: int = 0
    fault: Exception | None = None
    too_late: bool = False
    unreachable: Exception | None = None
    hangs: bool = False

    def post(self, key: str, amount: int) -> None:
        self.tried += 1
        fault, self.fault = self.fault, None
        if fault and not self.too_late:
            raise fault
        self.posted[key] = amount
        if fault:
            raise fault


ACCOUNTS = Port[Accounts]("Accounts", "")


@tool("accounts.post", "Post an amount.", mutating=True)
async def post(context: ToolContext, *, amount: int) -> int:
    context.ports[ACCOUNTS].post(context.operation_key, amount)
    return amount


async def _find(context: ToolContext, given: object) -> ToolResult | None:
    accounts = context.ports[ACCOUNTS]
    if accounts.unreachable:
        raise accounts.unreachable
    if accounts.hangs:
        await asyncio.Event().wait()
    amount = accounts.posted.get(context.operation_key)
    return None if amount is None else ToolResult(data=amount, display_text="found")


@tool("accounts.postOnce", "Post an amount; knows how to look it up.", mutating=True, look_up=_find)
async def post_once(context: ToolContext, *, amount: int) -> int:
    context.ports[ACCOUNTS].post(context.operation_key, amount)
    return amount


async def _tell(success: Success) -> str:
    return f"{success.arguments.amount} was told"


@tool(
    "accounts.postSlowly",
    "Post an amount; the bank may take its time.",
    mutating=True,
    look_up=_find,
    timeout=0.05,
    settles=45,
    side_effects=(_tell,),
)
async def post_slowly(context: ToolContext, *, amount: int) -> int:
    context.ports[ACCOUNTS].post(context.operation_key, amount)
    return amount


@tool("accounts.total", "The sum.")
async def total(context: ToolContext) -> int:
    context.ports[ACCOUNTS].tried += 1
    return sum(context.ports[ACCOUNTS].posted.values())


REGISTRY = Registry([post, post_once, post_slowly, total])


class Office:
    def __init__(self) -> None:
        self.accounts, self.log, self.limit, self.clock = Accounts(), MemoryLog(), MemoryLimit(100), Clock()
        self.ports = Ports().having(ACCOUNTS, self.accounts)
        self.open()

    def open(self) -> None:
        everything = allowed(REGISTRY, self.ports, read_only=False)
        self.run: Run = pipeline(REGISTRY, everything, Guards(self.log, self.limit, MemoryCache()))

    async def call(self, name: str, retries_left: int = 0, call_id: str = "c1", **given: int) -> ToolResult:
        where = context(ports=self.ports, retries_left=retries_left, call_id=call_id, clock=self.clock)
        return await self.run(ToolCall(call_id, name, json.dumps(given)), where)


@pytest.mark.parametrize("name", ["accounts.post", "accounts.total"])
async def test_a_call_that_is_asked_for_again_gives_what_is_on_record(name: str) -> None:
    office = Office()
    given: dict[str, Any] = {"amount": 5} if name == "accounts.post" else {}
    first = await office.call(name, **given)
    assert await office.call(name, **given) == first
    assert office.accounts.tried == 1
    assert len(office.log.entries) == 1


async def test_a_call_on_record_says_whose_it_was_and_how_long_it_took() -> None:
    office = Office()
    await office.call("accounts.post", amount=5)
    (entry,) = office.log.entries
    assert (entry.tool, entry.arguments, entry.result) == ("accounts.post", {"amount": 5}, ToolResult(data=5))
    assert (entry.context.turn, entry.context.step, entry.context.call_id) == (1, 1, "c1")
    assert entry.milliseconds is not None
    assert entry.milliseconds >= 0


async def test_a_call_id_that_stands_for_another_call_is_told() -> None:
    office = Office()
    await office.call("accounts.post", amount=5)
    second = await office.call("accounts.post", amount=6)
    assert second.error
    assert second.error.code is Code.REPEATED_CALL_ID
    assert list(office.accounts.posted.values()) == [5]


async def test_a_change_whose_record_was_lost_is_not_made_again() -> None:
    office = Office()
    office.log.lost = LOST
    with pytest.raises(Transient):
        await office.call("accounts.post", amount=5)
    again = await office.call("accounts.post", amount=5)
    assert again.error
    assert again.error.code is Code.OUTCOME_UNKNOWN
    assert "Check before repeating it." in again.text
    assert office.accounts.tried == 1
    assert await office.call("accounts.post", amount=5) == again, "the unknown outcome is on record, too"


async def test_a_change_whose_record_was_lost_is_looked_up() -> None:
    office = Office()
    office.log.lost = LOST
    with pytest.raises(Transient):
        await office.call("accounts.postOnce", amount=5)
    again = await office.call("accounts.postOnce", amount=5)
    assert (again.data, again.display_text) == (5, "found")
    assert office.accounts.tried == 1


async def test_a_change_that_was_certainly_not_made_is_made_by_the_next_try() -> None:
    office = Office()
    office.accounts.fault = Transient("The bank is closed.")
    with pytest.raises(Transient):
        await office.call("accounts.postOnce", retries_left=1, amount=5)
    assert (await office.call("accounts.postOnce", amount=5)).data == 5
    assert office.accounts.tried == 2
    assert len(office.limit.seen[("T1", "thread:T1:C1:1760000000.000100")]) == 1


async def test_a_fault_after_the_change_is_found_out_by_the_next_try() -> None:
    office = Office()
    office.accounts.fault, office.accounts.too_late = Transient("The line broke."), True
    with pytest.raises(Transient):
        await office.call("accounts.postOnce", retries_left=1, amount=5)
    assert (await office.call("accounts.postOnce", amount=5)).display_text == "found"
    assert office.accounts.tried == 1


async def test_a_change_that_the_other_side_surely_did_not_make_is_said_so() -> None:
    office = Office()
    office.accounts.fault = Undone("The bank limits the rate.", retry_after=7)
    result = await office.call("accounts.post", amount=5)
    assert result.error
    assert result.error.code is Code.SERVICE_UNAVAILABLE
    assert "7 seconds" in result.text


@pytest.mark.parametrize(("pause", "tried_again"), [(LONGEST_WAIT, True), (LONGEST_WAIT + 1, False)])
async def test_nobody_waits_long_in_the_middle_of_a_turn(pause: float, tried_again: bool) -> None:
    office = Office()
    office.accounts.fault = Undone("The bank limits the rate.", retry_after=pause)
    if tried_again:
        with pytest.raises(Transient):
            await office.call("accounts.postOnce", retries_left=2, amount=5)
    else:
        assert not (await office.call("accounts.postOnce", retries_left=2, amount=5)).success


async def test_a_change_that_nobody_can_look_up_is_never_tried_again() -> None:
    office = Office()
    office.accounts.fault = Transient("The bank is closed.")
    result = await office.call("accounts.post", retries_left=5, amount=5)
    assert result.error
    assert result.error.code is Code.OUTCOME_UNKNOWN
    assert result.error.message == "The bank is closed. It is not known whether the change took effect."


@pytest.mark.parametrize("fault", [Permanent("No."), RuntimeError("boom")])
async def test_an_effect_that_cannot_be_looked_up_stays_unknown(fault: Exception) -> None:
    office = Office()
    office.log.lost = LOST
    with pytest.raises(Transient):
        await office.call("accounts.postOnce", amount=5)
    office.accounts.unreachable = fault
    result = await office.call("accounts.postOnce", amount=5)
    assert result.error
    assert result.error.code is Code.OUTCOME_UNKNOWN
    assert office.accounts.tried == 1


async def test_while_the_effect_cannot_be_looked_up_for_now_the_caller_tries_again() -> None:
    office = Office()
    office.log.lost = LOST
    with pytest.raises(Transient):
        await office.call("accounts.postOnce", amount=5)
    office.accounts.unreachable = Transient("The bank is closed.")
    with pytest.raises(Transient):
        await office.call("accounts.postOnce", amount=5)
    office.accounts.unreachable = None
    assert (await office.call("accounts.postOnce", amount=5)).display_text == "found"


async def test_an_effect_that_can_be_looked_up_in_an_hour_stays_unknown() -> None:
    office = Office()
    office.log.lost = LOST
    with pytest.raises(Transient):
        await office.call("accounts.postOnce", amount=5)
    office.accounts.unreachable = Transient("The bank limits the rate.", retry_after=3600)
    result = await office.call("accounts.postOnce", retries_left=2, amount=5)
    assert result.error
    assert result.error.code is Code.OUTCOME_UNKNOWN


async def broken_off(office: Office) -> None:
    """A slow posting whose line broke, and which the bank may make yet."""
    office.accounts.fault = Transient("The line broke.")
    with pytest.raises(Transient):
        await office.call("accounts.postSlowly", retries_left=2, amount=5)


async def test_a_change_that_is_not_there_yet_is_waited_for_before_it_is_made_again() -> None:
    office = Office()
    await broken_off(office)
    office.clock.advance(5)
    with pytest.raises(Transient) as early:
        await office.call("accounts.postSlowly", retries_left=1, amount=5)
    assert early.value.retry_after == 40
    office.accounts.posted = dict.fromkeys(office.log.intents, 5)  # the first try comes through after all
    assert (await office.call("accounts.postSlowly", amount=5)).display_text == "found"
    assert office.accounts.tried == 1


async def test_what_follows_from_a_change_follows_also_when_it_was_found() -> None:
    office = Office()
    office.log.lost = LOST
    with pytest.raises(Transient):
        await office.call("accounts.postSlowly", amount=5)
    found = await office.call("accounts.postSlowly", amount=5)
    assert (found.display_text, found.notes) == ("found", ("[Side Effect] 5 was told",))
    assert await office.call("accounts.postSlowly", amount=5) == found


async def test_while_a_slow_service_is_away_its_time_is_waited_for_too() -> None:
    office = Office()
    await broken_off(office)
    office.accounts.unreachable = Transient("The bank is closed.", retry_after=3)
    with pytest.raises(Transient, match="closed") as away:
        await office.call("accounts.postSlowly", retries_left=1, amount=5)
    assert away.value.retry_after == 45


async def test_each_try_that_makes_the_change_has_its_own_time_to_take_effect() -> None:
    office = Office()
    await broken_off(office)
    office.clock.advance(45)
    await broken_off(office)
    office.clock.advance(5)
    with pytest.raises(Transient) as early:
        await office.call("accounts.postSlowly", retries_left=1, amount=5)
    assert early.value.retry_after == 40
    assert office.accounts.tried == 2


async def test_a_last_try_that_comes_too_early_to_know_does_not_make_the_change() -> None:
    office = Office()
    await broken_off(office)
    office.clock.advance(1)
    result = await office.call("accounts.postSlowly", amount=5)
    assert result.error
    assert result.error.code is Code.OUTCOME_UNKNOWN
    assert office.accounts.tried == 1


async def test_a_change_that_the_other_side_surely_did_not_make_is_made_at_once() -> None:
    office = Office()
    office.accounts.fault = Undone("The bank limits the rate.", retry_after=7)
    with pytest.raises(Undone):
        await office.call("accounts.postSlowly", retries_left=1, amount=5)
    assert (await office.call("accounts.postSlowly", amount=5)).data == 5
    assert office.accounts.tried == 2


async def test_a_change_that_another_try_is_about_to_make_is_left_to_it() -> None:
    office = Office()
    await broken_off(office)
    office.clock.advance(45)

    class Overtaken(MemoryLog):
        """Another try is a moment faster."""

        async def withdraw(self, entry: Entry, intent: Intent) -> None:
            self.intents[entry.context.operation_key] = intent.at + 45

    log = Overtaken()
    log.intents = office.log.intents
    office.log = log
    office.open()
    with pytest.raises(Transient, match="under way"):
        await office.call("accounts.postSlowly", amount=5)
    assert office.accounts.tried == 1


async def test_a_look_that_never_ends_leaves_the_outcome_unknown() -> None:
    office = Office()
    await broken_off(office)
    office.clock.advance(45)
    office.accounts.hangs = True
    result = await office.call("accounts.postSlowly", retries_left=1, amount=5)
    assert result.error
    assert result.error.code is Code.OUTCOME_UNKNOWN
    assert office.accounts.tried == 1


async def test_what_is_refused_before_it_runs_leaves_no_intent() -> None:
    office = Office()
    await office.call("accounts.post", nothing=1)
    office.limit.most = 0
    await office.call("accounts.post", call_id="c2", amount=5)
    assert office.log.intents == {}
    assert office.accounts.tried == 0
    assert [entry.status for entry in office.log.entries] == ["error", "error"]


async def test_the_fingerprint_is_the_same_for_the_same_question_alone() -> None:
    office = Office()
    await office.run(ToolCall("a", "accounts.post", '{"amount":5}'), context(ports=office.ports, call_id="a"))
    await office.run(ToolCall("b", "accounts_post", '{ "amount": 5 }'), context(ports=office.ports, call_id="b"))
    await office.run(ToolCall("c", "accounts.post", '{"amount":6}'), context(ports=office.ports, call_id="c"))
    await office.run(
        ToolCall("d", "accounts.post", '{"amount":5}'), context(ports=office.ports, call_id="d", user_id="U2")
    )
    one, same, *others = [entry.key.fingerprint for entry in office.log.entries]
    assert one == same
    assert len({one, *others}) == 3
