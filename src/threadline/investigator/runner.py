"""Runs one turn of an investigation: prompt in, checked outcome out."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from claude_agent_sdk import ClaudeAgentOptions, SessionStore

from threadline.cases.outcome import Outcome, check, check_for_reporter, keep_back, output_format, read_outcome
from threadline.investigator import prompt as prompts
from threadline.investigator.cli_home import CliHome, find_cli
from threadline.investigator.driver import Driver
from threadline.investigator.errors import SessionUnknown, TurnBroken, TurnRefused, raise_for
from threadline.investigator.policy import WorkspacePolicy
from threadline.investigator.ports import CaseRecords, LogSearch, QuerySource, TurnBrief, TurnResult
from threadline.investigator.session_ledger import SessionLedger
from threadline.investigator.stream import SessionUsage, Watch
from threadline.investigator.tools import SERVER, ToolLimits, bug_server
from threadline.investigator.workspace import ATTACHMENTS
from threadline.threads import messages

LARGEST_LINE = 64 << 20
"""Bytes of one message of the CLI; the SDK's own limit of 1 MiB ends a turn that reads one big file."""
BUDGET_SLACK = 1.25
"""A turn that crosses its budget with the very call that answers would lose the answer."""


@dataclass(frozen=True)
class InvestigatorConfig:
    """How the agent's CLI is run.

    Args:
        model: the model's full name; prices are looked up by it.
        api_key: for the model's API.
        base_url: where that API is, when not at its usual place.
        cli_path: the CLI, when not the one inside the SDK's wheel.
        max_turns: replies of the model in one turn of the case.
        stale_after: seconds without a sign of life after which a turn is broken off. Keep it above a tool's and a
            request's own limits.
        request_timeout: seconds for one request to the API.
        tool_limits: seconds for one call of a tool.
        env: further variables for the CLI, such as a proxy's; no other variable of this process reaches it.
    """

    model: str
    api_key: str = field(repr=False)
    base_url: str | None = None
    cli_path: Path | None = None
    max_turns: int = 60
    stale_after: float = 300.0
    request_timeout: float = 240.0
    tool_limits: ToolLimits = field(default_factory=ToolLimits)
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Turn:
    """One turn with all that it may use."""

    brief: TurnBrief
    records: CaseRecords
    store: SessionStore
    usage: SessionUsage
    queries: QuerySource | None
    logs: LogSearch | None
    pulse: Callable[[], None]


def _no_pulse() -> None:
    pass


class Investigator:
    """Starts a process of the agent's CLI for each turn; keeps nothing between turns."""

    def __init__(self, config: InvestigatorConfig) -> None:
        self._config = config

    async def run_investigation(
        self,
        brief: TurnBrief,
        records: CaseRecords,
        store: SessionStore,
        usage: SessionUsage,
        *,
        queries: QuerySource | None = None,
        logs: LogSearch | None = None,
        pulse: Callable[[], None] = _no_pulse,
    ) -> TurnResult:
        """A case's first turn.

        Args:
            brief: what to do; its `parent_session` is not used.
            records: the case's own records.
            store: where the session's transcript goes.
            usage: what the turn uses is counted here, also when it fails or is cancelled.
            queries: databases that the agent may read.
            logs: logs that it may search.
            pulse: called at every sign of life.

        Raises:
            TurnRefused: another attempt cannot help (a `Permanent`).
            TurnBroken: another attempt, with a new `session_id`, may help (a `Transient`).
            asyncio.CancelledError: within a second of being cancelled, with no process left.
        """
        turn = _Turn(brief, records, store, usage, queries, logs, pulse)
        return await self._run(turn, prompts.initial(brief), parent=None)

    async def run_continuation(
        self,
        brief: TurnBrief,
        records: CaseRecords,
        store: SessionStore,
        usage: SessionUsage,
        *,
        queries: QuerySource | None = None,
        logs: LogSearch | None = None,
        pulse: Callable[[], None] = _no_pulse,
    ) -> TurnResult:
        """A later turn: it goes on from a copy of the parent session, or without one when that is gone.

        Arguments and errors are those of `run_investigation`.
        """
        turn = _Turn(brief, records, store, usage, queries, logs, pulse)
        if brief.parent_session:
            try:
                return await self._run(turn, prompts.continuation(brief), parent=brief.parent_session)
            except SessionUnknown:
                pass
        return await self._run(turn, prompts.continuation(brief, forgotten=True), parent=None)

    async def _run(self, turn: _Turn, prompt: str, parent: str | None) -> TurnResult:
        started = time.monotonic()
        home = CliHome(find_cli(self._config.cli_path), self._environment())
        try:
            watch = Watch(turn.pulse, [self._config.api_key], turn.usage)
            ledger = SessionLedger(turn.store)
            driver = Driver(self._options(turn, home, watch, ledger, parent), home, watch)
            outcome = await driver.run(
                _converse(driver, watch, turn.brief, prompt),
                timeout=turn.brief.timeout,
                stale_after=self._config.stale_after,
            )
        finally:
            home.remove()
        if ledger.incomplete:
            raise TurnBroken("The agent's transcript could not be stored: the turn is tried again.")
        return TurnResult(
            outcome=outcome,
            duration_s=time.monotonic() - started,
            read=watch.read,
        )

    def _environment(self) -> dict[str, str]:
        config = self._config
        return {
            **config.env,
            **({"ANTHROPIC_BASE_URL": config.base_url} if config.base_url else {}),
            "ANTHROPIC_API_KEY": config.api_key,
            "API_TIMEOUT_MS": f"{config.request_timeout * 1000:.0f}",
            "MCP_TOOL_TIMEOUT": "60000",
            "CLAUDE_CODE_MAX_RETRIES": "2",  # the workflow waits better: ten retries hold a slot for three minutes
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def _options(
        self, turn: _Turn, home: CliHome, watch: Watch, ledger: SessionLedger, parent: str | None
    ) -> ClaudeAgentOptions:
        brief = turn.brief
        policy = WorkspacePolicy(brief.workspace, may_fix=brief.may_fix)
        server = bug_server(brief.bug_id, turn.records, turn.queries, turn.logs, self._config.tool_limits)
        return ClaudeAgentOptions(
            cli_path=home.launcher,
            cwd=brief.workspace,
            env=home.environment,
            model=self._config.model,
            # Without snapshot=False a resumed session keeps the system prompt of its first turn for ever.
            system_prompt={"type": "custom", "prompt": prompts.system(), "snapshot": False},
            tools=policy.tools,
            allowed_tools=[f"mcp__{SERVER}__*"],  # a bare "Read" here would open the whole disk
            permission_mode="dontAsk",
            hooks={"PreToolUse": [policy.hook()]},
            mcp_servers={SERVER: server},
            strict_mcp_config=True,
            setting_sources=[],  # a repository's own settings could run programs and redirect the key
            verbatim_prompts=True,  # or `@/path` in a person's message reads that file
            output_format=output_format(),
            max_turns=self._config.max_turns,
            max_budget_usd=brief.budget_usd * BUDGET_SLACK,
            max_buffer_size=LARGEST_LINE,
            include_partial_messages=True,
            session_store=cast("SessionStore", ledger),  # the SDK takes what has append and load
            session_store_flush="eager",
            session_id=brief.session_id,
            resume=parent,
            fork_session=parent is not None,
            stderr=watch.stderr,
        )


async def _converse(driver: Driver, watch: Watch, brief: TurnBrief, prompt: str) -> Outcome:
    """Ask, and ask once more when the answer cannot be used."""
    await driver.connect()
    problems, said = list[str](), await asyncio.to_thread(_known_to_reporter, brief)
    for text in (prompt, None):
        result = await driver.ask(text or prompts.mend(brief.bug_id, problems))
        raise_for(result, watch)
        outcome, problems = read_outcome(result.structured_output)
        if outcome is not None:
            problems, leaks = check(outcome, may_ask=brief.may_ask), check_for_reporter(outcome, said)
            if not problems and not (text and leaks):
                return keep_back(outcome) if leaks else outcome
            problems += leaks
    raise TurnRefused(f"The agent's answer cannot be used: {watch.detail(' '.join(problems))}")


def _known_to_reporter(brief: TurnBrief) -> str:
    """What the reporter wrote, as far as this turn was told, and the names of what was attached."""
    attached = brief.workspace / ATTACHMENTS
    names = [path.name for path in attached.iterdir()] if attached.is_dir() else []
    return "\n".join([*(entry.text for entry in brief.entries if entry.sender_type == messages.REPORTER), *names])
