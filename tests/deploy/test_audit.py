"""`make audit`: a clean result requires an answer for every package."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from deploy import audit

ROOT = Path(__file__).parents[2]
POLICY = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["threadline"][
    "licences"
]
FINE = {"name": "rich", "version": "15.0", "vulns": []}
BAD = {"name": "jinja", "version": "1.0", "vulns": [{"id": "CVE-1", "fix_versions": ["1.1"]}]}
SKIPPED = {"name": "idna", "skip_reason": "Dependency not found"}


def test_known_vulnerability_is_reported_with_its_fix() -> None:
    assert audit.vulnerabilities({"dependencies": [FINE]}) == []
    assert audit.vulnerabilities({"dependencies": [FINE, BAD]}) == [
        "jinja 1.0 has CVE-1: take 1.1"
    ]


@pytest.mark.parametrize("packages", [[], [FINE, SKIPPED], [BAD, SKIPPED]])
def test_package_without_an_answer_is_not_clean(packages: list[dict[str, Any]]) -> None:
    with pytest.raises(audit.NotChecked, match="was not asked about"):
        audit.vulnerabilities({"dependencies": packages})


@pytest.mark.parametrize("report", [{}, {"dependencies": None}, []])
def test_answer_in_another_form_is_not_clean(report: Any) -> None:
    with pytest.raises(audit.NotChecked, match="lists no packages"):
        audit.vulnerabilities(report)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"License-Expression": "MIT"}, ""),
        ({"License-Expression": "Apache-2.0 OR GPL-3.0-only"}, ""),
        ({"License-Expression": "MIT AND (BSD-3-Clause OR GPL-2.0-only)"}, ""),
        ({"License-Expression": "MIT AND GPL-2.0-only"}, "is under MIT AND GPL-2.0-only"),
        ({"License-Classifier": "DFSG approved; MIT License"}, ""),
        (
            {"License-Classifier": "MIT License; GNU General Public License (GPL)"},
            "is under MIT License; GNU",
        ),
        ({"License-Classifier": "OSI Approved"}, "is under OSI Approved"),
        ({"License-Metadata": "AGPL-3.0"}, "is under AGPL-3.0"),
        (
            {"License-Expression": "GPL-3.0-only", "License-Metadata": "MIT"},
            "is under GPL-3.0-only",
        ),
        ({"License-Metadata": ""}, "does not tell its licence"),
        ({}, "does not tell its licence"),
    ],
)
def test_licence_is_allowed_by_name_only(told: dict[str, str], found: str) -> None:
    unknown = dict.fromkeys(
        ("License-Expression", "License-Classifier", "License-Metadata"), "UNKNOWN"
    )
    sentences = audit.unwelcome(
        [{"Name": "some-package", **unknown, **told}], POLICY["allowed"], {}
    )
    assert [sentence.startswith(f"some-package {found}") for sentence in sentences] == (
        [True] if found else []
    )


def test_accepted_package_has_a_reason_and_is_installed() -> None:
    assert (
        audit.unwelcome(
            [{"Name": "psycopg", "License-Expression": "LGPL-3.0-only"}], [], POLICY["accepted"]
        )
        == []
    )
    assert (
        audit.unwelcome(
            [{"Name": "Psy_Copg", "License-Expression": "LGPL-3.0-only"}], [], {"psy-copg": "used"}
        )
        == []
    )
    locked = set(
        re.findall(
            r"^([a-z][\w.-]*)==", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE
        )
    )
    for name, why in POLICY["accepted"].items():
        assert name in locked
        assert len(why) > 20


@pytest.mark.parametrize("installed", [True, False])
def test_tool_that_fails_or_is_missing_makes_no_clean_result(
    tmp_path: Path, installed: bool
) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    if installed:
        for tool in ("pip-audit", "pip-licenses"):
            (tmp_path / tool).write_text(
                "#!/bin/sh\necho 'requests.ConnectionError: no route' >&2\nexit 1\n"
            )
            (tmp_path / tool).chmod(0o700)
    words = [str(tmp_path / "python"), "-I", str(ROOT / "deploy" / "audit.py"), sys.executable]
    done = subprocess.run(
        words, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == audit.NOT_CHECKED
    assert done.stdout.count("NOT CHECKED, since") == 2
    assert done.stdout.count("could not be started") == (0 if installed else 2)
    assert installed or done.stderr == ""
    assert "no route" not in done.stdout


def test_tools_of_the_audit_are_locked_without_an_index() -> None:
    lock = (ROOT / "requirements-audit.lock").read_text("utf-8")
    assert {"pip-audit", "pip-licenses"} <= set(
        re.findall(r"^([a-z][\w.-]*)==", lock, re.MULTILINE)
    )
    assert "://" not in lock
    assert "index" not in lock.replace("importlib", "")
    for block in re.split(r"^(?=[a-z])", lock, flags=re.MULTILINE):
        assert not block.strip() or "--hash=sha256:" in block
