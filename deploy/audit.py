"""`make audit`: known vulnerabilities and the licences of the packages in requirements.lock.

Run as `python deploy/audit.py PYTHON` by an interpreter that has pip-audit and pip-licenses;
PYTHON is the interpreter whose packages' licences are read. The exit code is 0 without findings, 1
with findings, and 3 when a check could not be made: an empty result is worthless without a lookup.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

FINE = 0
FOUND = 1
NOT_CHECKED = 3

ROOT = Path(__file__).parents[1]
_UNKNOWN = "UNKNOWN"
_NO_LICENCE = frozenset({"DFSG approved", "OSI Approved"})
"""Classifiers that approve a licence without naming it."""

Row = Mapping[str, Any]


class NotChecked(Exception):
    """The check itself could not be made; the message has the reason."""


def vulnerabilities(report: Row) -> list[str]:
    """Return a sentence for each known vulnerability in pip-audit's report.

    Raises:
        NotChecked: pip-audit could not look up some package, which it calls a success.
    """
    packages = _listed(report)
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped or not packages:
        named = ", ".join(skipped[:5]) + (
            f" and {len(skipped) - 5} more" if len(skipped) > 5 else ""
        )
        raise NotChecked(
            f"the database of vulnerabilities was not asked about {named or 'any package'}"
        )
    return [
        (
            f"{package['name']} {package['version']} has {known['id']}: "
            f"{_remedy(known['fix_versions'])}"
        )
        for package in packages
        for known in package["vulns"]
    ]


def _listed(report: Any) -> list[Row]:
    packages = report.get("dependencies") if isinstance(report, Mapping) else None
    if not isinstance(packages, list):
        raise NotChecked("pip-audit's answer lists no packages")
    return packages


def _remedy(versions: Sequence[str]) -> str:
    return f"take {' or '.join(versions)}" if versions else "there is no version without it yet"


def unwelcome(
    packages: Collection[Row], allowed: Collection[str], accepted: Mapping[str, str]
) -> list[str]:
    """Return a sentence for each package whose licence the policy does not allow.

    Args:
        packages: the output of `pip-licenses --from=all`.
        allowed: names of licences, as in SPDX or in classifiers.
        accepted: reasons to accept a package in spite of its licence, by its name.

    Raises:
        NotChecked: there are no packages.
    """
    if not packages:
        raise NotChecked("no package was found whose licence could be read")
    found = []
    for package in packages:
        name = package["Name"]
        licence = _licence(package)
        if _same(name) not in map(_same, accepted) and not _is_allowed(licence, allowed):
            told = "does not tell its licence" if licence == _UNKNOWN else f"is under {licence}"
            found.append(f"{name} {told}: replace it, or say in pyproject.toml why it is accepted")
    return found


def _same(name: str) -> str:
    """Return a package's normalised name: its metadata and a lock may spell it differently."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _licence(package: Row) -> str:
    """Return the most exact licence in a package's metadata."""
    told = (
        package.get(f"License-{source}", _UNKNOWN)
        for source in ("Expression", "Classifier", "Metadata")
    )
    return next((licence for licence in told if licence not in ("", _UNKNOWN)), _UNKNOWN)


def _is_allowed(licence: str, allowed: Collection[str]) -> bool:
    """Return whether a licence is allowed. `OR` leaves a choice; `AND`, and a list of classifiers,
    which may mean either, must be allowed as a whole.
    """
    if licence in allowed:
        return True
    every = [
        part.strip() for part in re.split(r"\bAND\b|;", licence) if part.strip() not in _NO_LICENCE
    ]
    return bool(every) and all(
        any(one.strip(" ()") in allowed for one in re.split(r"\bOR\b", part)) for part in every
    )


def _run(*words: str) -> Any:
    """Run one of the two tools and return its JSON, for any exit code."""
    tool = str(Path(sys.executable).with_name(words[0]))
    try:
        done = subprocess.run(
            [tool, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return json.loads(done.stdout)
    except OSError as error:
        raise NotChecked(
            f"{words[0]} could not be started ({error.strerror}): `make audit` installs it"
        ) from None
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
        kind = last.partition(":")[0]
        raise NotChecked(f"{words[0]} gave no answer ({kind}); is the network there?") from None


def _asked(words: Sequence[str]) -> list[str]:
    lock = str(ROOT / "requirements.lock")
    if words[0] == "vulnerabilities":
        options = ("--disable-pip", "--require-hashes", "--format=json", "--progress-spinner=off")
        return vulnerabilities(_run("pip-audit", "--requirement", lock, *options))
    policy = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["threadline"][
        "licences"
    ]
    packages = _run("pip-licenses", f"--python={words[1]}", "--from=all", "--format=json")
    return unwelcome(packages, policy["allowed"], policy["accepted"])


def main(python: str) -> int:
    """Make both checks, also when the first one has findings, and return the exit code."""
    ended = FINE
    for words in (("licences", python), ("vulnerabilities",)):
        try:
            found = _asked(words)
        except NotChecked as reason:
            print(f"{words[0]}: NOT CHECKED, since {reason}")  # noqa: T201 # a command's answer
            ended = max(ended, NOT_CHECKED)
            continue
        for sentence in found or ["nothing found"]:
            print(f"{words[0]}: {sentence}")  # noqa: T201 # a command's answer
        ended = max(ended, FOUND if found else FINE)
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
