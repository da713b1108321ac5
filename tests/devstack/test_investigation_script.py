"""The default script of the model sandbox: an investigation of the sample repository with the real CLI's tools."""

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

from threadline_devstack.models import ModelSandbox, case_file, search
from threadline_devstack.models.case_file import MAY_EDIT, MAY_NOT_ASK, UNANSWERED
from threadline_devstack.models.planted_bugs import FAULTS
from threadline_devstack.sample_repository import PLANTED_BUGS, make_sample_repository

VAGUE = "Something is wrong with my order at checkout, can you help?"
PROPERTIES: dict[str, Any] = {
    "action": {"enum": ["ask_reporter", "post_findings", "escalate", "resolved"]},
    **{
        name: {"type": "string"}
        for name in ("title", "summary", "root_cause", "clarification_question", "for_reporter")
    },
    "evidence": {"type": "array", "items": {"type": "object", "required": ["file", "line", "note"]}},
    "severity": {"enum": ["S1", "S2", "S3", "S4"]},
    "confidence": {"type": "number"},
    "recommended_actions": {"type": "array"},
    "affected_components": {"type": "array"},
    "fix_requested": {"type": "boolean"},
}
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": list(PROPERTIES), "additionalProperties": False}


def fence(number: int, sender: str, text: str, *, read: bool = False) -> str:
    known = ' read="yes"' if read else ""
    return f'<message number="{number}" from="{sender}" sender="U1" kind="message"{known}>\n{text}\n</message>'


class Case:
    """One case over several turns of one agent session; its bug tools answer from `conversation`, a page a message."""

    def __init__(self, url: str, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        origin = folder / "sample-shop.git"
        make_sample_repository(origin)
        subprocess.run(["git", "clone", "--quiet", str(origin), "sample-shop"], cwd=self.workspace, check=True)
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
        self, *sentences: str, state: str = "awaiting_reporter", fix: bool = False, again: bool = False
    ) -> dict[str, Any]:
        """Run a turn on what was added since the last one, or `again` on the last message, and give its output."""
        self._turn += 1
        self._seen -= again
        self.calls.clear()
        kind = f"continuation, state {state}" if self._turn > 1 else "initial"
        fresh = [fence(at, *said) for at, said in self._numbered() if at > self._seen and said[0] != "bot"]
        prompt = "\n".join([f"Case BUG-7, turn {self._turn} ({kind})", *sentences, *fresh])
        messages = [message async for message in query(prompt=prompt, options=self._options(fix))]
        result = next(message for message in messages if isinstance(message, ResultMessage))
        self._seen, self._session = len(self._conversation), result.session_id
        assert isinstance(result.structured_output, dict)
        return result.structured_output

    def changes(self) -> str:
        return subprocess.check_output(["git", "status", "--porcelain"], cwd=self.shop, text=True).strip()

    def _numbered(self) -> list[tuple[int, tuple[str, str]]]:
        return list(enumerate(self._conversation, start=1))

    def _tool(self, name: str, *properties: str) -> SdkMcpTool[Any]:
        async def handle(given: dict[str, Any]) -> dict[str, Any]:
            self.calls.append((name, given))
            text = self._page(int(given.get("cursor", "0@")[:-1])) if "conversations" in name else "See also BUG-3."
            return {"content": [{"type": "text", "text": text}]}

        schema = {"type": "object", "properties": {name: {} for name in properties}, "additionalProperties": False}
        return SdkMcpTool(name, name, schema, handle)

    def _page(self, at: int) -> str:
        number, (sender, text) = self._numbered()[at]
        more = f'Call again with cursor "{at + 1}@".' if number < len(self._conversation) else "This is the end."
        return f"{fence(number, sender, text, read=number <= self._seen)}\n{more}"

    def _options(self, fix: bool) -> ClaudeAgentOptions:
        tools = [
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


def passes(checkout: Path, *tests: str) -> bool:
    """Whether these tests of the repository pass; all of them when none is named."""
    run = [sys.executable, "-B", "-m", "unittest", *tests]
    return subprocess.run(run, cwd=checkout, capture_output=True, check=False).returncode == 0


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[Case]:
    async with ModelSandbox.running() as model:
        yield Case(model.url, tmp_path)


async def test_a_case_goes_from_a_question_to_findings_to_a_fix_to_its_end(case: Case) -> None:
    case.add("reporter", VAGUE)
    asked = await case.turn()
    assert asked["action"] == "ask_reporter"
    case.add("bot", asked["clarification_question"])
    case.add("reporter", "I used the discount code SAVE10.")
    case.add("reporter", "Ten mugs were in the cart; the total is too high.")

    found = await case.turn()
    assert [name for name, _ in case.calls] == [*["get_bug_conversations"] * 4, "find_similar_bugs", "record_finding"]
    line = (case.shop / "shop/cart.py").read_text().splitlines().index("            " + FAULTS[0].wrong) + 1
    evidence = [{"file": "sample-shop/shop/cart.py", "line": line, "note": FAULTS[0].cause}]
    assert (found["action"], found["evidence"], found["fix_requested"]) == ("post_findings", evidence, False)
    assert "SAVE10" in found["summary"]
    assert "Ten mugs" in found["summary"]
    assert "Compare with BUG-3." in found["recommended_actions"]
    assert case.calls[-1][1]["line"] == line

    case.add("developer", "Can you open a PR, please?")
    refused = await case.turn(MAY_NOT_ASK, state="awaiting_dev")
    assert (refused["action"], refused["fix_requested"]) == ("post_findings", True)
    assert case.changes() == ""

    case.add("developer", "Yes, go: fix it.")
    mended = await case.turn(MAY_NOT_ASK, MAY_EDIT, state="awaiting_dev", fix=True)
    assert (mended["action"], mended["fix_requested"]) == ("post_findings", True)
    assert case.changes() == "M shop/cart.py"
    assert passes(case.shop, PLANTED_BUGS["shop/cart.py"], "tests.test_cart")

    again = await case.turn(MAY_NOT_ASK, MAY_EDIT, state="awaiting_dev", fix=True, again=True)
    assert again["action"] == "post_findings"
    assert "made already (sample-shop/shop/cart.py, line" in again["summary"]
    assert case.changes() == "M shop/cart.py"

    case.add("developer", "The PR is merged and it works.")
    assert (await case.turn(state="awaiting_dev"))["action"] == "resolved"


async def test_a_report_that_says_enough_is_answered_at_once(case: Case) -> None:
    case.add("reporter", "Shipping of a parcel worth 50 euros should be free, please fix it!")
    found = await case.turn()
    assert (found["action"], found["affected_components"]) == ("post_findings", ["shipping"])
    assert not found["fix_requested"]
    assert case.changes() == ""


async def test_a_vague_report_is_not_asked_about_when_nobody_answers(case: Case) -> None:
    case.add("reporter", VAGUE)
    found = await case.turn(MAY_NOT_ASK, UNANSWERED)
    assert (found["action"], found["evidence"]) == ("post_findings", [])
    assert "did not answer" in found["summary"]


async def test_a_leak_goes_to_people_and_its_words_nowhere_else(case: Case) -> None:
    case.add("reporter", "Invoices show my password hunter2 to everybody")
    escalated = await case.turn()
    assert escalated["action"] == "escalate"
    assert "hunter2" not in f"{escalated['title']} {escalated['summary']}"


@pytest.mark.parametrize(
    ("text", "fix", "done"),
    [
        ("please fix it", True, False),
        ("Good find. Can you open a pull request?", True, False),
        ("ship a patch", True, False),
        ("the fix works", False, True),
        ("PR is merged", False, True),
        ("verified, thanks", False, True),
        ("this is not done", False, False),
        ("the pull request is not good, fix it", True, False),
        ("which line is it?", False, False),
    ],
)
def test_developers_words_are_understood(text: str, fix: bool, done: bool) -> None:
    case = case_file.read([f"Case BUG-7, turn 2 (continuation, state x)\n{fence(2, 'developer', text)}"], "")
    assert (case.wants_fix, case.is_done) == (fix, done)
    reporters = case_file.read([f"Case BUG-7, turn 2 (continuation, state x)\n{fence(2, 'reporter', text)}"], "")
    assert (reporters.wants_fix, reporters.is_done) == (False, False)


def test_the_prompt_of_the_turn_counts_not_the_one_that_asks_to_mend_an_answer() -> None:
    turn = f"Case BUG-7, turn 2 (continuation, state x)\n{MAY_NOT_ASK}\n{fence(3, 'reporter', 'the cart')}"
    case = case_file.read(["Case BUG-7, turn 1 (initial)", turn, "Your answer cannot be used."], "")
    assert (case.continuation, case.may_ask, [said.text for said in case.messages]) == (True, False, ["the cart"])


def test_what_the_prompt_brought_stays_new_when_the_conversation_marks_it_as_read() -> None:
    prompt = f"Case BUG-7, turn 2 (continuation, state x)\n{fence(2, 'developer', 'fix it')}"
    page = "\n".join([fence(1, "reporter", "the cart", read=True), fence(2, "developer", "please fix it", read=True)])
    case = case_file.read([prompt], "").having_read(page)
    assert [said.text for said in case.messages] == ["the cart", "please fix it"]
    assert case.wants_fix


def test_what_was_read_before_its_turn_came_is_heeded_in_its_turn_and_alarms_nobody_twice() -> None:
    merged = fence(2, "developer", "the security fix is merged", read=True)
    prompt = f"Case BUG-7, turn 3 (continuation, state x)\n{merged}"
    case = case_file.read([prompt], "").having_read(fence(1, "developer", "fix it", read=True))
    assert [said.number for said in case.news] == [2]
    assert case.is_done
    assert case.alarm is None


@pytest.mark.parametrize("report", [VAGUE, "It is broken", "nothing works any more :(", "Customers complain", "👻", ""])
def test_no_word_of_a_vague_report_is_in_the_shop(tmp_path: Path, report: str) -> None:
    words = search.content_words([report])
    source = "\n".join(path.read_text() for path in Case("", tmp_path).shop.glob("shop/*.py"))
    assert not words or re.search(search.pattern(words), source, re.IGNORECASE) is None


def test_every_planted_bug_has_a_fault_that_mends_it(tmp_path: Path) -> None:
    shop = Case("", tmp_path).shop
    for fault, (file, test) in zip(FAULTS, PLANTED_BUGS.items(), strict=True):
        source = (shop / file).read_text()
        assert source.count(fault.wrong) == 1
        assert not passes(shop, test)
        (shop / file).write_text(source.replace(fault.wrong, fault.right))
        assert passes(shop, test)
    assert passes(shop)
