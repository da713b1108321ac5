"""Members of a team and their skills."""

import pytest

from threadline.db.engine import Database
from threadline.rfps.model import MemberNotFound, RfpRefused, TeamMember
from threadline.rfps.store import TeamMemberStore

ANA = TeamMember(
    "U1", "Ana Silva", "ana@acme.example", "Engineer", "Builds bridges.", ("Python", "Bridges"), 20
)
BEN = TeamMember("U2", "Ben Okoro", skills=("Writing",))


async def test_member_is_saved_replaced_listed_and_deleted(database: Database) -> None:
    async with database.begin() as tx:
        await TeamMemberStore(tx).save("T1", BEN)
        await TeamMemberStore(tx).save("T1", TeamMember("U1", "Old"))
        await TeamMemberStore(tx).save("T1", ANA)
        assert await TeamMemberStore(tx).listed("T1") == [ANA, BEN]
        assert await TeamMemberStore(tx).listed("T1", "python") == [ANA]
        assert await TeamMemberStore(tx).listed("T1", "%") == []
        assert await TeamMemberStore(tx).listed("T1", limit=1) == [ANA]
        assert [await TeamMemberStore(tx).get("T1", each) for each in ("U2", "U9")] == [BEN, None]
        assert await TeamMemberStore(tx).forget("T1", "U2")
        assert not await TeamMemberStore(tx).forget("T1", "U2")
        assert await TeamMemberStore(tx).listed("T1") == [ANA]


async def test_member_is_found_by_id_mention_or_name_in_one_team(database: Database) -> None:
    async with database.begin() as tx:
        await TeamMemberStore(tx).save("T1", ANA)
        for words in ("U1", "<@U1>", " ana  SILVA "):
            assert await TeamMemberStore(tx).named("T1", words) == [ANA]
        await TeamMemberStore(tx).save("T1", TeamMember("U3", "Ana Silva"))
        assert [each.user_id for each in await TeamMemberStore(tx).named("T1", "Ana Silva")] == [
            "U1",
            "U3",
        ]
        for team, words in (("T2", "U1"), ("T1", "Zoe"), ("T1", "\x00"), ("T1", "")):
            with pytest.raises(MemberNotFound):
                await TeamMemberStore(tx).named(team, words)
        assert await TeamMemberStore(tx).listed("T2") == []


async def test_member_is_normalised_or_refused(database: Database) -> None:
    async with database.begin() as tx:
        for member in (
            TeamMember("", "x"),
            TeamMember("U1", " \x00"),
            TeamMember("U1", "x", hours_per_week=169),
        ):
            with pytest.raises(RfpRefused):
                await TeamMemberStore(tx).save("T1", member)
        await TeamMemberStore(tx).save(
            "T1", TeamMember(" U1 ", " A\nB ", skills=(" a  b ", "a b", "", "\x00"))
        )
        assert await TeamMemberStore(tx).listed("T1") == [TeamMember("U1", "A B", skills=("a b",))]
