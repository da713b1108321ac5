"""An edit of one word by the real CLI changes one line, with any line ends of the file."""

from pathlib import Path

import pytest

from tests.investigator.investigator_scene import InvestigatorScene
from tests.support.git_repository import GitRepository
from threadline.forge.git import Git
from threadline.forge.mirrors import Export, Mirrors
from threadline_devstack.models.script import ScriptTurn

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOM = b"\xef\xbb\xbf"
LINES = [b"line %d of the price list" % number for number in range(40)]
SHAPES = {
    "lf": b"\n".join(LINES) + b"\n",
    "crlf": b"\r\n".join(LINES) + b"\r\n",
    "mostly crlf": b"\r\n".join(LINES[:30]) + b"\r\n" + b"\n".join(LINES[30:]) + b"\n",
    "mostly lf": b"\r\n".join(LINES[:5]) + b"\r\n" + b"\n".join(LINES[5:]) + b"\n",
    "no final newline": b"\n".join(LINES),
    "mixed without final newline": b"\r\n".join(LINES[:20]) + b"\r\n" + b"\n".join(LINES[20:]),
    "mark": BOM + b"\n".join(LINES) + b"\n",
    "mark and crlf": BOM + b"\r\n".join(LINES) + b"\r\n",
    "mark and mixed": BOM + b"\r\n".join(LINES[:20]) + b"\r\n" + b"\n".join(LINES[20:]),
    "cr within a line": b"\n".join([*LINES[:5], b"a\rb", *LINES[5:]]) + b"\n",
    "two crs": b"\n".join([*LINES[:5], b"a\r\r", *LINES[5:]]) + b"\n",
}


async def test_edit_of_one_word_changes_one_line(bench: InvestigatorScene, tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "origin")
    repository.path.mkdir()
    repository.git("init", "-q", "-b", "main")
    for name, content in SHAPES.items():
        (repository.path / f"{name}.txt").write_bytes(content)
    repository.git("config", "core.autocrlf", "false")
    repository.commit()
    mirrors = Mirrors(tmp_path / "mirrors", {"prices": str(repository.path)}, Git())
    commit = await mirrors.commit("prices")
    tree = bench.workspace / "prices"
    export = Export(Git(), mirrors.path("prices"), tree, tmp_path / "scratch", commit)
    await export.write()

    async def script(turn: ScriptTurn) -> None:
        for name in SHAPES:
            path = str(tree / f"{name}.txt")
            await turn.call("Read", file_path=path)
            answer = await turn.call(
                "Edit", file_path=path, old_string="line 7 of", new_string="line seven of"
            )
            assert not answer.is_error, answer.text
        await turn.finish(**bench.outcome())

    bench.model.script(script)
    await bench.run(may_fix=True)
    changed = {}
    for part in (await export.diff()).split("diff --git ")[1:]:
        lines = part.split("\n")
        changed[lines[0].partition(".txt")[0].removeprefix('"').removeprefix("a/")] = [
            line for line in lines[4:] if line.startswith(("-", "+"))
        ]
    assert {name: len(lines) for name, lines in changed.items()} == dict.fromkeys(SHAPES, 2)
    ends = {name: {line.endswith("\r") for line in lines} for name, lines in changed.items()}
    assert all(len(kinds) == 1 for kinds in ends.values()), ends
