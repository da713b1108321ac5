"""`python -m tests.scale`: ten thousand open threads, messages in them, and a restart; `make
scale` calls it.
"""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from bench.machine import this_machine
from bench.report import replace_block
from tests.scale import figures
from tests.scale.run import FORMS, measure
from threadline.cli.main import exit_now

BEGIN = "<!-- scaled -->"
END = "<!-- /scaled -->"


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="make scale", description=__doc__)
    parser.add_argument("--form", choices=list(FORMS), default="full")
    parser.add_argument("--threads", type=int, help="in place of the form's")
    parser.add_argument("--rate", type=float, help="messages a second, in place of the form's")
    parser.add_argument("--seconds", type=float, help="of messages, in place of the form's")
    parser.add_argument("--cached", type=int, help="workflows that a core worker keeps in memory")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    parser.add_argument(
        "--page", type=Path, help="a Markdown page whose table is replaced by this run's"
    )
    given = parser.parse_args()
    if given.page and not all(mark in given.page.read_text("utf-8") for mark in (BEGIN, END)):
        parser.error(
            f"{given.page} has no place for the table: write {BEGIN} and {END} where it shall be"
        )
    changes = {
        name: value
        for name in ("threads", "rate", "seconds")
        if (value := getattr(given, name)) is not None
    }
    form = replace(FORMS[given.form], **changes)
    machine = this_machine()
    settings = {"THREADLINE_CACHED_WORKFLOWS": str(given.cached)} if given.cached else {}
    outcome = asyncio.run(measure(form, _say, **settings))
    if outcome.figures:
        shown = figures.markdown(outcome.figures, len(outcome.faults), machine)
        sys.stdout.write(f"{shown}\n")
        if given.json:
            told = {"machine": asdict(machine), "form": asdict(form), **outcome.figures}
            told["faults"] = list(map(str, outcome.faults))
            given.json.write_text(
                json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
        if given.page and not outcome.faults:
            replace_block(given.page, BEGIN, END, shown)
    exit_now(1 if outcome.faults else 0)


if __name__ == "__main__":
    main()
