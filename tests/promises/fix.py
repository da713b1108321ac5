"""What is promised of changes to code."""

from tests.promises.promise import Area, Promise

FIX = Area(
    "fix",
    "Nothing is changed unless a developer writes",
    "No file is changed and nothing is pushed unless a developer has written in the batch that the agent works on.",
    (
        Promise(
            "fix:permission:developer-in-the-batch",
            "A diff is kept only of a turn whose own batch holds a developer's message that was not deleted, whoever "
            "wrote the outcome; a reporter alone never causes a fix.",
            "the database: a claim records the id of a developer's message in its own batch, and a diff is kept in no "
            "other turn (`agent_finish_turn` in `db/migrations/versions/0002_agent_side.sql`).",
            (
                "Whoever can write in the summaries or the escalation channel counts as a developer.",
                "Any developer's message in the batch opens the way, also one that asks for something else; what is in "
                "the diff is then the agent's doing, under the influence of all it has read. It is a draft: read it "
                "before it runs.",
            ),
        ),
        Promise(
            "fix:permission:no-tools-without",
            "In a turn without that permission the tools that edit do not exist, and no file is changed.",
            "the list of tools that the CLI is started with (`agents/investigator/runner.py`).",
        ),
        Promise(
            "fix:diff:plain-and-small",
            "A fix changes text files alone, at most 30 of them, 1,500 lines and 200,000 bytes; one that touches CI "
            "configuration, symbolic links or anything of git is refused, in words, and pushes nothing.",
            "`forge/patches.py`, to which the diff is held before it is applied to a fresh clone, and the clone's "
            "index once more after it.",
        ),
        Promise(
            "fix:push:one-branch-one-draft",
            "A case has one branch and one draft, however often a fix is asked for, tried again or made at once.",
            "a branch that is named after the case, and a draft that is looked for before it is opened "
            "(`forge/pull_requests.py`, `forge/github.py`).",
            ("Where no GitHub is configured, the fix is a pushed branch without a draft.",),
        ),
        Promise(
            "fix:push:nothing-of-people-undone",
            "Commits of people on the branch are never undone, and a branch that moved meanwhile is not overwritten.",
            "`forge/branches.py`.",
        ),
        Promise(
            "fix:push:conflict-is-said",
            "A fix that conflicts with the present code, or that is there already, pushes nothing and says so.",
            "a merge in the fresh clone before the push (`forge/branches.py`).",
        ),
        Promise(
            "fix:push:core-worker-alone",
            "The push credential is known to the core worker alone, goes to its own host alone, and stands in no "
            "argument list and no error.",
            "`forge/git.py`, `forge/github.py`, and the environments of `deploy/compose.yaml` and "
            "`devstack/environment.py`.",
        ),
        Promise(
            "fix:end:judged-by-people",
            "A proposed fix is not resolved by the agent that wrote it, nor by the reporter's word; a merge or a "
            "developer's word resolves its case.",
            "`workflows/bug_case.py`.",
        ),
        Promise(
            "fix:git:runs-nothing",
            "Git runs nothing that an agent wrote or a repository brought: no hooks, no configuration, no attributes, "
            "no external commands.",
            "one place that decides what git may execute (`forge/git.py`), and a workspace without a `.git` "
            "(`forge/exports.py`).",
            (
                "Your CI runs the code of the branch before anybody has read it, so give it no secrets for "
                "`threadline/*`.",
            ),
        ),
    ),
)
