"""Conversations: what people said in them, what the model reads, and how each turn ended."""

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("DROP INDEX slack_posts_answers_idx, slack_posts_talk_idx")
    op.execute("DROP TABLE model_calls, conversation_turns, transcript, conversation_messages, conversations")
