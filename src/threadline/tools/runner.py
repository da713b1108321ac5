"""ToolRunner: runs one tool call, at most once and only if every rule allows it."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import structlog
from pydantic import BaseModel

from threadline.db.engine import Transaction
from threadline.db.errors import translate_errors
from threadline.db.rate_limits import RateExceeded
from threadline.errors import InternalError, NotDone, Permanent, Transient
from threadline.models.model import ToolCall
from threadline.slack.users import UserDirectory
from threadline.tools.arguments import (
    InvalidArguments,
    canonical_json,
    loggable_arguments,
    parse_arguments,
)
from threadline.tools.context import Requester, ToolContext
from threadline.tools.model import CallIdReused, ErrorCode, Risk, ToolResult, error_result
from threadline.tools.output import fit_json, fit_result
from threadline.tools.policy import (
    Assessment,
    CallFacts,
    CallRules,
    Verdict,
    WantedApproval,
    decide,
)
from threadline.tools.proposals import HeldCall, Proposals
from threadline.tools.public_text import public_sentence
from threadline.tools.registry import MAX_NAME_LENGTH, AllowedTools, SideEffect, Tool, ToolRegistry
from threadline.tools.roles import RecordAccess, RecordRefused, RoleDirectory
from threadline.tools.store import CallIntent, EarlierIntent, LoggedCall, OpenResult, ToolLedger

MAX_CALLS = 20
"""Calls of one reply that are executed; the model learns that the others were not."""
MAX_RETRY_AFTER = 60.0
"""Seconds that a service may ask to wait before a retry; a longer wait is an answer for the model
instead.
"""
MAX_LOGGED_ARGUMENTS = 64 * 1024
"""Bytes of a call's arguments on record; the transcript has them whole."""
_SIDE_EFFECT_TIMEOUT = 10.0
"""Seconds for one side effect."""
_OVERTIME = 15.0
"""Seconds that a local tool's transaction may take beyond its tool: its end may wait ten seconds
for a lock.
"""
_NO_SIDE_EFFECT = "The call succeeded, but its side effect failed."
_NOT_FOR_THEM = "Say who may do this, and do not look it up in another way."
_REFUSED_BY_RULE = "A rule of this installation does not allow this change here."
_ASK_ADMIN = "Say so; the admin can change the rule."
_MAY_HAVE_CHANGED = "It is not known whether the change took effect."

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Invocation:
    """A call with its tool and its parsed arguments. `written`: the arguments as the model wrote
    them.
    """

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
"""A rule of another feature: returns the refusal of a call, or None if it may be made. It changes
nothing, since a proposed call is only checked.
"""
OnResult = Callable[[Transaction, ToolResult], Awaitable[None]]
Intent = TypeVar("Intent", bound=CallIntent | EarlierIntent)


async def _nothing(_tx: Transaction, _result: ToolResult) -> None:
    pass


class OpenTransaction(NamedTuple):
    """A transaction in which the caller has already read its data for the call; closing `end` ends
    it.
    """

    tx: Transaction
    end: AsyncExitStack


class ToolRunner:
    """Runs the tool calls of a turn.

    Args:
        allowed: the tools that may be called here.
        policy: consulted after a call's arguments have been validated.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        allowed: AllowedTools,
        ledger: ToolLedger,
        policy: ToolPolicy | None = None,
    ) -> None:
        self.registry = registry
        self._allowed = allowed
        self._ledger = ledger
        self._policy = policy

    async def check(self, call: ToolCall, context: ToolContext) -> Invocation | ToolResult:
        """Return the call in the form in which it would run, or its refusal. Changes nothing.

        Args:
            call: the model's call: a tool's own name or the provider's, and text that should be
                JSON.

        Raises:
            Transient: Slack cannot identify the requesters at the moment, and the caller would
                retry.
        """
        return await _identify(self._check(self._parse(call, context), call))

    async def run(
        self,
        call: ToolCall,
        context: ToolContext,
        on_result: OnResult = _nothing,
        opened: OpenTransaction | None = None,
    ) -> ToolResult:
        """Make the call and record it; a call on record is not repeated, and its recorded result
        is returned.

        Failures of the call are part of the result. The result contains no secrets and at most
        about 2 MB.

        Args:
            on_result: gets the result, including one on record, in the transaction that records
                it. If the tool has side effects, it runs in a second transaction, after them.
            opened: the first transaction of the call. It ends before a request to Slack about the
                requesters.

        Raises:
            Transient: the whole call can safely be retried, which Temporal does.
        """
        parsed = self._parse(call, context)
        checked = self._check(parsed, call)
        if opened and isinstance(checked, Invocation) and _must_ask_slack(checked):
            await opened.end.aclose()
            opened = None
        checked = await _identify(checked)
        logged = self._logged(
            call, context, parsed.arguments if isinstance(parsed, Invocation) else None
        )
        record = _Record(self._ledger, logged, context, on_result)
        try:
            if isinstance(checked, ToolResult):
                recorded = await self._refuse(parsed, checked, record, opened)
            elif checked.tool.remote:
                recorded = await self._run_remote(checked, record, opened)
            else:
                recorded = await self._run_local(checked, record, opened)
        except CallIdReused:
            result = error_result(ErrorCode.REPEATED_CALL_ID)
            async with self._ledger.transaction() as tx:
                await on_result(tx, result)
            return result
        result = recorded.result
        if not recorded.side_effects_due:
            return result
        # Also after a success that was on record or looked up.
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
    async def _first_transaction(
        self, opened: OpenTransaction | None
    ) -> AsyncIterator[Transaction]:
        if opened is None:
            async with self._ledger.transaction() as tx:
                yield tx
        else:
            async with opened.end.pop_all():
                yield opened.tx

    async def _run_local(
        self, invocation: Invocation, record: "_Record", opened: OpenTransaction | None
    ) -> "_Recorded":
        """Run a tool, its record and `on_result` in one transaction."""
        tool = invocation.tool
        context = invocation.context
        try:
            async with self._first_transaction(opened) as tx:
                begun = await record.begin(tx, invocation, tool.timeout + _OVERTIME)
                if isinstance(begun, _Recorded):
                    return begun
                if isinstance(begun, EarlierIntent):
                    return await record.finish(tx, _interrupted())
                within = replace(context, transaction=tx, change_rate=self._ledger.rate)
                result = await _make_whole(replace(invocation, context=within))
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
        # the first transaction is rolled back: a failed call leaves nothing
        async with self._ledger.transaction() as tx:
            return await record.finish(tx, result)

    async def _run_remote(
        self, invocation: Invocation, record: "_Record", opened: OpenTransaction | None
    ) -> "_Recorded":
        """Record a change before making it. An attempt that finds such an intent looks up the
        effect.
        """
        async with self._first_transaction(opened) as tx:
            begun = await record.begin(tx, invocation)
        if isinstance(begun, EarlierIntent):
            if recorded := await self._record_effect(invocation, record, begun):
                return recorded
            async with self._ledger.transaction() as tx:
                begun = await record.begin(tx, invocation)
        if isinstance(begun, _Recorded):
            return begun
        if isinstance(begun, EarlierIntent):
            raise _under_way()
        try:
            result = await _make(invocation)
        except NotDone:
            async with self._ledger.transaction() as tx:
                await self._ledger.withdraw(tx, record.call, begun)
            raise
        except _TimedOut:
            said = f"There was no answer within {invocation.tool.timeout:g} seconds."
            unknown = invocation.tool.mutating
            code = ErrorCode.OUTCOME_UNKNOWN if unknown else ErrorCode.TOOL_TIMEOUT
            result = error_result(code, f"{said} {_MAY_HAVE_CHANGED}" if unknown else said)
        return await record.finish_remote(await _fit(result))

    async def _refuse(
        self,
        parsed: Invocation | ToolResult,
        refusal: ToolResult,
        record: "_Record",
        opened: OpenTransaction | None,
    ) -> "_Recorded":
        """Record the refusal of a call, unless an earlier attempt has made it."""
        async with self._first_transaction(opened) as tx:
            begun = await record.refuse(tx, refusal)
        if isinstance(begun, EarlierIntent):
            identified = _without_roles(parsed)
            if recorded := await self._record_effect(identified, record, begun):
                return recorded
            async with self._ledger.transaction() as tx:
                begun = await record.refuse(tx, refusal)
        if isinstance(begun, EarlierIntent):
            raise _under_way()
        return begun

    async def _record_effect(
        self, parsed: Invocation | ToolResult, record: "_Record", intent: EarlierIntent
    ) -> "_Recorded | None":
        """Look up and record the effect of an earlier attempt. If there is none, withdraw its
        intent and return None.
        """
        if found := await _find_effect(parsed, record.context, intent):
            return await record.finish_remote(found)
        # A transaction of its own: the next one creates the record that another attempt may want
        # to create.
        async with self._ledger.transaction() as tx:
            await self._ledger.withdraw(tx, record.call, intent)
        return None

    def _logged(
        self, call: ToolCall, context: ToolContext, parsed: BaseModel | None
    ) -> LoggedCall:
        """Return the call in the ledger's form, even for an unknown tool or invalid arguments."""
        tool = self.registry.get(call.name)
        name = tool.name if tool else str(fit_json(call.name, MAX_NAME_LENGTH).value)
        rate_key = ""
        if tool and tool.mutating and tool.remote:
            named = tool.rate_limit_key and parsed and tool.rate_limit_key(parsed)
            rate_key = named or f"thread:{context.thread.key}"
        shared = tool and tool.cache and tool.cache.shared
        scope = (
            f"{context.team}/"
            if shared
            else f"{context.team}/{context.thread.key}/{context.user_id}"
        )
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
            voids_answers=bool(
                tool and tool.mutating and tool.toolset in self.registry.cached_toolsets
            ),
            rate_key=rate_key,
            waits_for_rate=_waits_for_rate(context),
            cache_seconds=tool.cache.seconds if tool and tool.cache else 0.0,
            keep_result=tool is None or tool.keep_result,
            has_side_effects=bool(tool and tool.side_effects),
        )


class _Undone(Exception):
    """A local call has ended in an error: its transaction is rolled back, and another one records
    `result`.
    """

    def __init__(self, result: ToolResult) -> None:
        self.result = result


class _TimedOut(Exception):
    """The tool has used up its time. Not a `TimeoutError`, which a transaction treats as an
    unavailable database.
    """


def _under_way() -> Transient:
    return Transient("Another attempt of this call is under way.")


@dataclass(frozen=True)
class _Recorded:
    """The result on record. `on_result` has it already, unless the side effects of the call are
    due: then it runs after them.
    """

    result: ToolResult
    side_effects_due: bool = False


@dataclass
class _Record:
    """The record of one call, and the receiver of its result."""

    ledger: ToolLedger
    call: LoggedCall
    context: ToolContext
    on_result: OnResult
    start: float = field(default_factory=monotonic)

    async def begin(
        self, tx: Transaction, invocation: Invocation, seconds: float | None = None
    ) -> _Recorded | EarlierIntent | CallIntent:
        """Begin the record. Returns the result of a call that must not run: it has run before, or
        it is held.
        """
        self._set_time()
        begun = await self._known(tx, await self.ledger.begin(tx, self.call, seconds))
        if isinstance(begun, CallIntent) and (held := await _hold(invocation, tx)):
            return await self.finish(tx, held)
        return begun

    async def refuse(self, tx: Transaction, refusal: ToolResult) -> _Recorded | EarlierIntent:
        """Record a refusal, unless an earlier attempt has made the call or was about to."""
        self._set_time()
        return await self._known(tx, await self.ledger.refuse(tx, self.call, refusal))

    def _set_time(self) -> None:
        self.call = replace(self.call, now=self.context.clock().timestamp())

    async def _known(
        self, tx: Transaction, begun: ToolResult | OpenResult | Intent
    ) -> _Recorded | Intent:
        if isinstance(begun, OpenResult):
            return _Recorded(begun.result, side_effects_due=True)
        if isinstance(begun, ToolResult):
            await self.on_result(tx, begun)
            return _Recorded(begun)
        return begun

    async def finish(self, tx: Transaction, result: ToolResult) -> _Recorded:
        recorded = await self._keep(tx, result)
        if not recorded.side_effects_due:
            await self.on_result(tx, recorded.result)
        return recorded

    async def finish_remote(self, result: ToolResult) -> _Recorded:
        """Record the result even if `on_result` fails: a change outside cannot be rolled back."""
        is_kept = False
        try:
            async with self.ledger.transaction() as tx:
                recorded = await self._keep(tx, result)
                is_kept = True
                if not recorded.side_effects_due:
                    await self.on_result(tx, recorded.result)
                return recorded
        except Exception:
            if is_kept:
                async with self.ledger.transaction() as tx:
                    await self._keep(tx, result)
            raise

    async def _keep(self, tx: Transaction, result: ToolResult) -> _Recorded:
        now = self.context.clock().timestamp()
        milliseconds = round((monotonic() - self.start) * 1000)
        kept = await self.ledger.finish(tx, self.call, result, now, milliseconds)
        return _Recorded(kept, side_effects_due=self.call.has_side_effects and kept.made)


def can_wait(fault: Transient) -> bool:
    """Whether the wait for a retry is short enough for a person who waits for the answer."""
    return (fault.retry_after or 0.0) <= MAX_RETRY_AFTER


def _waits_for_rate(context: ToolContext) -> bool:
    """Whether the call is retried when its record may be changed again: an approved call must run,
    even if a minute later.
    """
    return bool(context.approved_action_id) and context.retries_left > 0


def _must_ask_slack(invocation: Invocation) -> bool:
    """Whether `_identify` needs a request to Slack."""
    context = invocation.context
    directory = invocation.context.services.get(RoleDirectory)
    if directory and not directory.is_known(_needed_roles(invocation, directory)):
        return True
    if not _needs_askers(invocation):
        return False
    users = context.services.get(UserDirectory)
    return users is not None and not all(map(users.is_cached, context.askers))


def _needs_askers(invocation: Invocation) -> bool:
    """Whether the requesters must be known: for the tool itself, or for a rule about people who
    are no members.
    """
    tool = invocation.tool
    if tool.identifies:
        return True
    rules = invocation.context.services.get(CallRules) or CallRules()
    return tool.acts and tool.risk is not Risk.LOW and rules.asks_for_members


async def _identify(checked: Invocation | ToolResult) -> Invocation | ToolResult:
    """Look up the requesters and their roles, if the tool depends on them; return a refusal if
    they may not use it or are unknown.

    Raises:
        Transient: Slack cannot identify them at the moment; nothing was done yet.
    """
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
        return error_result(
            ErrorCode.NOT_ALLOWED, "Only full members of the workspace may use this."
        )
    return replace(
        invocation,
        context=replace(context, identified=Requester(user, are_members), members=are_members),
    )


async def _with_roles(invocation: Invocation) -> Invocation | ToolResult:
    """Check that all requesters may see, and change, the records of the tool.

    Raises:
        Permanent: the roles cannot be determined.
    """
    tool = invocation.tool
    context = invocation.context
    if not tool.all_records and not _named_roles(invocation):
        return invocation
    directory = context.services[RoleDirectory]
    to_decide = directory.roles.needed(tool.records, to_change=tool.mutating) | _named_roles(
        invocation
    )
    held = await directory.held_by(context.askers, context.channel, to_decide)
    to_see = _needed_roles(invocation, directory) - to_decide
    held |= await directory.held_where_shown(context.askers, context.channel, to_see)
    if refusal := directory.roles.refusal(tool.records, held, to_change=tool.mutating):
        return error_result(ErrorCode.NOT_ALLOWED, refusal, _NOT_FOR_THEM)
    by_some = await directory.held_by_some(
        context.askers, context.channel, _named_roles(invocation)
    )
    access = RecordAccess(tool.all_records, directory.roles, held)
    return replace(
        invocation, context=replace(context, roles=held, some_roles=by_some, access=access)
    )


def _without_roles(parsed: Invocation | ToolResult) -> Invocation | ToolResult:
    """Return an invocation for requesters who could not be identified: they see only unrestricted
    records.
    """
    directory = (
        None if isinstance(parsed, ToolResult) else parsed.context.services.get(RoleDirectory)
    )
    if isinstance(parsed, ToolResult) or directory is None:
        return parsed
    access = RecordAccess(parsed.tool.all_records, directory.roles, frozenset())
    return replace(parsed, context=replace(parsed.context, access=access))


def _needed_roles(invocation: Invocation, directory: RoleDirectory) -> frozenset[str]:
    """Return the groups that the rights to the tool's records and the rules of the policy depend
    on.
    """
    tool = invocation.tool
    return directory.roles.needed(tool.all_records, to_change=tool.mutating) | _named_roles(
        invocation
    )


def _named_roles(invocation: Invocation) -> frozenset[str]:
    """Return the groups that the policy's rules name, for a tool that they decide about."""
    rules = invocation.context.services.get(CallRules) if invocation.tool.acts else None
    return rules.roles if rules else frozenset()


async def _hold(invocation: Invocation, tx: Transaction) -> ToolResult | None:
    """Return the result of a call that must not run now, because it waits for an approval or is
    refused; None lets it run.

    Every call passes here, regardless of its caller, in the transaction that has begun its record.

    Raises:
        Transient: the record that it would change cannot be read.
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
    """Apply the rules and return as `_hold` does. Raises `Permanent` if no person may approve the
    call here.
    """
    tool = invocation.tool
    context = invocation.context
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


async def _propose(
    invocation: Invocation, assessed: Assessment, wanted: WantedApproval
) -> ToolResult:
    tool = invocation.tool
    context = invocation.context
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
    """Return the refusal of an approved call whose card showed other values than the record now
    has.
    """
    names = ", ".join(each.field.replace("_", " ") for each in assessed.changes)
    said = (
        f"This was changed after the proposal was made: {names}."
        if names
        else "The record already has these values."
    )
    return error_result(ErrorCode.REFUSED, f"{said} Nothing was done.", "Please ask for it again.")


async def _make_whole(invocation: Invocation) -> ToolResult:
    """Make a local call or none of it. Raises `_Undone` if it ended in an error."""
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
    """Run the tool's function and turn its exceptions into results.

    Raises:
        Transient: as the tool did, if it is local, or if the caller will retry after a short wait
            and the retry cannot repeat a change.
    """
    tool = invocation.tool
    context = invocation.context
    try:
        with nullcontext() if tool.remote else translate_errors():
            answer = await tool.call(context, invocation.arguments)
    except Transient as fault:
        if not tool.remote or (
            context.retries_left > 0 and can_wait(fault) and (not tool.mutating or tool.look_up)
        ):
            raise
        return _unavailable(tool, fault)
    except RateExceeded as often:
        if _waits_for_rate(context):
            rate = context.change_rate
            raise Transient(str(often), retry_after=rate.seconds if rate else None) from often
        return error_result(ErrorCode.TOO_MANY_CHANGES, str(often))
    except Exception as error:  # noqa: BLE001 - no error of a tool may end the turn
        return _failed(tool, error)
    return answer if isinstance(answer, ToolResult) else ToolResult(data=answer)


async def _find_effect(
    parsed: Invocation | ToolResult, context: ToolContext, intent: EarlierIntent
) -> ToolResult | None:
    """Return the effect of an earlier attempt, or that it is unknown; None if there certainly is
    none.

    Raises:
        Transient: the lookup fails at the moment, or the effect may still come; a retry follows.
    """
    if isinstance(parsed, ToolResult):  # the tool is gone, or its parameters have changed
        return _interrupted()
    tool = parsed.tool
    rest = max(
        0.0,
        min(tool.settle_seconds, intent.at + tool.settle_seconds - context.clock().timestamp()),
    )
    try:
        found = await _look_up(parsed)
    except Transient as fault:
        if context.retries_left > 0 and can_wait(fault):
            raise Transient(
                str(fault), retry_after=max(rest, fault.retry_after or 0.0) or None
            ) from fault
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
    except Exception:  # noqa: BLE001 - logged; a call with an unknown effect must not run again
        _log.exception("effect_lookup_failed", tool=tool.name)
        return error_result(ErrorCode.OUTCOME_UNKNOWN)


async def _fit(result: ToolResult) -> ToolResult:
    """Bound and redact a result, in a thread: a large one takes seconds, and must not block the
    event loop.
    """
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
    """Return a refusal with its own message, without names of settings, which go to the log. The
    message of any other error may hold confidential details, and goes only to the log.
    """
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
    return error_result(
        ErrorCode.OUTCOME_UNKNOWN,
        "An earlier try was interrupted: it may have taken effect or not.",
    )
