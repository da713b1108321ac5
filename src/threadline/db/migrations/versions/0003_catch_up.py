"""What the catch-up remembers: how far each channel and thread was compared, and what it sent again."""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("DROP TABLE refused_messages, resent_messages, followed_threads, channel_marks")
