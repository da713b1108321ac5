"""The tables of documents. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import ARRAY, REAL, Column, Computed, Date, Double, ForeignKey, Index, Integer, Table, UniqueConstraint
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
    *(required(name, TEXT) for name in ("ingest_root", "content_hash")),
    UniqueConstraint("team", "source"),
)

knowledge_passages = Table(
    "knowledge_passages",
    metadata,
    Column("document_id", ForeignKey("knowledge_documents.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    *(required(name, TEXT) for name in ("title", "section", "body")),
    Column(
        "search_vector",
        TSVECTOR,
        Computed(
            "((setweight(to_tsvector('english'::regconfig, title), 'A'::\"char\")"
            " || setweight(to_tsvector('english'::regconfig, section), 'B'::\"char\"))"
            " || setweight(to_tsvector('english'::regconfig, body), 'C'::\"char\"))",
            persisted=True,
        ),
    ),
    required("model", TEXT),
    Column("vector", ARRAY(REAL)),
    Index(
        "knowledge_passages_search_vector_idx",
        "search_vector",
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    ),
)

knowledge_words = Table(
    "knowledge_words",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "word")),
    Index(
        "knowledge_words_letters_idx",
        "word",
        postgresql_using="gin",
        postgresql_ops={"word": "gin_trgm_ops"},
        postgresql_with={"fastupdate": "off"},
    ),
)
