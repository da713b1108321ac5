"""The workflow runs of the stand-in for GitHub: those that are there, and what a re-run makes of one."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

OWNER, NAME = "acme", "shop"
SLUG = f"{OWNER}/{NAME}"
WELL, FAILED = "success", "failure"
_COMMIT = "4f9d2c7be0a14d7d9a55c1e02f7f0c6d8a1b3e5f"


@dataclass
class Job:
    """`steps` are names with conclusions. `log` is None where there is none (yet, or any more)."""

    id: int
    name: str
    status: str = "completed"
    conclusion: str | None = WELL
    steps: list[tuple[str, str]] = field(default_factory=list)
    log: str | None = ""


@dataclass
class Run:
    id: int
    number: int
    workflow: str
    title: str
    branch: str
    created: datetime
    started: datetime
    jobs: list[Job]
    event: str = "push"
    actor: str = "ada-park"
    attempt: int = 1
    status: str = "completed"
    conclusion: str | None = WELL
    commit: str = _COMMIT

    def matches(self, status: str) -> bool:
        return status in ("", self.status, self.conclusion)


class Repository:
    """Runs by id, and jobs by id with the run that they are of."""

    def __init__(self) -> None:
        self.runs: dict[int, Run] = {}
        self._ids = 7_000_000_000
        tests = "tests"
        self.add(tests, "Show the bulk price in the cart", "main", 30, [("unit", WELL, ""), ("lint", WELL, "")])
        self.add(tests, "Codes hold on their last day", "codes", 7, [("unit", FAILED, LOG), ("lint", WELL, "")])
        self.add("deploy", "Release 1.4", "main", 5, [("image", WELL, ""), ("staging", FAILED, DEPLOY_LOG)])
        self.add(tests, "Free shipping from 50 euros", "main", 2, [("unit", WELL, ""), ("lint", WELL, "")])

    def add(self, workflow: str, title: str, branch: str, hours_ago: float, jobs: list[tuple[str, str, str]]) -> Run:
        """`jobs` are names, conclusions and logs."""
        bad = any(conclusion == FAILED for _, conclusion, _ in jobs)
        at = datetime.now(UTC) - timedelta(hours=hours_ago)
        run = Run(
            id=self._next_id(),
            number=len(self.runs) + 1,
            workflow=workflow,
            title=title,
            branch=branch,
            created=at,
            started=at,
            jobs=[
                Job(self._next_id(), name, conclusion=end, steps=[("Set up job", WELL), (f"Run {name}", end)], log=log)
                for name, end, log in jobs
            ],
            conclusion=FAILED if bad else WELL,
        )
        self.runs[run.id] = run
        return run

    def listed(self, branch: str, status: str) -> list[Run]:
        """The newest first."""
        fitting = (run for run in self.runs.values() if branch in ("", run.branch) and run.matches(status))
        return sorted(fitting, key=lambda run: run.started, reverse=True)

    def job(self, id_: int) -> Job | None:
        return next((job for run in self.runs.values() for job in run.jobs if job.id == id_), None)

    def rerun(self, run: Run, *, failed_only: bool) -> None:
        """The next attempt, queued until it is finished."""
        again = [job for job in run.jobs if not failed_only or job.conclusion != WELL]
        fresh = {
            job.id: replace(job, id=self._next_id(), status="queued", conclusion=None, steps=[], log=None)
            for job in again
        }
        run.jobs = [fresh.get(job.id, job) for job in run.jobs]
        run.attempt += 1
        run.status, run.conclusion, run.started = "queued", None, datetime.now(UTC)

    def finish(self, run: Run, conclusion: str, log: str) -> None:
        """End what is queued."""
        for job in run.jobs:
            if job.status != "completed":
                job.status, job.conclusion, job.log = "completed", conclusion, log
                job.steps = [(f"Run {job.name}", conclusion)]
        run.status, run.conclusion = "completed", conclusion

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids


def _stamped(lines: str) -> str:
    """As a runner writes a log: each line behind the moment of it."""
    return "".join(
        f"2026-03-01T09:{second // 60:02}:{second % 60:02}.1234567Z {line}\n"
        for second, line in enumerate(lines.strip().splitlines())
    )


LOG = _stamped("""
##[group]Run python -m unittest
\x1b[36;1mpython -m unittest\x1b[0m
##[endgroup]
...........F....
======================================================================
FAIL: test_a_code_holds_on_its_last_day (tests.test_discounts.Discounts)
----------------------------------------------------------------------
AssertionError: False is not true : SPRING is refused on its last day
Ran 16 tests in 0.041s
FAILED (failures=1)
##[error]Process completed with exit code 1.
""")
DEPLOY_LOG = _stamped("""
##[group]Run deploy to staging
Waiting for 3 of 3 replicas
error: the payment provider refused the certificate: it expired yesterday
##[error]Process completed with exit code 1.
""")
