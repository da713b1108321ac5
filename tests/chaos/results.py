"""What the runs came to, one line a seed in a file that adds up over sittings, and the tables that are made of it."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.plan import KINDS, REAL_ONLY
from tests.chaos.run import Outcome

FILE = Path(__file__).parents[2] / ".threadline" / "chaos.jsonl"
_SEVERAL = ("kinds", "missed", "faults")
_NO_CODE = (".pyc", ".jsonl")


@dataclass(frozen=True)
class Record:
    """One seed. `code` is the `code_digest` of what was run; `faults` are sentences of the oracle.

    `missed`: kinds that were planned and hit nothing, as when there was no run to terminate. `talks`, `talked`,
    `talk_turns`: conversations, beside the `threads`, with what was written in them and their turns; `items`: what
    their tools added; `relayed`: what a person who had taken one over and whoever asked said to each other;
    `talks_cancelled`, `talks_terminated`: how often an operator ended a run of theirs.
    """

    seed: int
    agent: str
    way: str
    kinds: tuple[str, ...]
    threads: int
    messages: int
    turns: int
    restarts: int
    seconds: float
    code: str
    caught_up: int = 0
    fixes: int = 0
    talks: int = 0
    talked: int = 0
    talk_turns: int = 0
    items: int = 0
    talks_cancelled: int = 0
    talks_terminated: int = 0
    relayed: int = 0
    model_away: bool = False
    missed: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.faults


def code_digest(*folders: Path) -> str:
    """What the files in these folders come to: it changes with them, and with nothing else."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in _NO_CODE):
            digest.update(f"{folder.name}/{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:10]


def record_of(outcome: Outcome, code: str) -> Record:
    plan = outcome.plan
    return Record(
        seed=plan.seed,
        agent="claude" if plan.real else "scripted",
        way="http" if plan.http else "socket",
        kinds=plan.kinds,
        threads=len(plan.stories),
        messages=outcome.messages,
        turns=outcome.turns,
        restarts=outcome.restarts,
        seconds=outcome.seconds,
        code=code,
        caught_up=outcome.happened["caught_up"],
        fixes=outcome.happened["fixed"],
        talks=outcome.happened["talks"],
        talked=outcome.happened["talked"],
        talk_turns=outcome.happened["talk_turns"],
        items=outcome.happened["items"],
        talks_cancelled=outcome.happened["talks_cancelled"],
        talks_terminated=outcome.happened["talks_terminated"],
        relayed=outcome.happened["relayed"],
        model_away=plan.away is not None,
        missed=outcome.missed,
        faults=tuple(map(str, outcome.faults)),
    )


def read(path: Path = FILE) -> dict[int, Record]:
    """The newest record of each seed."""
    if not path.exists():
        return {}
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line)
    return {line["seed"]: Record(**{**line, **{name: tuple(line[name]) for name in _SEVERAL}}) for line in lines}


def add(record: Record, path: Path = FILE) -> None:
    """Keep a record; it takes the place of an earlier one of the same seed."""
    known = {**read(path), record.seed: record}
    path.parent.mkdir(exist_ok=True)
    lines = (json.dumps(asdict(known[seed]), ensure_ascii=False) for seed in sorted(known))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def fresh_seeds(count: int, known: Mapping[int, Record]) -> Iterable[int]:
    """The next seeds that were not run yet."""
    seed = 0
    while count:
        if seed not in known:
            count -= 1
            yield seed
        seed += 1


def section(known: Mapping[int, Record]) -> str:
    """The part of docs/guarantees.md that tells of all runs."""
    records = [known[seed] for seed in sorted(known)]
    clean = sum(record.clean for record in records)
    real = [record for record in records if record.agent == "claude"]
    total = {
        "runs": len(records),
        "of them clean": clean,
        "with the real Claude CLI": len(real),
        "by signed HTTP": sum(record.way == "http" for record in records),
        "threads": sum(record.threads for record in records),
        "messages that people wrote": sum(record.messages for record in records),
        "turns of the agent": sum(record.turns for record in records),
        "messages that the catch-up signalled": sum(record.caught_up for record in records),
        "turns whose fix was pushed": sum(record.fixes for record in records),
        "conversations": sum(record.talks for record in records),
        "messages that people wrote in them": sum(record.talked for record in records),
        "turns of conversations": sum(record.talk_turns for record in records),
        "work items that their tools added": sum(record.items for record in records),
        "what was relayed between them and a person who took over": sum(record.relayed for record in records),
        "runs of theirs that were cancelled": sum(record.talks_cancelled for record in records),
        "runs of theirs that were terminated": sum(record.talks_terminated for record in records),
        "runs in which their model was away for a while": sum(record.model_away for record in records),
        "processes killed or stopped, and started again": sum(record.restarts for record in records),
    }
    return "\n".join(
        [
            "## Chaos, by the figures",
            "",
            "The seeds that `make chaos` ran on this machine.",
            "",
            "| | |",
            "|---|--:|",
            *(f"| {what} | {number:,} |" for what, number in total.items()),
            "",
            f"By the digest of the product's and the harness's code: {_codes(records)}.",
            "",
            "A kind is counted where it hit: a worker that was killed in a post was in one.",
            "",
            "| what went wrong | runs | alone | clean |",
            "|---|--:|--:|--:|",
            *(_row(kind, records) for kind in (*KINDS, *REAL_ONLY)),
            "",
            *_faults(records),
        ]
    )


def _codes(records: Sequence[Record]) -> str:
    counted = Counter(record.code for record in records)
    return ", ".join(f"{code}: {times} runs" for code, times in counted.most_common())


def _row(kind: str, records: Sequence[Record]) -> str:
    mine = [record for record in records if kind in record.kinds and kind not in record.missed]
    alone = sum(len(record.kinds) == 1 for record in mine)
    return f"| {kind} | {len(mine)} | {alone} | {sum(record.clean for record in mine)} |"


def _faults(records: Sequence[Record]) -> Iterable[str]:
    failed = [record for record in records if not record.clean]
    if failed:
        yield "Runs that were not clean:"
        yield ""
        yield from (f"- seed {record.seed} ({record.code}): {'; '.join(record.faults[:3])}" for record in failed)
        yield ""
