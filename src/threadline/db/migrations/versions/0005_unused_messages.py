"""An index for what no turn has used: without it each question about a case read all that was ever said in it."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.execute("CREATE INDEX bug_conversations_turn_idx ON bug_conversations (bug_id, turn)")


def downgrade() -> None:
    op.execute("DROP INDEX bug_conversations_turn_idx")
