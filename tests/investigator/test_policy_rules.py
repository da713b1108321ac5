"""The hook that allows or refuses each call of a tool."""

from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import PreToolUseHookInput

from threadline.investigator.policy import ToolRefused, WorkspacePolicy


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "shop").mkdir(parents=True)
    (tmp_path / "work-of-others").mkdir()
    (folder / "out").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "innocent").symlink_to(folder / ".git")
    return folder


@pytest.mark.parametrize(
    "path", ["shop/a.py", "./shop/../shop/b", "new/deep/file", "shop/a b.txt", "shop/ümlaut"]
)
def test_path_of_the_workspace_is_granted_as_resolved(root: Path, path: str) -> None:
    granted = WorkspacePolicy(root, may_fix=True).decide(
        "Write", {"file_path": path, "content": "x"}
    )
    assert granted == {"file_path": str((root / path).resolve()), "content": "x"}


@pytest.mark.parametrize("path", ["", "HEAD", "attachments/a.txt", "./shop"])
def test_write_outside_the_repositories_is_refused(root: Path, path: str) -> None:
    with pytest.raises(ToolRefused, match="in no repository"):
        WorkspacePolicy(root, may_fix=True).decide("Write", {"file_path": path, "content": "x"})


@pytest.mark.parametrize("tool", ["Write", "Edit"])
def test_change_is_refused_in_a_turn_without_a_fix(root: Path, tool: str) -> None:
    with pytest.raises(ToolRefused, match="no developer asked"):
        WorkspacePolicy(root, may_fix=False).decide(tool, {"file_path": "shop/a.py"})


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "..",
        "../work-of-others/a",
        "out/a",
        "loop",
        "~",
        "~root/a",
        " /etc/passwd",
        "\ufeff/etc/passwd",
        "/etc/passwd\n",
        "a\x00b",
        ".git",
        "shop/.git/config",
        ".gitignore",
        ".GITHUB/x",
        "shop/.git /x",
        "innocent",
    ],
)
@pytest.mark.parametrize(
    ("tool", "name"), [("Read", "file_path"), ("Grep", "path"), ("Edit", "file_path")]
)
def test_path_elsewhere_or_of_git_is_refused(root: Path, path: str, tool: str, name: str) -> None:
    with pytest.raises(ToolRefused):
        WorkspacePolicy(root, may_fix=True).decide(tool, {name: path, "pattern": "x"})


@pytest.mark.parametrize(
    "pattern",
    [
        "/etc/*",
        "../*",
        "shop/../../*",
        "~/*",
        ".git/**",
        "**/.git*/x",
        "{.git,a}/x",
        "{a,.git}/x",
        "{..,a}/*",
    ],
)
def test_pattern_that_leads_elsewhere_is_refused(root: Path, pattern: str) -> None:
    with pytest.raises(ToolRefused):
        WorkspacePolicy(root, may_fix=False).decide("Glob", {"pattern": pattern})
    with pytest.raises(ToolRefused):
        WorkspacePolicy(root, may_fix=False).decide("Grep", {"pattern": "x", "glob": pattern})


@pytest.mark.parametrize("pattern", ["**/*.py", "shop/{a,b}.py", "*"])
def test_pattern_of_the_workspace_is_left_to_the_cli(root: Path, pattern: str) -> None:
    assert WorkspacePolicy(root, may_fix=False).decide("Glob", {"pattern": pattern}) is None


@pytest.mark.parametrize(
    "tool", ["Bash", "Task", "WebFetch", "MultiEdit", "mcp__other__tool", "mcp__bugs__x", ""]
)
def test_unknown_tool_is_refused(root: Path, tool: str) -> None:
    with pytest.raises(ToolRefused):
        WorkspacePolicy(root, may_fix=True).decide(tool, {})


@pytest.mark.parametrize("tool", ["StructuredOutput", "mcp__bug__get_bug"])
def test_answer_and_own_tools_are_left_to_the_cli(root: Path, tool: str) -> None:
    assert WorkspacePolicy(root, may_fix=False).decide(tool, {}) is None


async def test_refusal_reaches_the_model_and_a_broken_hook_blocks(root: Path) -> None:
    matcher = WorkspacePolicy(root, may_fix=False).hook()
    call: PreToolUseHookInput = {
        "hook_event_name": "PreToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": "a"},
        "tool_use_id": "t",
        "session_id": "s",
        "transcript_path": "",
        "cwd": str(root),
    }
    answer: Any = await matcher.hooks[0](call, "t", {"signal": None})
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "no developer asked" in answer["hookSpecificOutput"]["permissionDecisionReason"]
    assert matcher.on_failure == "block"
    assert matcher.timeout is not None
