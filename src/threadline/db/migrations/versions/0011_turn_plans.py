"""The way of each turn of a conversation, what the operator was told for it, and what it came to."""

from pathlib import Path

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("DROP TABLE turn_plans")
