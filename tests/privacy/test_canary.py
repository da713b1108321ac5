"""With keys, the file of Temporal's server holds nothing that anybody said; without them, everything."""

import base64
import os
from pathlib import Path

import asyncpg
import pytest

from tests.privacy.canary_scene import FINDINGS, TOLD, UNPROTECTED, dev_server, house_at, play
from tests.privacy.canary_search import forms, found
from threadline.db.engine import Database
from threadline.privacy.keys import Key, KeyRing

pytestmark = pytest.mark.slow

RING = KeyRing((Key("canary", bytes(range(32))),))
EVERYTHING = {*TOLD.values(), FINDINGS, UNPROTECTED}


async def test_temporals_file_holds_no_word_in_clear(database: Database, pool: asyncpg.Pool, tmp_path: Path) -> None:
    async with dev_server(tmp_path) as address, house_at(address, RING, database, pool) as home:
        await play(home)
    assert found(EVERYTHING, tmp_path) == {UNPROTECTED}


async def test_without_keys_the_same_case_leaves_every_word_there(
    database: Database, pool: asyncpg.Pool, tmp_path: Path
) -> None:
    """The control: whoever finds nothing above would have found it. What stays out is kept out without a key, too."""
    async with dev_server(tmp_path) as address, house_at(address, None, database, pool) as home:
        await play(home)
    assert found(EVERYTHING, tmp_path) == EVERYTHING - {FINDINGS, TOLD["cause"]}


@pytest.mark.parametrize("before", range(4))
def test_a_word_is_found_however_it_is_written(before: int, tmp_path: Path) -> None:
    text = b"x" * before + UNPROTECTED.encode() + b" and more"
    for written in (text, base64.b64encode(text), text.hex().encode(), text.decode().encode("utf-16-le")):
        assert any(form in written for form in forms(UNPROTECTED))
        (tmp_path / "file").write_bytes(os.urandom(99) + written)
        assert found(EVERYTHING, tmp_path) == {UNPROTECTED}
