"""ToolRunner: runs one call of a tool, past every rule that may refuse it, and once."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, NamedTuple

import structlog
from pydantic import BaseModel

from threadline.db.engine import Transaction
from threadline.db.errors import translate_errors
from threadline.db.rate_limits import RateExceeded
from threadline.errors import InternalError, NotDone, Permanent, Transient
from threadline.models.model import ToolCall
from threadline.slack.users import UserDirectory
from threadline.tools.arguments import InvalidArguments, canonical_json, loggable_arguments, parse_arguments
from threadline.tools.context import Requester, ToolContext
from threadline.tools.model import CallIdReused, ErrorCode, Risk, ToolResult, error_result
from threadline.tools.output import fit_json, fit_result
from threadline.tools.policy import Assessment, CallFacts, CallRules, Verdict, WantedApproval, decide
from threadline.tools.proposals import HeldCall, Proposals
from threadline.tools.public_text import public_sentence
from threadline.tools.registry import MAX_NAME_LENGTH, AllowedTools, SideEffect, Tool, ToolRegistry
from threadline.tools.roles import RecordAccess, RecordRefused, RoleDirectory
from threadline.tools.store import CallIntent, LoggedCall, ToolLedger

MAX_CALLS = 20
"""Of one reply that are executed; the model is told that the others were not."""
MAX_RETRY_AFTER = 60.0
"""Seconds that a service may ask to wait before the call is tried again; of a longer wait the model is told instead."""
MAX_LOGGED_ARGUMENTS = 64 * 1024
"""Bytes of a call's arguments that are on record; the transcript has them whole."""
_SIDE_EFFECT_TIMEOUT = 10.0
"""Seconds for one side effect."""
_OVERTIME = 15.0
"""Seconds that a local tool's transaction may take beyond its tool: at its end it may wait ten for a lock."""
_NO_SIDE_EFFECT = "What should have followed was not done; the call itself was."
_NOT_FOR_THEM = "Say who may, and do not look it up in another way."
_REFUSED_BY_RULE = "A rule of this installation does not allow this change here."
_ASK_ADMIN = "Say so; the admin can change the rule."
_MAY_HAVE_CHANGED = "It is not known whether the change took effect."

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Invocation:
    """A call with its tool and its arguments, parsed. `written`: the arguments as the model wrote them."""

    tool: Tool
    arguments: BaseModel
    context: ToolContext
    written: str = ""

    @property
    def given(self) -> Mapping[str, Any]:
        """The arguments as JSON, which is parsed again when an approved call is made."""
        written = loggable_arguments(self.written)
        return written if isinstance(written, dict) else self.arguments.model_dump(mode="json")


ToolPolicy = Callable[[Invocation], ToolResult | None]
"""A rule of another feature: the refusal of a call, None if it may be made. It changes nothing: a proposed call is only
checked."""
OnResult = Callable[[Transaction, ToolResult], Awaitable[None]]


async def _nothing(_tx: Transaction, _result: ToolResult) -> None:
    pass


class OpenTransaction(NamedTuple):
    """A transaction in which the caller has read what it needed for the call; leaving `end` ends it."""

    tx: Transaction
    end: AsyncExitStack


class ToolRunner:
    """Args: `allowed` are the tools that may be called here. `policy` is asked once a call's arguments are valid."""

    def __init__(
        self, registry: ToolRegistry, allowed: AllowedTools, ledger: ToolLedger, policy: ToolPolicy | None = None
    ) -> None:
        self.registry = registry
        self._allowed = allowed
        self._ledger = ledger
        self._policy = policy

    async def check(self, call: ToolCall, context: ToolContext) -> Invocation | ToolResult:
        """Return the call as it would be made, or why it would be refused. Changes nothing. `call`: what the model
        said: a tool's own name or the provider's, and text that is meant to be JSON. Raises `Transient`: Slack does not
        say for now who asks, and the caller would try again."""
        return await _identify(self._check(self._parse(call, context), call))

    async def run(
        self,
        call: ToolCall,
        context: ToolContext,
        on_result: OnResult = _nothing,
        opened: OpenTransaction | None = None,
    ) -> ToolResult:
        """Make the call and record it. A call that is on record already is not made again: its result is returned.
        Whatever goes wrong with the call is in the result. No secret is, and no more than about 2 MB. Raises
        `Transient` only where trying the whole call again is safe, which Temporal does.

        Args:
            on_result: told of the result, also of one that was on record, in the transaction that records it. Where
                the tool has side effects, in a second one behind them.
            opened: the first transaction of the call. It is ended before Slack is asked who asks.
        """
        parsed = self._parse(call, context)
        checked = self._check(parsed, call)
        if opened and isinstance(checked, Invocation) and _must_ask_slack(checked):
            await opened.end.aclose()
            opened = None
        checked = await _identify(checked)
        logged = self._logged(call, context, parsed.arguments if isinstance(parsed, Invocation) else None)
        refusal = checked if isinstance(checked, ToolResult) else None
        invocation = checked if isinstance(checked, Invocation) else None
        record = _Record(self._ledger, logged, context, refusal, on_result, invocation)
        try:
            if isinstance(checked, Invocation) and not checked.tool.remote:
                result = await self._run_local(checked, record, opened)
            else:
                result = await self._run_remote(parsed, checked, record, opened)
        except CallIdReused:
            result = error_result(ErrorCode.REPEATED_CALL_ID)
            async with self._ledger.transaction() as tx:
                await on_result(tx, result)
            return result
        if not record.has_open_side_effects:
            return result
        # Also after a success that was on record or found.
        if isinstance(parsed, Invocation):
            notes = [await _note(handler, parsed, result) for handler in parsed.tool.side_effects]
            result = await _fit(replace(result, notes=(*result.notes, *filter(None, notes))))
        async with self._ledger.transaction() as tx:
            await self._ledger.complete(tx, record.call, result, context.clock().timestamp())
            await on_result(tx, result)
        return result

    def _parse(self, call: ToolCall, context: ToolContext) -> Invocation | ToolResult:
        tool = self.registry.get(call.name)
        if tool is None:
            return error_result(ErrorCode.UNKNOWN_TOOL)
        try:
            arguments = parse_arguments(tool.parameters, call.arguments)
            return Invocation(tool, arguments, context, call.arguments)
        except InvalidArguments as invalid:
            return error_result(ErrorCode.INVALID_ARGUMENTS, str(invalid))

    def _check(self, parsed: Invocation | ToolResult, call: ToolCall) -> Invocation | ToolResult:
        tool = self.registry.get(call.name)
        if tool and (refusal := self._allowed.refusal(tool)):
            return refusal
        if isinstance(parsed, ToolResult):
            return parsed
        return (self._policy and self._policy(parsed)) or parsed

    @asynccontextmanager
    async def _first_transaction(self, opened: OpenTransaction | None) -> AsyncIterator[Transaction]:
        if opened is None:
            async with self._ledger.transaction() as tx:
                yield tx
        else:
            async with opened.end.pop_all():
                yield opened.tx

    async def _run_local(self, invocation: Invocation, record: "_Record", opened: OpenTransaction | None) -> ToolResult:
        """What the tool does, its record and what `on_result` does are one transaction."""
        tool, context = invocation.tool, invocation.context
        try:
            async with self._first_transaction(opened) as tx:
                begun = await record.begin(tx, tool.timeout + _OVERTIME)
                if isinstance(begun, ToolResult):
                    return begun
                within = replace(context, transaction=tx, change_rate=self._ledger.rate)
                result = await _make_whole(replace(invocation, context=within)) if begun.new else _interrupted()
                return await record.finish(tx, result)
        except _Undone as undone:
            result = undone.result
        except _TimedOut:
            said = f"There was no answer within {tool.timeout:g} seconds, and nothing was changed."
            result = error_result(ErrorCode.TOOL_TIMEOUT, said)
        except Transient as fault:
            if context.retries_left > 0 and can_wait(fault):
                raise
            result = _unavailable(tool, fault)
        except InternalError as bug:
            result = _failed(tool, bug)
        async with self._ledger.transaction() as tx:  # the first one is rolled back: a failed call leaves nothing
            return await record.finish(tx, result)

    async def _run_remote(
        self,
        parsed: Invocation | ToolResult,
        checked: Invocation | ToolResult,
        record: "_Record",
        opened: OpenTransaction | None,
    ) -> ToolResult:
        """A change is recorded before it is made. An attempt that finds such an intent looks the effect up."""
        async with self._first_transaction(opened) as tx:
            begun = await record.begin(tx)
        if isinstance(begun, CallIntent) and not begun.new:
            identified = checked if isinstance(checked, Invocation) else _without_roles(parsed)
            if found := await _find_effect(identified, record.context, begun):
                return await record.finish_remote(found)
            # Two transactions: the first holds the record that another attempt may be about to make.
            async with self._ledger.transaction() as tx:
                await self._ledger.withdraw(tx, record.call, begun)
            async with self._ledger.transaction() as tx:
                begun = await record.begin(tx)
            if isinstance(begun, CallIntent) and not begun.new:
                raise Transient("Another attempt of this call is under way.")
        if isinstance(begun, ToolResult):
            return begun
        if isinstance(checked, ToolResult):
            raise TypeError("the ledger has begun a call that was refused")
        try:
            result = await _make(checked)
        except NotDone:
            async with self._ledger.transaction() as tx:
                await self._ledger.withdraw(tx, record.call, begun)
            raise
        except _TimedOut:
            said = f"There was no answer within {checked.tool.timeout:g} seconds."
            unknown = checked.tool.mutating
            code = ErrorCode.OUTCOME_UNKNOWN if unknown else ErrorCode.TOOL_TIMEOUT
            result = error_result(code, f"{said} {_MAY_HAVE_CHANGED}" if unknown else said)
        return await record.finish_remote(await _fit(result))

    def _logged(self, call: ToolCall, context: ToolContext, parsed: BaseModel | None) -> LoggedCall:
        """The call as the ledger knows it, be the tool known and the arguments valid or not."""
        tool = self.registry.get(call.name)
        name = tool.name if tool else str(fit_json(call.name, MAX_NAME_LENGTH).value)
        rate_key = ""
        if tool and tool.mutating and tool.remote:
            named = tool.rate_limit_key and parsed and tool.rate_limit_key(parsed)
            rate_key = named or f"thread:{context.thread.key}"
        shared = tool and tool.cache and tool.cache.shared
        scope = f"{context.team}/" if shared else f"{context.team}/{context.thread.key}/{context.user_id}"
        asked = canonical_json(parsed) if parsed else call.arguments
        question = json.dumps([scope, tool.name if tool else call.name, asked])
        return LoggedCall(
            operation=context.operation,
            request_id=context.request_id,
            user_id=context.user_id,
            tool_name=name,
            parameters=fit_json(loggable_arguments(call.arguments), MAX_LOGGED_ARGUMENTS).value,
            fingerprint=hashlib.sha256(question.encode()).hexdigest(),
            now=context.clock().timestamp(),
            changes=bool(tool and (tool.mutating or (tool.binds_record and not tool.remote))),
            voids_answers=bool(tool and tool.mutating and tool.toolset in self.registry.cached_toolsets),
            rate_key=rate_key,
            waits_for_rate=_waits_for_rate(context),
            cache_seconds=tool.cache.seconds if tool and tool.cache else 0.0,
            keep_result=tool is None or tool.keep_result,
            has_side_effects=bool(tool and tool.side_effects),
        )


class _Undone(Exception):
    """A local call has ended in an error: its transaction is rolled back, and `result` recorded in another."""

    def __init__(self, result: ToolResult) -> None:
        self.result = result


class _TimedOut(Exception):
    """The tool has used up its time. No `TimeoutError`, which a transaction takes for a database that is away."""


@dataclass
class _Record:
    """The record of one call, and who is told of its result. `invocation`: the call, unless it is refused."""

    ledger: ToolLedger
    call: LoggedCall
    context: ToolContext
    refusal: ToolResult | None
    on_result: OnResult
    invocation: Invocation | None = None
    start: float = field(default_factory=monotonic)
    has_open_side_effects: bool = False
    """The call is on record as a success, and nobody was told of it yet."""

    async def begin(self, tx: Transaction, seconds: float | None = None) -> ToolResult | CallIntent:
        """Begin the record. Returns the result of a call that is not to be made: it was made, or it is held."""
        self.call = replace(self.call, now=self.context.clock().timestamp())
        begun = await self.ledger.begin(tx, self.call, self.refusal, seconds)
        if isinstance(begun, ToolResult):
            await self.on_result(tx, begun)
            return begun
        if begun.result:
            self.has_open_side_effects = True
            return begun.result
        if begun.new and self.invocation and (held := await _hold(self.invocation, tx)):
            return await self.finish(tx, held)
        return begun

    async def finish(self, tx: Transaction, result: ToolResult) -> ToolResult:
        kept = await self._keep(tx, result)
        if not self.has_open_side_effects:
            await self.on_result(tx, kept)
        return kept

    async def finish_remote(self, result: ToolResult) -> ToolResult:
        """Keep the result also when nobody can be told of it: what was done elsewhere cannot be rolled back."""
        kept = None
        try:
            async with self.ledger.transaction() as tx:
                kept = await self._keep(tx, result)
                if not self.has_open_side_effects:
                    await self.on_result(tx, kept)
                return kept
        except Exception:
            if kept:
                async with self.ledger.transaction() as tx:
                    await self._keep(tx, result)
            raise

    async def _keep(self, tx: Transaction, result: ToolResult) -> ToolResult:
        now, milliseconds = self.context.clock().timestamp(), round((monotonic() - self.start) * 1000)
        kept = await self.ledger.finish(tx, self.call, result, now, milliseconds)
        self.has_open_side_effects = self.call.has_side_effects and kept.made
        return kept


def can_wait(fault: Transient) -> bool:
    """Whether a person who waits for the answer can wait for another attempt as well."""
    return (fault.retry_after or 0.0) <= MAX_RETRY_AFTER


def _waits_for_rate(context: ToolContext) -> bool:
    """Whether the call is tried again once its record may be changed: what was approved is done, if a minute later."""
    return bool(context.approved_action_id) and context.retries_left > 0


def _must_ask_slack(invocation: Invocation) -> bool:
    """Whether `_identify` asks Slack."""
    context, directory = invocation.context, invocation.context.services.get(RoleDirectory)
    if directory and not directory.is_known(_needed_roles(invocation, directory)):
        return True
    if not _needs_askers(invocation):
        return False
    users = context.services.get(UserDirectory)
    return users is not None and not all(map(users.is_cached, context.askers))


def _needs_askers(invocation: Invocation) -> bool:
    """Whether it must be known who asks: for the tool itself, or for a rule about people who are no members."""
    tool = invocation.tool
    if tool.identifies:
        return True
    rules = invocation.context.services.get(CallRules) or CallRules()
    return tool.acts and tool.risk is not Risk.LOW and rules.asks_for_members


async def _identify(checked: Invocation | ToolResult) -> Invocation | ToolResult:
    """Find out who asks and which roles they have, for a tool that has to know; returns a refusal where they may not
    use it, or nobody knows. Raises `Transient` when Slack does not say for now; nothing was done yet."""
    if isinstance(checked, ToolResult):
        return checked
    context = checked.context
    try:
        admitted = await _with_requester(checked)
        return admitted if isinstance(admitted, ToolResult) else await _with_roles(admitted)
    except Transient as fault:
        if context.retries_left > 0 and can_wait(fault):
            raise
        return error_result(ErrorCode.SERVICE_UNAVAILABLE, f"{fault} Nothing was done.")
    except Permanent as fault:
        return _failed(checked.tool, fault)


async def _with_requester(invocation: Invocation) -> Invocation | ToolResult:
    context = invocation.context
    if not _needs_askers(invocation):
        return invocation
    users = context.services[UserDirectory]
    are_members = await users.are_full_members(context.team, context.askers)
    if not invocation.tool.identifies:
        return replace(invocation, context=replace(context, members=are_members))
    user = await users.get(context.user_id)
    if invocation.tool.members_only and not are_members:
        return error_result(ErrorCode.NOT_ALLOWED, "Only full members of the workspace may use this.")
    return replace(invocation, context=replace(context, identified=Requester(user, are_members), members=are_members))


async def _with_roles(invocation: Invocation) -> Invocation | ToolResult:
    """Check that everybody who asks may see, and change, the records of the tool. Raises `Permanent`: nobody can say
    who has which role."""
    tool, context = invocation.tool, invocation.context
    if not tool.all_records and not _named_roles(invocation):
        return invocation
    directory = context.services[RoleDirectory]
    to_decide = directory.roles.needed(tool.records, to_change=tool.mutating) | _named_roles(invocation)
    held = await directory.held_by(context.askers, context.channel, to_decide)
    to_see = _needed_roles(invocation, directory) - to_decide
    held |= await directory.held_where_shown(context.askers, context.channel, to_see)
    if refusal := directory.roles.refusal(tool.records, held, to_change=tool.mutating):
        return error_result(ErrorCode.NOT_ALLOWED, refusal, _NOT_FOR_THEM)
    by_some = await directory.held_by_some(context.askers, context.channel, _named_roles(invocation))
    access = RecordAccess(tool.all_records, directory.roles, held)
    return replace(invocation, context=replace(context, roles=held, some_roles=by_some, access=access))


def _without_roles(parsed: Invocation | ToolResult) -> Invocation | ToolResult:
    """An invocation whose askers could not be identified: they see what is for everybody."""
    directory = None if isinstance(parsed, ToolResult) else parsed.context.services.get(RoleDirectory)
    if isinstance(parsed, ToolResult) or directory is None:
        return parsed
    access = RecordAccess(parsed.tool.all_records, directory.roles, frozenset())
    return replace(parsed, context=replace(parsed.context, access=access))


def _needed_roles(invocation: Invocation, directory: RoleDirectory) -> frozenset[str]:
    """The groups that the rights to the tool's records and the rules of the policy depend on."""
    tool = invocation.tool
    return directory.roles.needed(tool.all_records, to_change=tool.mutating) | _named_roles(invocation)


def _named_roles(invocation: Invocation) -> frozenset[str]:
    """The groups that rules of the policy name, for a tool that they decide about."""
    rules = invocation.context.services.get(CallRules) if invocation.tool.acts else None
    return rules.roles if rules else frozenset()


async def _hold(invocation: Invocation, tx: Transaction) -> ToolResult | None:
    """Return why a call is not made now: it waits for an approval, or is refused. None: make it.

    Every call passes here, whoever makes it, in the transaction that has begun its record. Raises
    `Transient`: what it would change cannot be read.
    """
    tool = invocation.tool
    if not tool.acts:
        return None
    within = replace(invocation, context=replace(invocation.context, transaction=tx))
    try:
        with translate_errors():
            assessed = await tool.assessed(within.context, invocation.arguments)
        return await _judge(within, assessed)
    except Permanent as fault:
        return _failed(tool, fault)


async def _judge(invocation: Invocation, assessed: Assessment) -> ToolResult | None:
    """Decide by the rules, as `_hold`. Raises `Permanent`: nobody may approve the call here."""
    tool, context = invocation.tool, invocation.context
    wanted = context.wanted or WantedApproval("")
    risk = wanted.risk if wanted.risk.exceeds(assessed.risk) else assessed.risk
    rules = (context.services.get(CallRules) or CallRules()).rules
    facts = CallFacts(
        tool.name,
        risk,
        context.channel,
        context.roles,
        context.some_roles,
        members=context.members,
        wanted=bool(context.wanted),
    )
    verdict = decide(rules, facts)
    if verdict is Verdict.REFUSE:
        return error_result(ErrorCode.NOT_ALLOWED, _REFUSED_BY_RULE, _ASK_ADMIN)
    if context.approved_action_id:
        return None if assessed.changes == context.approved_changes else _record_changed(assessed)
    if verdict is Verdict.MAKE:
        return None
    return await _propose(invocation, replace(assessed, risk=risk), wanted)


async def _propose(invocation: Invocation, assessed: Assessment, wanted: WantedApproval) -> ToolResult:
    tool, context = invocation.tool, invocation.context
    proposals = context.services.get(Proposals)
    if proposals is None:
        said = f"This has {assessed.risk} risk and needs an approval, which is not available here."
        return error_result(ErrorCode.REFUSED, f"{said} Nothing was done.")
    held = HeldCall(
        tool.name,
        tool.does,
        invocation.given,
        assessed,
        wanted.reason or str(getattr(invocation.arguments, "reason", "")),
        wanted.rfp_id,
        context.actor,
        context.co_requesters,
    )
    return await proposals.propose(context.tx, context.change, held)


def _record_changed(assessed: Assessment) -> ToolResult:
    """The refusal of an approved call whose card showed other values than the record has now."""
    names = ", ".join(each.field.replace("_", " ") for each in assessed.changes)
    said = f"This was changed after the proposal was made: {names}." if names else "It is so already."
    return error_result(ErrorCode.REFUSED, f"{said} Nothing was done.", "Please ask for it again.")


async def _make_whole(invocation: Invocation) -> ToolResult:
    """Make a local call, or nothing of it. Raises `_Undone` when it has ended in an error."""
    result = await _fit(await _make(invocation))
    if result.error:
        raise _Undone(result)
    return result


async def _make(invocation: Invocation) -> ToolResult:
    limit = asyncio.timeout(invocation.tool.timeout)
    try:
        async with limit:
            return await _perform(invocation)
    except TimeoutError as late:
        if limit.expired():
            raise _TimedOut from late
        raise


async def _perform(invocation: Invocation) -> ToolResult:
    """Run the tool's function; whatever it raises becomes a result. Raises `Transient`: as the tool did, if it is
    local, or if the caller will try again, need not wait long for it, and nothing can be done twice by it."""
    tool, context = invocation.tool, invocation.context
    try:
        with nullcontext() if tool.remote else translate_errors():
            answer = await tool.call(context, invocation.arguments)
    except Transient as fault:
        if not tool.remote or (context.retries_left > 0 and can_wait(fault) and (not tool.mutating or tool.look_up)):
            raise
        return _unavailable(tool, fault)
    except RateExceeded as often:
        if _waits_for_rate(context):
            rate = context.change_rate
            raise Transient(str(often), retry_after=rate.seconds if rate else None) from often
        return error_result(ErrorCode.TOO_MANY_CHANGES, str(often))
    except Exception as error:  # noqa: BLE001 - whatever it is, the turn goes on
        return _failed(tool, error)
    return answer if isinstance(answer, ToolResult) else ToolResult(data=answer)


async def _find_effect(parsed: Invocation | ToolResult, context: ToolContext, intent: CallIntent) -> ToolResult | None:
    """Return what an earlier attempt did, or that nobody knows; None when it certainly did nothing. Raises `Transient`:
    it cannot be looked up for now, or is not there yet and may be on its way; another attempt comes."""
    if isinstance(parsed, ToolResult):  # the tool is gone, or takes other arguments now
        return _interrupted()
    tool = parsed.tool
    rest = max(0.0, min(tool.settle_seconds, intent.at + tool.settle_seconds - context.clock().timestamp()))
    try:
        found = await _look_up(parsed)
    except Transient as fault:
        if context.retries_left > 0 and can_wait(fault):
            raise Transient(str(fault), retry_after=max(rest, fault.retry_after or 0.0) or None) from fault
        found = error_result(ErrorCode.OUTCOME_UNKNOWN, f"{fault} {_MAY_HAVE_CHANGED}")
    else:
        if rest and not (found and found.success):
            if context.retries_left > 0:
                raise Transient("An earlier attempt may still take effect.", retry_after=rest)
            found = found or _interrupted()
    return await _fit(found) if found else None


async def _look_up(invocation: Invocation) -> ToolResult | None:
    tool = invocation.tool
    if tool.look_up is None:
        return _interrupted()
    try:
        async with asyncio.timeout(tool.timeout):
            return await tool.look_up(invocation.context, invocation.arguments)
    except Transient:
        raise
    except TimeoutError:
        return _interrupted()
    except Exception:  # noqa: BLE001 - logged; what is not known must not be done again
        _log.exception("effect_lookup_failed", tool=tool.name)
        return error_result(ErrorCode.OUTCOME_UNKNOWN)


async def _fit(result: ToolResult) -> ToolResult:
    """Bound and redact a result, in a thread: a large one takes seconds, in which others are to be served."""
    return await asyncio.to_thread(fit_result, result)


async def _note(handler: SideEffect, invocation: Invocation, result: ToolResult) -> str | None:
    try:
        async with asyncio.timeout(_SIDE_EFFECT_TIMEOUT):
            said = await handler(invocation.context, invocation.arguments, result)
    except Exception as error:  # noqa: BLE001 - the call itself was a success and stays one
        if isinstance(error, Permanent | Transient) and not isinstance(error, InternalError):
            return f"[Side Effect Error] {public_sentence(str(error), _NO_SIDE_EFFECT)}"
        _log.error("side_effect_failed", tool=invocation.tool.name, exc_info=error)
        return f"[Side Effect Error] {_NO_SIDE_EFFECT}"
    return f"[Side Effect] {said}" if said else None


def _failed(tool: Tool, error: Exception) -> ToolResult:
    """A refusal in its words, without names of settings, which the log has; the words of anything else could hold what
    nobody may see, and go to the log alone."""
    if isinstance(error, RecordRefused):
        return error_result(ErrorCode.NOT_ALLOWED, str(error), _NOT_FOR_THEM)
    if isinstance(error, Permanent) and not isinstance(error, InternalError):
        _log.info("tool_refused", tool=tool.name, reason=str(error))
        return error_result(ErrorCode.REFUSED, str(error))
    _log.error("tool_failed", tool=tool.name, exc_info=error)
    return error_result(ErrorCode.TOOL_EXECUTION_FAILED)


def _unavailable(tool: Tool, fault: Transient) -> ToolResult:
    if tool.mutating and tool.remote and not isinstance(fault, NotDone):
        return error_result(ErrorCode.OUTCOME_UNKNOWN, f"{fault} {_MAY_HAVE_CHANGED}")
    wait = f"Try again in {fault.retry_after:.0f} seconds." if fault.retry_after else ""
    return error_result(ErrorCode.SERVICE_UNAVAILABLE, str(fault), wait)


def _interrupted() -> ToolResult:
    return error_result(ErrorCode.OUTCOME_UNKNOWN, "An earlier try was interrupted: it may have taken effect or not.")
