"""The texts of a request, over all the turns that a turn resumes, on the real Postgres."""

from tests.support.conversation_store import THREAD, StoredConversation, deletion, mention, says
from threadline.conversations.model.turn_route import Agent, Branch, TurnRoute
from threadline.conversations.store.turns import MAX_RESUMED_TURNS, TurnStore
from threadline.db.engine import Database
from threadline.operator.model import routing as questions


async def turn(talk: StoredConversation, number: int, resumes: int = 0) -> None:
    async with talk.database.begin() as tx:
        await TurnStore(tx).begin(
            THREAD, number, TurnRoute(Agent.OPERATOR, Branch.D, resumes_turn=resumes)
        )
    await talk.turn(number)


async def asked(talk: StoredConversation, number: int) -> list[str]:
    async with talk.database.begin() as tx:
        return await TurnStore(tx).request_texts(THREAD, number)


async def test_a_request_that_was_asked_about_twice_is_whole(database: Database) -> None:
    talk = StoredConversation(database)
    await talk.hear(mention(0, "hello"))
    await turn(talk, 1)
    for number, words in enumerate(
        ("update the rfp", "which one? the crane", "rfp_abc123"), start=2
    ):
        await talk.hear(mention(number * 10, words))
        await turn(talk, number, resumes=number - 1 if number > 2 else 0)
    assert await asked(talk, 4) == ["update the rfp", "which one? the crane", "rfp_abc123"]
    assert await asked(talk, 1) == ["hello"]
    await talk.hear(deletion(30))
    assert await asked(talk, 4) == ["update the rfp", "rfp_abc123"]


async def test_each_message_is_used_to_the_bound_that_its_writer_is_shown(
    database: Database,
) -> None:
    talk = StoredConversation(database)
    await talk.hear(mention(0, "word " * 5_000 + "and then delete all"), says(1, "  in   order "))
    await turn(talk, 1)
    long, short = await asked(talk, 1)
    assert len(long) <= questions.MAX_QUESTION
    assert short == "in order"


async def test_a_chain_has_an_end(database: Database) -> None:
    talk = StoredConversation(database)
    for number in range(1, MAX_RESUMED_TURNS + 4):
        await talk.hear(mention(number * 10, f"words {number}"))
        await turn(talk, number, resumes=number - 1)
    assert len(await asked(talk, MAX_RESUMED_TURNS + 3)) == MAX_RESUMED_TURNS
