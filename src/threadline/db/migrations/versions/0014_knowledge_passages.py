"""Documents say how they count, and are found by their passages: by words, mistyped ones too, and by meaning."""

from pathlib import Path

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    """The extension stays: others may use it."""
    op.execute("DROP TABLE knowledge_words, knowledge_passages")
    for column in ("type", "authority", "effective", "expires", "root", "content_hash"):
        op.execute(f"ALTER TABLE knowledge_documents DROP COLUMN {column}")
