"""What the command line does to a team's documents: they are ingested, listed and forgotten."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from threadline.db.engine import Database
from threadline.knowledge.gathering import gather
from threadline.knowledge.ingest import Ingestion, Known, Outcome, Report, Shelf, Volume
from threadline.knowledge.model import Document
from threadline.knowledge.store import Embedded, Origin
from threadline.knowledge.web import fetching
from threadline.models.embeddings import Embedder
from threadline.wiring.records import records_of

Told = Callable[[int, str, Outcome], None]
"""Is told how many documents there are to look at, and of each that is done."""


class _TeamShelf(Shelf):
    def __init__(self, database: Database, team: str) -> None:
        self._database = database
        self._team = team

    async def known(self) -> Mapping[str, Known]:
        async with self._database.begin() as work:
            kept = await work.knowledge.known(self._team)
        return {source: Known(origin.content_hash, origin.root, model) for source, (origin, model) in kept.items()}

    async def put(self, volume: Volume) -> None:
        origin, embedded = Origin(volume.root, volume.content_hash), Embedded(volume.model, volume.vectors)
        async with self._database.begin() as work:
            await work.knowledge.save(self._team, volume.document, volume.pieces, origin, embedded)

    async def forget_others(self, root: str, sources: Collection[str]) -> Sequence[str]:
        async with self._database.begin() as work:
            return await work.knowledge.forget_others(self._team, root, sources)


class KnowledgeDesk:
    """The documents of one team."""

    def __init__(self, database: Database, team: str) -> None:
        self._database = database
        self._team = team

    async def ingest(
        self,
        paths: Sequence[Path],
        told: Told,
        embedder: Embedder | None,
        *,
        allow_private: bool = False,
        forget_all: bool = False,
    ) -> Report:
        """Bring the documents to what is under the paths; see `Ingestion`.

        Raises:
            Permanent: a path is not there.
            Transient: the database is away.
        """
        async with fetching(allow_private=allow_private) as web:
            gathered = gather(paths, web.fetch)
            size = len(gathered.candidates)
            ingestion = Ingestion(
                _TeamShelf(self._database, self._team),
                embedder,
                lambda source, what: told(size, source, what),
                forget_all=forget_all,
            )
            return await ingestion.run(gathered)

    async def forget(self, source: str) -> bool:
        """Whether there was a document from this source; there is none any more."""
        async with self._database.begin() as work:
            return await work.knowledge.forget(self._team, source)

    async def documents(self) -> list[Document]:
        """By source."""
        async with self._database.begin() as work:
            return await work.knowledge.documents(self._team)


@asynccontextmanager
async def knowledge_desk(team: str = "") -> AsyncIterator[KnowledgeDesk]:
    """Args: `team`, the workspace's id; empty to ask Slack whose the bot's token is."""
    async with records_of(team) as (database, named):
        yield KnowledgeDesk(database, named)
