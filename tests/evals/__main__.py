"""`python -m tests.evals`: measures retrieval, decisions and silence; `make evals` calls it."""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.evals import deciding, labelled, metrics, retrieving, silence, tables
from tests.evals.deciding import Made
from tests.evals.silence import Judged
from threadline import telemetry
from threadline.errors import Permanent, Transient
from threadline.settings import ModelSettings

FLOOR = 0.85


async def run(given: argparse.Namespace, console: Console, folder: Path) -> int:
    """Measure and print; return the exit status, which is 1 if too few decisions were right, about
    questions or about silence.

    Raises:
        WrongSet: a labelled set is invalid.
        Permanent, Transient: a server does not start, or a model cannot be called.
    """
    asked = labelled.questions()
    examples = labelled.decisions()
    async with retrieving.own_postgres(folder, dict(os.environ)) as database:
        tables.retrieval(console, await retrieving.measure(database, asked))
        judged = await silence.judge_by_rules(silence.examples(), database)
        async with deciding.judge(ModelSettings.load()) as judge:
            if not judge.scripted:
                judged = await silence.judge_by_model(judged, judge.model)
            tables.silence(console, judge, judged)
            made = await deciding.decide_all(examples, judge.model, database)
            tables.decisions(console, judge, made)
    return max(status(made, scripted=judge.scripted, floor=given.floor), silence_status(judged))


def status(made: Sequence[Made], *, scripted: bool, floor: float) -> int:
    """Return 1 if the script made an invalid decision, or a model decided less than `floor` right;
    otherwise 0.
    """
    if scripted:
        return 0 if all(each.valid for each in made) else 1
    return 0 if metrics.share_right([each.pair for each in made]) >= floor else 1


def silence_status(judged: Sequence[Judged]) -> int:
    """Return 1 if the rules or the model, where it was asked, fall below their floors; otherwise
    0.
    """
    by_rules = silence.share_right(judged) >= silence.FLOOR
    by_model = silence.share_right_by_model(judged) >= silence.MODEL_FLOOR
    return 0 if by_rules and by_model else 1


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make evals", description=__doc__)
    parser.add_argument(
        "--floor",
        type=float,
        default=FLOOR,
        help="the least share of right decisions (%(default)s)",
    )
    given = parser.parse_args(words)
    if not 0 <= given.floor <= 1:
        parser.error(f"--floor is {given.floor}: write a share from 0 to 1")
    return given


def main() -> int:
    given = arguments(sys.argv[1:])
    os.environ.setdefault("THREADLINE_EMBEDDINGS", "local")
    telemetry.configure_logging("WARNING")
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(
        prefix="threadline-evals-", ignore_cleanup_errors=True
    ) as folder:
        try:
            return asyncio.run(run(given, console, Path(folder)))
        except (Permanent, Transient, labelled.WrongSet) as fault:
            console.print(str(fault), style="red", markup=False, soft_wrap=True)
            return 2


if __name__ == "__main__":
    sys.exit(main())
