"""The agent's permissions: a hook checks every tool call, and confines it to the workspace."""

from pathlib import Path
from typing import Any, cast

from claude_agent_sdk import HookContext, HookInput, HookJSONOutput, HookMatcher

from threadline.investigator.workspace import ATTACHMENTS

_READS = {"Read": "file_path", "Grep": "path", "Glob": "path"}
_WRITES = {"Edit": "file_path", "Write": "file_path"}
_PATTERNS = {"Grep": "glob", "Glob": "pattern"}
_ANSWER = "StructuredOutput"
_OWN_TOOLS = "mcp__bug__"


class ToolRefused(Exception):
    """A tool call is not allowed; the model reads the message."""


class WorkspacePolicy:
    """Allows reading inside `workspace`, editing there when `may_fix`, the case's own tools, and
    nothing else.
    """

    def __init__(self, workspace: Path, *, may_fix: bool) -> None:
        self._root = workspace.resolve()
        self._may_fix = may_fix

    @property
    def tools(self) -> list[str]:
        """The built-in tools of this turn."""
        return [*_READS, *_WRITES] if self._may_fix else [*_READS]

    def hook(self) -> HookMatcher:
        """Return the hook for `hooks["PreToolUse"]`.

        It fails closed: by default a hook that raises or hangs lets the call through.
        """
        return HookMatcher(hooks=[self._before], on_failure="block", timeout=10)

    def decide(self, tool: str, given: dict[str, Any]) -> dict[str, Any] | None:
        """Judge one call.

        Returns:
            The input with which it is granted, or None to leave it to the CLI's own, equally
                narrow rules.

        Raises:
            ToolRefused: The call is not allowed; the message is for the model.
        """
        if tool == _ANSWER or tool.startswith(_OWN_TOOLS):
            return None
        if tool in _WRITES:
            if not self._may_fix:
                raise ToolRefused(
                    "Files may not be changed in this turn: no developer asked for it in "
                    "this batch."
                )
            # The CLI trims and expands its input (`~`, blanks), so it gets the very path that was
            # checked.
            file = self.confine(str(given.get("file_path", "")))
            folder, *rest = file.relative_to(self._root).parts or ("",)
            if not rest or folder == ATTACHMENTS:
                raise ToolRefused(
                    f"{file.name} is in no repository: a change there would be lost. Write "
                    "below one's folder."
                )
            return {**given, "file_path": str(file)}
        if tool in _READS:
            self.confine(str(given.get(_READS[tool]) or "."))
            self._check_pattern(str(given.get(_PATTERNS.get(tool, ""), "")))
            return None
        raise ToolRefused(f"The tool {tool} is not available here.")

    def confine(self, path: str) -> Path:
        """Return the real path of `path`, which may be relative to the workspace.

        Raises:
            ToolRefused: It lies outside the workspace, also through a symbolic link, or
                belongs to Git.
        """
        if path.strip() != path or path.startswith("~") or not path.isprintable():
            raise ToolRefused(f"{path!r} is not a plain path: name a file in the workspace.")
        try:
            real = (self._root / path).resolve()
        except (OSError, RuntimeError) as error:
            raise ToolRefused(
                f"{path!r} cannot be resolved: name a file in the workspace."
            ) from error
        if not real.is_relative_to(self._root):
            raise ToolRefused(f"{path!r} is outside the workspace: use only its files.")
        _refuse_git(path, Path(path).parts)
        _refuse_git(path, real.relative_to(self._root).parts)
        return real

    def _check_pattern(self, pattern: str) -> None:
        if ".." in pattern or pattern.startswith(("~", "/")):
            raise ToolRefused(
                f"The pattern {pattern!r} may leave the workspace: write it relative, "
                "without `..`."
            )
        _refuse_git(pattern, tuple(pattern.replace("{", "/").replace(",", "/").split("/")))

    async def _before(
        self, call: HookInput, _tool_use_id: str | None, _context: HookContext
    ) -> HookJSONOutput:
        if call["hook_event_name"] != "PreToolUse":
            return {}
        try:
            granted = self.decide(call["tool_name"], call["tool_input"])
        except ToolRefused as refusal:
            return _decision(
                {"permissionDecision": "deny", "permissionDecisionReason": str(refusal)}
            )
        return (
            {}
            if granted is None
            else _decision({"permissionDecision": "allow", "updatedInput": granted})
        )


def _decision(decided: dict[str, Any]) -> HookJSONOutput:
    return cast(
        "HookJSONOutput", {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decided}}
    )


def _refuse_git(path: str, components: tuple[str, ...]) -> None:
    """Refuse Git's files: one named `.git` can make a later `git` run a program of the agent's
    choice.
    """
    if any(component.casefold().startswith(".git") for component in components):
        raise ToolRefused(
            f"{path!r} belongs to Git or its hosting: such files may be neither read nor changed."
        )
