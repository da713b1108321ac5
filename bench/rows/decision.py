"""The costs of a decision: a turn answered from the documents, their search, and a thread that a
person has taken over.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from random import Random
from statistics import median

import asyncpg
from sqlalchemy import text

from bench.figures import Figure, Goal, Row, pair, percentile
from bench.ground import Ground
from bench.path import PATIENCE
from bench.rows import latency
from bench.rows.latency import Least
from bench.rows.operator import Stepped, overhead
from bench.rows.talk import added
from bench.scale import by_turns
from bench.talk import LOOKED_UP, Talks, all_were_answered, talks
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.store.handovers import HandoverStore
from threadline.gateway.routes import Route, RouteTarget
from threadline.knowledge.documents import split_document
from threadline.knowledge.model import SearchQuery
from threadline.knowledge.search import search
from threadline.knowledge.store import KnowledgeStore
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage, MessageKind, SenderType, message_id
from threadline_devstack.sample_records import sample_documents
from threadline_devstack.slack import identity

TURN = "a turn that is answered from the documents"
STEPS = ("begin_turn",)
BARE = "`websearch_to_tsquery` over the same passages with any of the words, ranked by `ts_rank`"
CLAIM = "I want a refund for the night of the outage."
WITHIN = Goal("ratio at most", 1.5)
PASSAGES = (10_000, 200_000)
_WORDS = 5_000
_EACH = 150
_IN_A_DOCUMENT = 20
"""Sizes: distinct words, words in a passage, and passages in a document."""
_ASKED = 6
_TEAM = "T0SEARCHED"
_LETTERS = text(
    "INSERT INTO knowledge_words SELECT :team, unnest(CAST(:words AS text[])) ON CONFLICT DO "
    "NOTHING"
)
_DOCUMENT = text("""
WITH document AS (
    INSERT INTO knowledge_documents (team, title, source, body)
    VALUES (:team, 'Document ' || CAST(:number AS text), CAST(:number AS text) || '.md', '-')
    RETURNING id
)
INSERT INTO knowledge_passages (document_id, position, title, section, body, model, search_vector)
SELECT id, place, 'Document ' || CAST(:number AS text), CAST(place AS text), body, '',
       setweight(to_tsvector('english', 'Document ' || CAST(:number AS text)), 'A')
       || setweight(to_tsvector('english', CAST(place AS text)), 'B')
       || setweight(to_tsvector('english', body), 'C')
FROM document
CROSS JOIN unnest(CAST(:bodies AS text[])) WITH ORDINALITY AS given (body, place)
""")
_BARE = text("""
SELECT document_id, position
FROM knowledge_passages p JOIN knowledge_documents d ON d.id = p.document_id
CROSS JOIN websearch_to_tsquery('english', :question) asked
WHERE d.team = :team AND p.search_vector @@ asked
ORDER BY ts_rank(p.search_vector, asked) DESC LIMIT 20
""")


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    async with ground.database.begin() as tx:
        for document in sample_documents():
            await KnowledgeStore(tx).save(identity.TEAM, document, split_document(document))
    async with talks(ground) as (ours, floor):
        for row in await overhead(Stepped("decision", TURN, LOOKED_UP, STEPS), ours, floor):
            yield row
        for row in await _history(ours):
            yield row
        await all_were_answered(ground)
        yield await _relayed(ours)
    async for row in _search(ground):
        yield row


async def _history(ours: Talks) -> list[Row]:
    sizes = [
        await added(ours, thread, LOOKED_UP) for thread in await ours.open(ours.ground.scale.of(5))
    ]
    return [
        Row(
            "decision",
            f"{TURN}: history events",
            Figure(tuple(events for events, _ in sizes), "events"),
        )
    ]


# -- a person has taken over


async def _relayed(ours: Talks) -> Row:
    """Measure from a reply under the card to its preview there, beside one activity after one
    message.
    """
    ground = ours.ground
    count = ground.scale.of(20, least=2)
    async with ground.part("least_worker", ground.temporal_address):
        floor = Least(ground)
        cards = [await _claimed(ours) for _ in range(count)]
        least = await floor.open(count)

        async def relay() -> list[float]:
            return [await _relay(ours, card) for card in cards]

        mine, bare = await by_turns(
            ground.scale.rounds, relay, lambda: _started(floor.times(least))
        )
    times = pair((median(run) * 1000 for run in mine), (median(run) * 1000 for run in bare), "ms")
    return Row(
        "decision", "a reply under the card → shown there with Undo, p50", *times, latency.FLOOR
    )


async def _started(measured: Awaitable[latency.Times]) -> Sequence[float]:
    return (await measured).started


async def _claimed(ours: Talks) -> Thread:
    """Return the place of a card under which a person answers."""
    thread = ours.new()
    await ours.turn(thread, CLAIM)
    async with asyncio.timeout(PATIENCE):
        while True:
            async with ours.ground.database.begin() as tx:
                handover = await HandoverStore(tx).get(ConversationTurn(thread, 1))
            if handover and handover.card_ts:
                return Thread(thread.team, handover.channel, handover.card_ts)
            await asyncio.sleep(0.02)


async def _relay(ours: Talks, card: Thread) -> float:
    ts = ours.clock.next()
    id_ = message_id(card.team, card.channel, ts)
    said = IncomingMessage(
        id_,
        MessageKind.MESSAGE,
        SenderType.DEVELOPER,
        identity.DEVELOPER,
        f"reply: {ts}",
        card.channel,
        ts,
    )
    began = time.time()
    await ours.ground.router.deliver(Route(RouteTarget.CASE_THREAD, card, said))
    async with asyncio.timeout(PATIENCE):
        while not ours.slack.posts[ts]:  # noqa: ASYNC110 - the other side is other processes
            await asyncio.sleep(0.002)
    return ours.slack.last_post - began


# -- the search


async def _search(ground: Ground) -> AsyncGenerator[Row, None]:
    """Search by words, and with two words mistyped."""
    dice = Random(1)  # noqa: S311 - no secret depends on it
    words = [
        "".join(dice.choices("abcdefghilmnoprstuw", k=dice.randint(4, 9))) for _ in range(_WORDS)
    ]
    usual = [
        " ".join(dice.choices(words[:60], k=_ASKED)) for _ in range(ground.scale.of(40, least=4))
    ]
    odd = [
        f"{each} {words[0][1::-1]}{words[0][2:]} {words[1][:-2]}{words[1][:-3:-1]}"
        for each in usual
    ]
    laid = 0
    for size in PASSAGES:
        passages = ground.scale.of(size, least=2 * _IN_A_DOCUMENT)
        await _lay(ground, range(laid // _IN_A_DOCUMENT, passages // _IN_A_DOCUMENT), words, dice)
        laid = passages
        for what, questions in (("", usual), (", two words of it mistyped", odd)):

            async def ours(questions: Sequence[str] = questions) -> float:
                return await _seconds(questions, lambda question: _by_words(ground, question))

            async def floor() -> float:
                return await _seconds(usual, lambda question: _bare(ground, question))

            mine, bare = await by_turns(ground.scale.rounds, ours, floor)
            times = pair((run * 1000 for run in mine), (run * 1000 for run in bare), "ms")
            goal = None if what else WITHIN
            yield Row(
                "decision", f"a question{what}, in {passages:,} passages, p50", *times, BARE, goal
            )


async def _lay(ground: Ground, documents: range, words: Sequence[str], dice: Random) -> None:
    """Store documents. As in a language, the second word is half as frequent as the first, and the
    third a third as frequent. The index is built after all passages are stored, which takes a
    third of the time.
    """
    weights = [1 / place for place in range(1, len(words) + 1)]
    unhurried = await asyncpg.connect(ground.databases.owner)
    index = await unhurried.fetchval(
        "SELECT pg_get_indexdef('knowledge_passages_search_vector_idx'::regclass)"
    )
    await unhurried.execute("DROP INDEX knowledge_passages_search_vector_idx")
    for number in documents:
        bodies = [" ".join(dice.choices(words, weights, k=_EACH)) for _ in range(_IN_A_DOCUMENT)]
        async with ground.database.begin() as tx:
            await tx.execute(_DOCUMENT, {"team": _TEAM, "number": str(number), "bodies": bodies})
    await unhurried.execute(index)
    await unhurried.execute("ANALYZE")
    await unhurried.close()
    async with ground.database.begin() as tx:
        await tx.execute(_LETTERS, {"team": _TEAM, "words": sorted(set(words))})


async def _seconds(questions: Sequence[str], ask: Callable[[str], Awaitable[None]]) -> float:
    took = []
    for question in questions:
        began = time.perf_counter()
        await ask(question)
        took.append(time.perf_counter() - began)
    return percentile(took, 0.5)


async def _by_words(ground: Ground, question: str) -> None:
    await search(ground.database, None, SearchQuery(_TEAM, question))


async def _bare(ground: Ground, question: str) -> None:
    async with ground.database.begin() as tx:
        await tx.execute(_BARE, {"team": _TEAM, "question": " or ".join(question.split())})
