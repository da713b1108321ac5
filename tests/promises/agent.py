"""What is promised of an agent that was misled."""

from tests.promises.promise import Area, Promise

AGENT = Area(
    "agent",
    "What a misled agent can reach",
    "A misled agent reaches its own case and workspace; what else its process holds is small and written down.",
    (
        Promise(
            "agent:tools:named-alone",
            "The CLI has the tools Read, Grep and Glob, in a turn with a permission Edit and Write, and the case's "
            "own; no shell and no network.",
            "the list of tools that it is started with, and a hook, which fails closed, before every call "
            "(`agents/investigator/runner.py`, `agents/investigator/policy.py`).",
        ),
        Promise(
            "agent:files:workspace-alone",
            "No tool reads, searches or writes outside the case's workspace, by whatever path, pattern or link.",
            "the hook, which resolves each path (`agents/investigator/policy.py`).",
            (
                "*One user for all turns.* Turns of several cases run side by side under one account; what separates "
                "them is the hook.",
            ),
        ),
        Promise(
            "agent:files:nothing-of-git",
            "Nothing of git is read or written, and nothing is written beside the repositories, where it is lost.",
            "the hook (`agents/investigator/policy.py`).",
        ),
        Promise(
            "agent:files:safe-names",
            "A file that people attach cannot choose its path, and the bot's token is shown to no host but Slack's.",
            "`slack/files.py`, `agents/investigator/workspace.py`.",
        ),
        Promise(
            "agent:repository:not-obeyed",
            "No settings, hooks, servers or instructions of a repository are obeyed, and nothing in it leads out of "
            "the workspace.",
            "the options of the CLI (`agents/investigator/runner.py`), and exports that hold files alone "
            "(`forge/exports.py`).",
        ),
        Promise(
            "agent:environment:by-name",
            "The environment reaches the CLI by a list of names, and its key stands in no argument.",
            "`agents/investigator/cli_wrapper.py`.",
            (
                "*The model's key* is in the CLI's environment: it cannot call the model without.",
                "*What the agent reads goes to the model's provider*: the code, the conversation, attachments, query "
                "results.",
            ),
        ),
        Promise(
            "agent:worker:refuses-powers",
            "The agent worker refuses to start with a Slack token, a GitHub token or the owner's database address, and "
            "neither the devstack nor the compose file gives it one.",
            "`bootstrap/agents.py`, `devstack/environment.py`, `deploy/compose.yaml`.",
            ("*`worker --queue all`* is one process for both: convenient, and no wall.",),
        ),
        Promise(
            "agent:database:functions-alone",
            "The agent worker logs in as `threadline_agent`, or does not start; that login reads no table, can read "
            "views and call functions, and nothing else.",
            "`db/migrations/grants.sql`, `db/agent_pool.py`.",
            (
                "*The views are those of all cases.* The tools are bound to one case; the database login is not.",
                "*The agent worker's Temporal login.* A process with it can poll any queue, signal any case, answer "
                "activities in the core's place and read every history. That is beyond the agent's tools, but not "
                "beyond somebody who takes the worker over. Give it a namespace and a certificate of its own if your "
                "server can tell them apart.",
            ),
        ),
        Promise(
            "agent:database:forged-token",
            "With a forged token nothing is written, and what the functions use cannot be put something else in the "
            "place of.",
            "functions that check the token under the case row's lock, with a search path of their own "
            "(`db/migrations/versions/0002_agent_side.sql`).",
        ),
        Promise(
            "agent:case:its-own",
            "The agent's tools answer for its own case alone, whatever id it names.",
            "tools that are bound to the case of the turn (`agents/investigator/tools.py`).",
        ),
        Promise(
            "agent:text:fenced",
            "What people write reaches the model as data: fenced, numbered, with its sender; no text opens or closes a "
            "fence, and a path in it is not opened.",
            "`agents/investigator/fences.py`, `agents/investigator/prompts.py`.",
            ("A model may be misled all the same: the fence is advice to it, and the walls are the others.",),
        ),
        Promise(
            "agent:query:reads-alone",
            "`query_database` runs one reading statement on views that were named, with a login that can do no more, "
            "and never on Threadline's own database.",
            "checks of the login at the start, and a transaction that cannot be left (`db/read_only_queries.py`).",
        ),
        Promise(
            "agent:failure:no-secret",
            "What fails is told to the model and to people without a secret: no key, no address with a password, no "
            "text of an unforeseen error.",
            "`agents/investigator/tools.py`, `agents/investigator/results.py`, `db/failures.py`, `forge/git.py`.",
        ),
    ),
)
