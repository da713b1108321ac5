"""The record of each seed, kept in a file over all sessions, and the tables for
docs/guarantees.md.
"""

import hashlib
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.plan import ALL_KINDS
from tests.chaos.run import Outcome
from tests.chaos.stack import ROOT

FILE = ROOT / ".threadline" / "chaos.jsonl"
_NO_CODE = (".pyc", ".jsonl")
_COUNTS = {
    "threads": "threads",
    "messages that people wrote": "messages",
    "turns of the agent": "turns",
    "messages that the catch-up signalled": "caught_up",
    "turns whose fix was pushed": "fixed",
    "conversations": "conversations",
    "messages that people wrote in them": "conversation_messages",
    "turns of conversations": "conversation_turns",
    "work items that their tools added": "items",
    "messages relayed to and from a person who took over": "relayed",
    "runs of conversations that were cancelled": "conversations_cancelled",
    "runs of conversations that were terminated": "conversations_terminated",
    "processes killed or stopped, and started again": "restarts",
}


@dataclass(frozen=True)
class Record:
    """One seed. `code` is the `code_digest` of the tested code; `faults` are the oracle's
    sentences.

    `missed`: kinds that were planned and had no target, as when there was no run to terminate.
    """

    seed: int
    agent: str
    transport: str
    kinds: tuple[str, ...]
    outage: bool
    seconds: float
    code: str
    counts: Mapping[str, int]
    missed: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.faults


def code_digest(*folders: Path) -> str:
    """Return a digest that changes with the files in these folders, and with no others."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(
            path for path in folder.rglob("*") if path.is_file() and path.suffix not in _NO_CODE
        ):
            digest.update(f"{folder.name}/{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:10]


def record_of(outcome: Outcome, code: str) -> Record:
    plan = outcome.plan
    return Record(
        seed=plan.seed,
        agent="claude" if plan.real else "scripted",
        transport="http" if plan.http else "socket",
        kinds=plan.kinds,
        outage=plan.outage is not None,
        seconds=outcome.seconds,
        code=code,
        counts=outcome.counts,
        missed=outcome.missed,
        faults=tuple(map(str, outcome.faults)),
    )


def read() -> dict[int, Record]:
    """Return the newest record of each seed. Ends the process if the file has another format."""
    if not FILE.exists():
        return {}
    tuples = ("kinds", "missed", "faults")
    try:
        lines = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
        return {
            line["seed"]: Record(**line | {name: tuple(line[name]) for name in tuples})
            for line in lines
        }
    except (ValueError, TypeError, KeyError) as error:
        sys.exit(
            f"{FILE} has records of another form ({error}): delete it, and the seeds begin "
            "again at 0."
        )


def add(record: Record) -> None:
    """Keep a record, in place of an earlier one of the same seed."""
    known = {**read(), record.seed: record}
    FILE.parent.mkdir(exist_ok=True)
    lines = (json.dumps(asdict(known[seed]), ensure_ascii=False) for seed in sorted(known))
    FILE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def fresh_seeds(count: int) -> list[int]:
    """Return the next seeds that have not been run."""
    known = read()
    return list(itertools.islice((seed for seed in itertools.count() if seed not in known), count))


def tables(known: Mapping[int, Record]) -> str:
    """Return the figures of all runs as Markdown."""
    records = [known[seed] for seed in sorted(known)]
    total = {
        "runs": len(records),
        "of them clean": sum(record.clean for record in records),
        "with the real Claude CLI": sum(record.agent == "claude" for record in records),
        "by signed HTTP": sum(record.transport == "http" for record in records),
        "with an outage of the model of conversations": sum(record.outage for record in records),
        **{
            words: sum(record.counts[name] for record in records)
            for words, name in _COUNTS.items()
        },
    }
    codes = Counter(record.code for record in records).most_common()
    return "\n".join(
        [
            *(
                "## Chaos, by the figures",
                "",
                "The seeds that `make chaos` ran on this machine.",
                "",
            ),
            *(
                "| | |",
                "|---|--:|",
                *(f"| {words} | {number:,} |" for words, number in total.items()),
                "",
            ),
            "By the digest of the product's and the harness's code: "
            f"{', '.join(f'{code}: {times} runs' for code, times in codes)}.",
            *(
                "",
                "A kind is counted where it hit: a worker that was killed in a post was in one.",
                "",
            ),
            *("| what went wrong | runs | alone | clean |", "|---|--:|--:|--:|"),
            *(_row(kind, records) for kind in ALL_KINDS),
            "",
            *_failures(records),
        ]
    )


def _row(kind: str, records: Sequence[Record]) -> str:
    mine = [record for record in records if kind in record.kinds and kind not in record.missed]
    alone = sum(len(record.kinds) == 1 for record in mine)
    return f"| {kind} | {len(mine)} | {alone} | {sum(record.clean for record in mine)} |"


def _failures(records: Sequence[Record]) -> Iterator[str]:
    failed = [record for record in records if not record.clean]
    if failed:
        yield from ("Runs that were not clean:", "")
        yield from (
            f"- seed {record.seed} ({record.code}): {'; '.join(record.faults[:3])}"
            for record in failed
        )
        yield ""
