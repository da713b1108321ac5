"""The tables of documents. Constraints, indexes, defaults and triggers are in `alembic/`."""

from sqlalchemy import ARRAY, REAL, BigInteger, Column, Date, Double, Integer, Table
from sqlalchemy.dialects.postgresql import TSVECTOR

from threadline.db.columns import MOMENT, TEXT, identity, metadata, required

knowledge_documents = Table(
    "knowledge_documents",
    metadata,
    identity(),
    *(required(name, TEXT) for name in ("team", "title", "source", "body")),
    required("updated_at", MOMENT),
    required("type", TEXT),
    required("authority", Double()),
    *(Column(name, Date) for name in ("effective", "expires")),
    *(required(name, TEXT) for name in ("ingest_root", "content_hash", "language")),
)

knowledge_passages = Table(
    "knowledge_passages",
    metadata,
    Column("document_id", BigInteger, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    *(required(name, TEXT) for name in ("title", "section", "body")),
    required("search_vector", TSVECTOR()),
    required("model", TEXT),
    Column("vector", ARRAY(REAL)),
)

knowledge_words = Table(
    "knowledge_words",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "word")),
)
