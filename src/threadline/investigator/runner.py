"""Runs one turn of an investigation: prompt in, checked outcome out."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import structlog
from claude_agent_sdk import ClaudeAgentOptions, SessionStore, create_sdk_mcp_server

from threadline.cases.contract import TurnRequest
from threadline.cases.outcome import (
    Outcome,
    check_outcome,
    check_reporter_text,
    output_format,
    parse_outcome,
    withhold_question,
)
from threadline.errors import Permanent, Transient
from threadline.investigator import prompt as prompts
from threadline.investigator.cli import CliSession
from threadline.investigator.policy import WorkspacePolicy
from threadline.investigator.queries import Loki, ReadOnlyQueries
from threadline.investigator.sandbox import Sandbox, find_cli
from threadline.investigator.session_store import TurnSessionStore
from threadline.investigator.store import CaseReader, TurnClaim, TurnOutcome
from threadline.investigator.stream import (
    SessionNotFound,
    SessionRefused,
    SessionUsage,
    TurnMonitor,
    raise_for_result,
    refusals_of_resumed,
)
from threadline.investigator.tools import SERVER, case_tools
from threadline.investigator.workspace import ATTACHMENTS
from threadline.models.prices import Price, PriceList
from threadline.threads.model import SenderType

LARGEST_LINE = 64 << 20
"""Bytes of one message of the CLI. The SDK's default of 1 MiB ends a turn that reads one big
file.
"""
BUDGET_SLACK = 1.25
"""Factor on the CLI's budget: a turn that crosses its budget with the very call that answers would
lose the answer.
"""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class InvestigatorConfig:
    """The settings of the agent's CLI.

    `base_url`: the address of the model's API, if not the usual one. `max_turns` counts the
    model's replies in one turn of the case. After `stale_after` seconds without a sign of life a
    turn is interrupted: keep it above the limits of a tool and of a request. `prices`, by the
    model's full name, take precedence over the known ones.
    """

    model: str
    api_key: str = field(repr=False)
    base_url: str | None = None
    max_turns: int = 60
    stale_after: float = 300.0
    prices: Mapping[str, Price] = field(default_factory=dict)


@dataclass(frozen=True)
class TurnInput:
    """One attempt at a turn, with its access to the case.

    `budget_usd` limits this attempt; `sessions` stores its transcript.
    """

    request: TurnRequest
    claim: TurnClaim
    workspace: Path
    budget_usd: float
    records: CaseReader
    sessions: TurnSessionStore

    @property
    def may_ask(self) -> bool:
        return (
            not self.request.unanswered
            and self.claim.questions < self.request.limits.max_questions
        )


@dataclass(eq=False)
class Investigator:
    """Starts a process of the agent's CLI for each turn; keeps no state between turns.

    The agent has a tool for the databases (`queries`) and one for the logs where these are given.
    """

    config: InvestigatorConfig
    queries: ReadOnlyQueries | None = None
    logs: Loki | None = None

    async def run(self, turn: TurnInput, usage: SessionUsage) -> TurnOutcome:
        """Run one attempt.

        A later turn continues a copy of its parent session. It starts without one when the parent
        is gone, or is refused before the first reply: a transcript that the API does not accept
        would end every turn of its case. The outcome lacks the changes to the code, which are in
        the workspace. A cancellation takes less than a second, and leaves no process.

        Args:
            turn: The turn.
            usage: Counts the usage of the attempt, also when it fails or is cancelled.

        Raises:
            Permanent: Another attempt cannot help.
            Transient: An attempt with a new `session_id` may help.
        """
        if parent := turn.claim.parent_session:
            try:
                return await self._run(turn, usage, parent)
            except SessionNotFound:
                reason = "lost"
            except SessionRefused as refused:
                reason = str(refused)
                await turn.sessions.discard()
            _log.warning(
                "session_not_resumed", case=turn.claim.bug_id, turn=turn.claim.turn, reason=reason
            )
        return await self._run(turn, usage, None)

    async def _run(self, turn: TurnInput, usage: SessionUsage, parent: str | None) -> TurnOutcome:
        started = time.monotonic()
        turn.sessions.begin()
        sandbox = Sandbox(find_cli(), self._environment())
        try:
            monitor = TurnMonitor([self.config.api_key], usage, PriceList(self.config.prices))
            session = CliSession(self._options(turn, sandbox, monitor, parent), sandbox, monitor)
            outcome = await session.run(
                _converse(session, monitor, turn, parent),
                timeout=turn.request.limits.turn_timeout,
                stale_after=self.config.stale_after,
            )
        finally:
            sandbox.remove()
        if turn.sessions.incomplete:
            raise Transient("The agent's transcript could not be stored: the turn is tried again.")
        return TurnOutcome(
            action=outcome.action,
            result=outcome.model_dump(mode="json"),
            duration_s=time.monotonic() - started,
            read=monitor.tracker.read,
        )

    def _environment(self) -> dict[str, str]:
        config = self.config
        return {
            **({"ANTHROPIC_BASE_URL": config.base_url} if config.base_url else {}),
            "ANTHROPIC_API_KEY": config.api_key,
            "API_TIMEOUT_MS": "240000",
            "MCP_TOOL_TIMEOUT": "60000",
            # the workflow retries: ten retries here hold a slot for three minutes
            "CLAUDE_CODE_MAX_RETRIES": "2",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def _options(
        self, turn: TurnInput, sandbox: Sandbox, monitor: TurnMonitor, parent: str | None
    ) -> ClaudeAgentOptions:
        policy = WorkspacePolicy(turn.workspace, may_fix=turn.claim.may_fix)
        tools = case_tools(turn.records, self.queries, self.logs)
        return ClaudeAgentOptions(
            cli_path=sandbox.launcher,
            cwd=turn.workspace,
            env=sandbox.environment,
            model=self.config.model,
            # Without snapshot=False a resumed session keeps the system prompt of its first turn.
            system_prompt={"type": "custom", "prompt": prompts.system(), "snapshot": False},
            tools=policy.tools,
            allowed_tools=[f"mcp__{SERVER}__*"],  # a bare "Read" here would open the whole disk
            permission_mode="dontAsk",
            hooks={"PreToolUse": [policy.hook()]},
            mcp_servers={SERVER: create_sdk_mcp_server(SERVER, tools=tools)},
            strict_mcp_config=True,
            # a repository's own settings could run programs and redirect the key
            setting_sources=[],
            verbatim_prompts=True,  # or `@/path` in a message reads that file
            output_format=output_format(),
            max_turns=self.config.max_turns,
            max_budget_usd=turn.budget_usd * BUDGET_SLACK,
            max_buffer_size=LARGEST_LINE,
            include_partial_messages=True,
            # The SDK only needs `append` and `load`.
            session_store=cast("SessionStore", turn.sessions),
            session_store_flush="eager",
            session_id=turn.claim.session_id,
            resume=parent,
            fork_session=parent is not None,
            stderr=monitor.stderr,
        )


async def _converse(
    session: CliSession, monitor: TurnMonitor, turn: TurnInput, parent: str | None
) -> Outcome:
    """Ask the agent, and ask once more when its answer cannot be used."""
    with refusals_of_resumed(monitor, parent):
        await session.connect()
    problems = list[str]()
    known = await asyncio.to_thread(_known_to_reporter, turn)
    first = prompts.turn_prompt(
        turn.claim,
        may_ask=turn.may_ask,
        unanswered=turn.request.unanswered,
        forgotten=turn.claim.turn > 1 and parent is None,
    )
    for prompt in (first, None):
        with refusals_of_resumed(monitor, parent):
            result = await session.ask(prompt or prompts.repair(turn.claim.bug_id, problems))
            raise_for_result(result, monitor)
        outcome, problems = parse_outcome(result.structured_output)
        if outcome is not None:
            problems = check_outcome(
                outcome, may_ask=turn.may_ask, has_findings=turn.claim.has_findings
            )
            leaks = check_reporter_text(outcome, known)
            if not problems and not (prompt and leaks):
                return withhold_question(outcome) if leaks else outcome
            problems += leaks
    monitor.log_failure("answer_unusable", " ".join(problems))
    raise Permanent(
        "The agent's answer is still unusable after a second request: look at the case yourself."
    )


def _known_to_reporter(turn: TurnInput) -> str:
    """Return the reporter's messages in this batch, and the names of the attachments."""
    written = [
        entry.text for entry in turn.claim.entries if entry.sender_type == SenderType.REPORTER
    ]
    return "\n".join([*written, *(path.name for path in (turn.workspace / ATTACHMENTS).iterdir())])
