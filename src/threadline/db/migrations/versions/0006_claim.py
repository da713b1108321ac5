"""What a turn is to use is found without reading what others have used, or what the bot has said."""

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    """The function as it was does the same, and 0002 takes it away."""
    op.execute("DROP INDEX bug_conversations_turn_idx")
    op.execute("CREATE INDEX bug_conversations_turn_idx ON bug_conversations (bug_id, turn)")
