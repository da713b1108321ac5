"""The table of the operator's memories. Constraints, indexes, defaults and triggers are in
`alembic/`.
"""

from sqlalchemy import ARRAY, Column, Computed, Table
from sqlalchemy.dialects.postgresql import TSVECTOR

from threadline.db.columns import MOMENT, TEXT, identity, metadata, required

memories = Table(
    "memories",
    metadata,
    identity(),
    *(required(name, TEXT) for name in ("team", "kind", "search_text", "text", "error_class")),
    *(required(name, TEXT) for name in ("user_id", "channel", "rfp_id", "key")),
    required("words", ARRAY(TEXT)),
    Column(
        "search_vector",
        TSVECTOR,
        Computed(
            "((setweight(to_tsvector('english'::regconfig, search_text), 'A'::\"char\")"
            " || setweight(to_tsvector('english'::regconfig, text), 'B'::\"char\"))"
            " || word_vector('english'::regconfig, words))",
            persisted=True,
        ),
        nullable=False,
    ),
    required("created_at", MOMENT),
)
