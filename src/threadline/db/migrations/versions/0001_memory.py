"""Cases, conversations, turns, posts: everything that outlives a process."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

_TABLES = (
    "threads, services, pull_requests, sla_events, slack_posts, agent_session_entries, agent_sessions, findings, "
    "agent_turns, attachments, bug_conversations, case_transitions, cases"
)


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute(f"DROP TABLE {_TABLES}")
    op.execute("DROP FUNCTION refuse_illegal_step, demand_a_record")
    op.execute("DROP EXTENSION pg_trgm")
