"""What is promised of the agent worker's rights, as they are tried on the running product."""

from tests.promises.promise import Area, Promise

PRIVILEGE = Area(
    "privilege",
    "What the agent worker may do",
    "With all that the agent worker holds nothing is posted or pushed, and no other case's files are read.",
    (
        Promise(
            "privilege:environment:no-foreign-secret",
            "The running agent worker and its CLI hold no Slack token, no push credential and no owner's login; the "
            "CLI has no login to a database at all.",
            "lists of names (`devstack/environment.py`, `agents/investigator/cli_wrapper.py`), and a worker that "
            "refuses to start with more (`bootstrap/agents.py`).",
            ("The model's key is in the CLI: it cannot call the model without.", "The test reads /proc: Linux."),
        ),
        Promise(
            "privilege:database:nothing-but-its-own",
            "The agent worker's login reads no table and writes no case, no file and no large object.",
            "grants and functions that check the claim (`db/migrations/grants.sql`).",
            ("It reads the views of all cases, and could claim another case's turn.",),
        ),
        Promise(
            "privilege:slack:no-post",
            "Nothing that the agent worker holds opens Slack.",
            "no token in its environment.",
        ),
        Promise(
            "privilege:code:no-push",
            "The agent worker has nothing to push with.",
            "no credential in its environment.",
            (
                "A login that stands in its THREADLINE_REPO must be one that can only read.",
                "In the devstack the repository is a folder of the same account: what stops the agent there is that it "
                "has no shell.",
            ),
        ),
        Promise(
            "privilege:tools:own-case-alone",
            "The agent's tools and its CLI reach no other case and no file outside its workspace.",
            "the hook, the rules of the CLI and tools that are bound to a case (`agents/investigator/policy.py`).",
            (
                "One account runs all turns.",
                "Looking for similar bugs shows title and summary of other cases, on purpose.",
            ),
        ),
        Promise(
            "privilege:queries:bounded",
            "A queried value of any size is cut before it is sent.",
            "a query around the agent's, which must be a statement by itself (`db/read_only_queries.py`).",
            (
                "The memory of the queried server.",
                "What the server quotes in an error comes over the wire; it is cut before it is shown.",
                "EXPLAIN is refused, since a plan holds values of any size.",
            ),
        ),
        Promise(
            "privilege:orphans:git",
            "A git that a worker started ends with the worker, also when that is killed.",
            "a death signal (`forge/git.py`).",
            ("Linux alone; a transfer from a silent host ends within 60 s.",),
        ),
    ),
)
