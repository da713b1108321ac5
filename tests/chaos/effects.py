"""What a run leaves outside the conversation: one branch for each case that was mended, each file of a message once."""

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text

from tests.chaos.histories import Fault
from tests.chaos.stage import Stage

_FIXES = text("""
SELECT t.bug_id, t.turn, p.branch, p.commit, p.turn AS pushed
FROM agent_turns t JOIN cases c USING (bug_id) LEFT JOIN pull_requests p USING (bug_id)
WHERE t.status = 'done' AND t.turn <= c.turn AND t.has_fix AND t.bug_id = ANY(:cases) ORDER BY t.bug_id, t.turn
""")
_FILES = text("""
SELECT a.bug_id, a.file_id, a.name, a.content IS NOT NULL AS there, a.error,
       CASE WHEN EXISTS (SELECT FROM agent_turns t WHERE t.bug_id = m.bug_id AND m.seq = ANY(t.read_seqs))
            THEN 0 ELSE coalesce(m.turn, 0) END AS turn
FROM attachments a JOIN bug_conversations m USING (bug_id, message_id) WHERE a.bug_id = ANY(:cases)
""")
"""`turn` is the one that was shown the message: one that read it by a tool had its workspace by then."""


@dataclass
class Effects:
    """`fixes` and `files`: rows of the queries above; `branches`: each with its newest commit and how many it has."""

    fixes: list[Any] = field(default_factory=list)
    files: list[Any] = field(default_factory=list)
    branches: dict[str, tuple[str, int]] = field(default_factory=dict)


async def gather(stage: Stage, cases: list[str]) -> Effects:
    async with stage.database.begin() as work:
        fixes = list(await work.connection.execute(_FIXES, {"cases": cases}))
        files = list(await work.connection.execute(_FILES, {"cases": cases}))
    return Effects(fixes, files, await _branches(stage))


async def _branches(stage: Stage) -> dict[str, tuple[str, int]]:
    told = await _git(stage, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads/threadline")
    tips = dict(line.split() for line in told.splitlines())
    return {name: (tip, int(await _git(stage, "rev-list", "--count", tip, "^main"))) for name, tip in tips.items()}


async def _git(stage: Stage, *arguments: str) -> str:
    command = ("git", f"--git-dir={stage.home.repository}", *arguments)
    path = {"PATH": os.environ.get("PATH", os.defpath)}
    git = await asyncio.create_subprocess_exec(*command, env=path, stdout=asyncio.subprocess.PIPE)
    return (await git.communicate())[0].decode()


def judge(effects: Effects, cases: list[str], attached: Mapping[str, bool]) -> Iterator[Fault]:
    """`attached`: the ids of files that people attached, each with whether its message is still there."""
    yield from _pushes(effects, set(cases))
    known = defaultdict(list)
    for row in effects.files:
        known[row.file_id].append(row)
    for each, there in attached.items():
        rows = known[each]
        if len(rows) > 1 or (there and len(rows) != 1):
            yield Fault(rows[0].bug_id if rows else "", f"the file {each} was stored {len(rows)} times")
        elif rows and rows[0].there and not there:
            yield Fault(rows[0].bug_id, f"the file {rows[0].name} is kept, and its message was deleted")
        elif rows and there and rows[0].turn and not rows[0].there:
            words = rows[0].error or "nobody fetched it"
            yield Fault(rows[0].bug_id, f"turn {rows[0].turn} was shown {rows[0].name} without its content: {words}")


def _pushes(effects: Effects, cases: set[str]) -> Iterator[Fault]:
    """A fix is one commit on the case's branch, which is where its pull request says that it is."""
    fixes = Counter(row.bug_id for row in effects.fixes)
    recorded = {row.bug_id: row for row in effects.fixes if row.branch}
    for case in cases:
        tip, commits = effects.branches.get(f"threadline/{case.lower()}", ("", 0))
        if commits > fixes[case]:
            yield Fault(case, f"{commits} commits were pushed for {fixes[case]} fixes")
        if tip and case in recorded and recorded[case].commit != tip:
            yield Fault(case, f"its branch is at {tip[:8]}, and its pull request at {recorded[case].commit[:8]}")
        if bool(tip) is not (case in recorded):
            yield Fault(case, f"its branch is {'' if tip else 'not '}there, and its pull request is otherwise")
