"""Shells complete the commands; the version comes from the installed package."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.command import MACHINE, run_command
from tests.support.patience import patient

SCRIPTS = Path(sys.executable).parent
"""The folder of the installed command `threadline`."""
ENVIRONMENT = MACHINE | {"PATH": f"{SCRIPTS}{os.pathsep}{MACHINE['PATH']}"}
ASKED = {
    "bash": {"COMP_WORDS": "threadline cases sh", "COMP_CWORD": "2"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "threadline cases sh"},
    "fish": {
        "_TYPER_COMPLETE_ARGS": "threadline cases sh",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    },
}
"""The variables with which each shell's script asks for the words after `threadline cases sh`."""
MARKS = {
    "bash": "complete -o default -F _threadline_completion threadline",
    "zsh": "#compdef threadline",
    "fish": "complete --command threadline",
}


@pytest.mark.parametrize("shell", ASKED)
def test_script_of_each_shell_is_printed_and_completes_a_subcommand(
    shell: str, tmp_path: Path
) -> None:
    script = run_command((), {"_THREADLINE_COMPLETE": f"source_{shell}"}, tmp_path)
    assert (script.returncode, script.stderr) == (0, "")
    assert MARKS[shell] in script.stdout
    assert f"_THREADLINE_COMPLETE=complete_{shell}" in script.stdout
    done = run_command((), {"_THREADLINE_COMPLETE": f"complete_{shell}"} | ASKED[shell], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "show" in done.stdout
    assert "resolve" not in done.stdout


BASH = """
eval "$(threadline --show-completion)"
COMP_WORDS=(threadline kn)
COMP_CWORD=1
_threadline_completion threadline
echo "${COMPREPLY[*]}"
threadline --install-completion
"""


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_after_its_script_is_shown_or_installed(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH],
        env=ENVIRONMENT | {"HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=True,
    )
    assert done.stdout.startswith("knowledge\n"), done.stderr
    installed = (tmp_path / ".bash_completions" / "threadline.sh").read_text()
    assert MARKS["bash"] in installed
    assert "threadline.sh" in (tmp_path / ".bashrc").read_text()


def test_version_is_that_of_the_package_and_loads_nothing_else(tmp_path: Path) -> None:
    done = run_command(("--version",), {}, tmp_path)
    told = f"threadline {version('threadline')}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")
    source = (
        "import sys; from threadline.cli.main import run_command; run_command(['--version']); "
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", source]
    loaded = subprocess.run(
        command, env=MACHINE, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    modules = {name.partition(".")[0] for name in loaded.stdout.split()}
    assert not modules & {"temporalio", "sqlalchemy", "asyncpg", "pydantic", "slack_sdk", "openai"}
