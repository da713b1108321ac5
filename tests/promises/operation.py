"""What is promised to whoever runs it."""

from tests.promises.promise import Area, Promise

OPERATION = Area(
    "operation",
    "What whoever runs it is told",
    "What is missing or wrong is one sentence that says what to do, and a stop lets work come to its end.",
    (
        Promise(
            "operation:command:one-sentence",
            "A setting that is missing or wrong is one sentence on standard error, and exit code 1.",
            "`Permanent`, which `cli/main.py` prints.",
        ),
        Promise(
            "operation:command:starts-light",
            "`--help` of every command says what it is for, and loads nothing heavy.",
            "imports inside the commands (`cli/main.py`).",
        ),
        Promise(
            "operation:slack:refusal-named",
            "A token that Slack refuses, a scope that is missing and a channel that the bot is not in are named with "
            "what to do.",
            "`slack/errors.py`, `gateway/app.py`.",
        ),
        Promise(
            "operation:gateway:readiness",
            "`/readyz` says whether events are taken and whether Temporal answers; `/healthz` that the process lives.",
            "`gateway/web.py`.",
        ),
        Promise(
            "operation:worker:whole-stack-restarts",
            "Gateway and workers can be restarted at any moment of a case; it goes on, and says nothing twice.",
            "all state in Temporal and Postgres.",
        ),
        Promise(
            "operation:worker:away",
            "What is written while the core worker is away is answered when it is back, once.",
            "signals that Temporal keeps.",
        ),
        Promise(
            "operation:temporal:attributes",
            "The set-up of a namespace gives it what the workers look for, however often it is run.",
            "`deploy/temporal/namespace.sh`, `bootstrap/temporal.py`.",
        ),
        Promise(
            "operation:worker:refuses-to-start",
            "The core worker refuses to start on a Temporal without its search attributes, where every task would "
            "fail, and on a database of another schema.",
            "checks before the first poll (`bootstrap/workers.py`, `bootstrap/core.py`).",
        ),
        Promise(
            "operation:worker:stopped-while-seeking",
            "A process that still seeks Temporal ends at once when it is asked to.",
            "a stop that is raced with the tries (`bootstrap/temporal.py`).",
        ),
        Promise(
            "operation:contract:timeouts",
            "Every activity that a workflow may ask for has its timeouts and retries in one table; those that store "
            "have no last attempt; and of a post one call ends before its attempt, and its attempt before its claim.",
            "`contracts/options.py`, `slack/posts.py`.",
        ),
        Promise(
            "operation:settings:documented",
            "Every setting is in README's table with the code's default, in `.env.example` and in the compose file, "
            "and nothing else is.",
            "tests that read them side by side.",
        ),
        Promise(
            "operation:deploy:roles",
            "The logins that `deploy/postgres/roles.sql` makes are enough to migrate and work, and no superusers.",
            "`deploy/postgres/roles.sql`, run on a Postgres of its own.",
            ("The image was never built, and the compose file never started.",),
        ),
        Promise(
            "operation:deploy:wheel",
            "The wheel holds every file that the product needs, and starts without what only the devstack needs.",
            "`pyproject.toml`.",
        ),
        Promise(
            "operation:documents:true",
            "Every path, test and link that a document names exists, and this page follows from its manifest.",
            "`tests/deploy/test_documents.py`, `tests/promises/`.",
        ),
        Promise(
            "operation:audit:not-checked",
            "`make audit` never calls clean what was not looked up.",
            "`deploy/audit.py`, which fails as not checked when the database of vulnerabilities does not answer.",
        ),
        Promise(
            "operation:doctor:names-what-is-missing",
            "`threadline doctor` names each thing that a deployment lacks, and what to do about it.",
            "`bootstrap/doctor.py`, `bootstrap/surroundings.py`.",
            ("It looks at the machine that it runs on; the model's key is not tried.",),
        ),
        Promise(
            "operation:image:confined",
            "The product runs as nobody special, and writes to one folder alone.",
            "`deploy/Dockerfile` and `deploy/compose.yaml`: a numbered user, a read-only file system, no capability.",
            ("The image was not built here; the trial plays the whole story where only one folder can be written to.",),
        ),
    ),
)
