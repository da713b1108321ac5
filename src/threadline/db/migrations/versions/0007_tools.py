"""What the tools of a conversation need: limits, their executions, and the records they work on."""

from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"

_TABLES = (
    "thread_bindings, estimate_quotes, estimate_items, estimate_roles, estimate_projects, appointments, "
    "appointment_resources, tool_operations, tool_results, agent_tool_executions, limit_verdicts"
)


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute(f"DROP TABLE {_TABLES}")
    op.execute("DROP EXTENSION btree_gist")
