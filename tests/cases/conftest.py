"""Cases run on the test's database, and a repository that they fix."""

from functools import partial
from pathlib import Path

import pytest

from tests.support.case_scene import StartCase, case_scene
from tests.support.git_repository import GitRepository
from threadline.db.engine import Database
from threadline_devstack.sample_repository import make_sample_repository


@pytest.fixture
def start_case(database: Database, agent_database: Database) -> StartCase:
    return partial(case_scene, database, agent_database)


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    path = tmp_path / "canary-shop.git"
    make_sample_repository(path)
    return GitRepository(path)
