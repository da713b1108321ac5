"""`python -m tests.scale`: ten thousand open threads, messages over them, and a restart; `make scale` calls it."""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from bench.machine import this_machine
from bench.report import replace_block
from tests.scale import figures
from tests.scale.run import FORMS, Form, Run
from tests.scale.stack import ScaleStack
from threadline.cli.main import exit_now

BEGIN, END = "<!-- scaled -->", "<!-- /scaled -->"


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


async def measure(form: Form, cached: int, file: Path | None, page: Path | None) -> bool:
    """Run a form once, tell its figures, and return whether the oracle is content. `cached`: workflows that a worker
    keeps, 0 for the product's own number."""
    machine = this_machine()
    folder = Path(tempfile.mkdtemp(prefix="threadline-scale-"))
    settings = {"THREADLINE_CACHED_WORKFLOWS": str(cached)} if cached else {}
    async with ScaleStack.serving(folder, **settings) as stack:
        outcome = await Run(stack, form, _say).play()
    shown = figures.markdown(outcome.figures, machine)
    sys.stdout.write(f"{shown}\n")
    if file:
        told = {"machine": asdict(machine), "form": asdict(form), **outcome.figures}
        file.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for fault in outcome.faults[:100]:
        _say(str(fault))
    if outcome.faults:
        _say(f"{len(outcome.faults)} faults. Logs and data are in {folder}.")
        return False
    if page:
        replace_block(page, BEGIN, END, shown)
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="make scale", description=__doc__)
    parser.add_argument("--form", choices=list(FORMS), default="full")
    parser.add_argument("--threads", type=int, help="in place of the form's")
    parser.add_argument("--rate", type=float, help="messages a second, in place of the form's")
    parser.add_argument("--seconds", type=float, help="of messages, in place of the form's")
    parser.add_argument("--conversations", type=float, help="their share of the threads, 0 to 1; the others are cases")
    parser.add_argument("--at-once", type=int, help="threads that are being opened at the same time")
    parser.add_argument("--cached", type=int, default=0, help="workflows that a core worker keeps in memory")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    parser.add_argument("--page", type=Path, help="a Markdown page whose table is replaced by this run's")
    given = parser.parse_args()
    names = ("threads", "rate", "seconds", "conversations", "at_once")
    form = replace(FORMS[given.form], **{name: value for name in names if (value := getattr(given, name)) is not None})
    if given.page and not all(mark in given.page.read_text("utf-8") for mark in (BEGIN, END)):
        parser.error(f"{given.page} has no place for the table: write {BEGIN} and {END} where it shall be")
    clean = asyncio.run(measure(form, given.cached, given.json, given.page))
    exit_now(0 if clean else 1)


if __name__ == "__main__":
    main()
