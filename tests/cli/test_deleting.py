"""`threadline records delete` and `forget-person` on a real database: said first, done with --yes, and done once."""

from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.support.recording import create_from
from tests.support.tool_store import THREAD, change
from threadline.db.engine import Database
from threadline.rfps.journal_entries import NewEntry
from threadline.rfps.team_members import TeamMember
from threadline.tools.author import Author

AUTHOR = Author("U1", "c")
IDA = TeamMember("U7", "Ida", "ida@example.com", "Bid writer", "Ten years of tenders.", ("tenders", "law"), 16)


@pytest.fixture
def run(database_url: str, tmp_path: Path) -> Command:
    return Command("records", database_url, tmp_path)


async def test_an_rfp_is_deleted_only_when_that_is_wanted_and_its_traces_are_said_first(
    run: Command, database: Database
) -> None:
    rfp = (await create_from(database, "c1")).rfp
    async with database.begin() as work:
        await work.journal.append(change("j"), rfp.rfp_id, NewEntry("A decision"), AUTHOR)
        await work.bindings.bind_rfp(THREAD, rfp.rfp_id, "U1")
    said = run("delete", rfp.rfp_id)
    told = [
        f"{rfp.rfp_id}: From a file, new",
        "Goes for good: its state (version 1), the text of brief.pdf (24 characters), its due date and its owner.",
        "Stays on record, since nothing deletes those: its journal (1) and its events (0), under its id, its title and "
        "its client; the bot shows them to nobody.",
        f"Bound to it, and told there that it was deleted: {THREAD.channel}/{THREAD.ts}.",
    ]
    hint = f"Nothing was changed: `threadline records delete {rfp.rfp_id} --yes` does it."
    assert (said.returncode, said.stdout.splitlines()) == (0, [*told, hint])
    async with database.begin() as work:
        assert await work.rfps.text_of("T1", rfp.rfp_id) == "A crane for the harbour."
    done = run("delete", rfp.rfp_id, "--yes")
    assert (done.returncode, done.stdout.splitlines()) == (0, [*told, f"{rfp.rfp_id} is deleted."])
    assert "There is nothing yet" in run("list").stdout
    for arguments in ((), ("--yes",)):
        again = run("delete", rfp.rfp_id, *arguments)
        assert (again.returncode, again.stdout) == (0, f"{rfp.rfp_id} is gone already: it was deleted before.\n")


async def test_an_rfp_that_is_not_there_is_refused_with_the_nearest_ids(run: Command, database: Database) -> None:
    rfp = (await create_from(database, "c1")).rfp
    unlike = run("delete", "rfp_abc123", "--yes")
    assert (unlike.returncode, unlike.stdout) == (1, "")
    assert unlike.stderr == "threadline: there is no RFP rfp_abc123; list the RFPs to find its id\n"
    near = run("delete", rfp.rfp_id[:-1], "--yes")
    assert (near.returncode, f"did you mean {rfp.rfp_id}?" in near.stderr) == (1, True)
    assert rfp.rfp_id in run("list").stdout


async def test_somebody_of_the_team_is_forgotten_only_when_that_is_wanted(run: Command, database: Database) -> None:
    async with database.begin() as work:
        await work.team.save("T1", IDA)
    said = run("forget-person", "ida")
    told = [
        "Ida (U7): Bid writer, 16 hours a week, can tenders, law",
        "Goes for good: all of this, mail address ida@example.com, a biography of 21 characters.",
        "Stays: what Slack says of whoever asks the bot, and what is remembered of their turns, for "
        "THREADLINE_MEMORY_DAYS; their name where journals, events and RFPs have it.",
    ]
    hint = "Nothing was changed: `threadline records forget-person U7 --yes` does it."
    assert (said.returncode, said.stdout.splitlines()) == (0, [*told, hint])
    done = run("forget-person", "U7", "--yes")
    assert (done.returncode, done.stdout.splitlines()) == (0, [*told, "Ida (U7) is forgotten, as one of the team."])
    async with database.begin() as work:
        assert await work.team.listed("T1") == []
    again = run("forget-person", "U7", "--yes")
    assert (again.returncode, again.stdout) == (1, "")
    assert "no team member is called 'U7'; `threadline records list` lists" in again.stderr


async def test_who_is_meant_has_to_be_clear(run: Command, database: Database) -> None:
    async with database.begin() as work:
        for each in (IDA, TeamMember("U8", "Bo Olsen"), TeamMember("U9", "bo olsen")):
            await work.team.save("T1", each)
    several = run("forget-person", "Bo Olsen", "--yes")
    assert (several.returncode, several.stdout) == (1, "")
    assert "Bo Olsen is the name of several people: give U8 or U9." in several.stderr
    assert "did you mean Ida (U7)?" in run("forget-person", "Idda", "--yes").stderr
    async with database.begin() as work:
        assert len(await work.team.listed("T1")) == 3
