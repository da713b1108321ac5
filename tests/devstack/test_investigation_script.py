"""The script of bug cases: an investigation of the sample repository with the real CLI's tools."""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    SdkMcpTool,
    create_sdk_mcp_server,
    query,
)

from threadline.investigator.prompt import FINDINGS_KNOWN, MAY_EDIT, NO_ANSWER, NO_QUESTION
from threadline_devstack.models.exchanges import scripts
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.sample_repository import PLANTED_BUGS, make_sample_repository

VAGUE = "Something is wrong with my order at checkout, can you help?"
PROPERTIES: dict[str, Any] = {
    "action": {"enum": ["ask_reporter", "post_findings", "escalate", "resolved"]},
    **{
        name: {"type": "string"}
        for name in (
            *("title", "reply", "summary", "root_cause"),
            *("clarification_question", "for_reporter"),
        )
    },
    "evidence": {
        "type": "array",
        "items": {"type": "object", "required": ["file", "line", "note"]},
    },
    "severity": {"enum": ["S1", "S2", "S3", "S4"]},
    "confidence": {"type": "number"},
    "recommended_actions": {"type": "array"},
    "affected_components": {"type": "array"},
    "fix_requested": {"type": "boolean"},
}
SCHEMA = {
    "type": "object",
    "properties": PROPERTIES,
    "required": list(PROPERTIES),
    "additionalProperties": False,
}


def fence(number: int, sender: str, text: str, *, read: bool = False) -> str:
    known = ' read="yes"' if read else ""
    return (
        f'<message number="{number}" from="{sender}" sender="U1" '
        f'kind="message"{known}>\n{text}\n</message>'
    )


class Case:
    """One case over several turns of one agent session; `conversation` provides the answers of its
    bug tools, a page per message.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        origin = folder / "sample-shop.git"
        make_sample_repository(origin)
        subprocess.run(
            ["git", "clone", "--quiet", str(origin), "sample-shop"], cwd=self.workspace, check=True
        )
        self.shop = self.workspace / "sample-shop"
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._conversation: list[tuple[str, str]] = []
        self._seen = 0
        self._turn = 0
        self._session = ""
        self._home = folder / "claude"
        self._home.mkdir()
        self._url = url

    def add(self, sender: str, text: str) -> None:
        self._conversation.append((sender, text))

    async def turn(
        self,
        *sentences: str,
        state: str = "awaiting_reporter",
        fix: bool = False,
        again: bool = False,
    ) -> dict[str, Any]:
        """Run a turn on the new messages, or `again` on the last one, and return its output."""
        self._turn += 1
        self._seen -= again
        self.calls.clear()
        kind = f"continuation, state {state}" if self._turn > 1 else "initial"
        fresh = [
            fence(at, *said)
            for at, said in self._numbered()
            if at > self._seen and said[0] != "bot"
        ]
        prompt = "\n".join([f"Case BUG-7, turn {self._turn} ({kind})", *sentences, *fresh])
        messages = [message async for message in query(prompt=prompt, options=self._options(fix))]
        result = next(message for message in messages if isinstance(message, ResultMessage))
        self._seen = len(self._conversation)
        self._session = result.session_id
        assert isinstance(result.structured_output, dict)
        return result.structured_output

    def changes(self) -> str:
        return subprocess.check_output(
            ["git", "status", "--porcelain"], cwd=self.shop, text=True
        ).strip()

    def _numbered(self) -> list[tuple[int, tuple[str, str]]]:
        return list(enumerate(self._conversation, start=1))

    def _tool(self, name: str, *properties: str) -> SdkMcpTool[Any]:
        async def handle(given: dict[str, Any]) -> dict[str, Any]:
            self.calls.append((name, given))
            text = "See also BUG-3."
            if name == "get_bug":
                text = json.dumps({"title": "The total is too high", "severity": "S2"})
            if name == "get_bug_conversations":
                text = self._page(int(given.get("cursor", "0@")[:-1]))
            return {"content": [{"type": "text", "text": text}]}

        schema = {
            "type": "object",
            "properties": {name: {} for name in properties},
            "additionalProperties": False,
        }
        return SdkMcpTool(name, name, schema, handle)

    def _page(self, at: int) -> str:
        number, (sender, text) = self._numbered()[at]
        more = (
            f'Call again with cursor "{at + 1}@".'
            if number < len(self._conversation)
            else "This is the end."
        )
        return f"{fence(number, sender, text, read=number <= self._seen)}\n{more}"

    def _options(self, fix: bool) -> ClaudeAgentOptions:
        tools = [
            self._tool("get_bug", "bug_id"),
            self._tool("get_bug_conversations", "bug_id", "cursor"),
            self._tool("find_similar_bugs", "text"),
            self._tool("record_finding", "title", "detail", "file", "line", "severity"),
        ]
        edits = ["Edit"] if fix else []
        return ClaudeAgentOptions(
            cwd=self.workspace,
            model="claude-sonnet-4-5",
            tools=["Read", "Grep", "Glob", *edits],
            allowed_tools=["mcp__bug__*", *(f"{tool}(/{self.workspace}/**)" for tool in edits)],
            permission_mode="dontAsk",
            mcp_servers={"bug": create_sdk_mcp_server("bug", tools=tools)},
            strict_mcp_config=True,
            setting_sources=[],
            verbatim_prompts=True,
            output_format={"type": "json_schema", "schema": SCHEMA},
            max_turns=20,
            resume=self._session or None,
            stderr=lambda line: None,
            env={
                "ANTHROPIC_BASE_URL": self._url,
                "ANTHROPIC_API_KEY": "any",
                "HOME": str(self._home),
                "CLAUDE_CONFIG_DIR": str(self._home),
                "CLAUDE_CODE_TMPDIR": str(self._home),
                "CLAUDE_CODE_MAX_RETRIES": "0",
                "DISABLE_TELEMETRY": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
        )


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[Case]:
    async with ModelSandbox.running() as model:
        yield Case(model.url, tmp_path)


@pytest.mark.parametrize(
    ("report", "sentences", "action"),
    [
        (VAGUE, (), "ask_reporter"),
        (VAGUE, (NO_QUESTION, NO_ANSWER), "post_findings"),
        (
            "Shipping of a parcel worth 50 euros should be free, please fix it!",
            (),
            "post_findings",
        ),
        ("Invoices show my password hunter2 to everybody", (), "escalate"),
    ],
    ids=["vague", "unanswered", "clear", "leak"],
)
async def test_each_kind_of_report_gets_an_answer_of_the_right_shape(
    case: Case, report: str, sentences: tuple[str, ...], action: str
) -> None:
    case.add("reporter", report)
    answer = await case.turn(*sentences)
    assert answer["action"] == action
    assert bool(answer["clarification_question"]) is (action == "ask_reporter")
    assert "hunter2" not in f"{answer['title']} {answer['summary']}"
    assert case.changes() == ""


async def test_a_developers_request_is_answered_with_an_edit_and_thanks_with_the_end(
    case: Case,
) -> None:
    case.add("reporter", "The total is too high with the discount code SAVE10 and ten mugs")
    case.add("developer", "Please fix it.")
    mended = await case.turn(MAY_EDIT, fix=True)
    assert (mended["action"], mended["fix_requested"]) == ("post_findings", True)
    assert mended["for_reporter"].endswith("the developers have it before them now.")
    assert case.changes() == "M shop/cart.py"
    case.add("developer", "And is it in this repository?")
    case.add("developer", "Since when?")
    again = await case.turn(FINDINGS_KNOWN, state="awaiting_dev")
    assert "is made already" in again["reply"]
    assert not again["summary"], "the findings are the same"
    pages = [given for name, given in case.calls if name == "get_bug_conversations"]
    assert [given.get("cursor") for given in pages] == [None, "1@", "2@", "3@"], (
        "every page is read"
    )
    assert "“Since when?”" in again["reply"]
    case.add("developer", "The PR is merged and it works.")
    resolved = await case.turn(state="awaiting_dev")
    assert (resolved["action"], resolved["title"], resolved["severity"]) == (
        "resolved",
        "The total is too high",
        "S2",
    )


def test_every_planted_bug_has_a_row_that_fixes_it(tmp_path: Path) -> None:
    shop = Case("", tmp_path).shop
    rows = {
        f"shop/{row['component']}.py": row
        for each in scripts()["bug_cases"]
        for row in each.rows
        if row
    }
    assert rows.keys() == set(PLANTED_BUGS)
    for file, row in rows.items():
        source = (shop / file).read_text()
        assert source.count(row["wrong"]) == 1
        [line] = [line for line in source.splitlines() if re.search(row["line"], line)]
        assert re.search(row["sign"], line)
        assert not re.search(row["sign"], line.replace(row["wrong"], row["right"]))
        (shop / file).write_text(source.replace(row["wrong"], row["right"]))
    assert (
        subprocess.run(
            [sys.executable, "-B", "-m", "unittest"], cwd=shop, capture_output=True
        ).returncode
        == 0
    )
