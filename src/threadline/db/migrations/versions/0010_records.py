"""The operator's records: requests for proposals, what became of them, and what was proposed, scheduled and learnt."""

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"

_TABLES = (
    "agent_jobs, proposed_actions, actors, memories, team_members, events, journal_entries, opportunity_states, rfps"
)


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute(f"DROP TABLE {_TABLES}")
    op.execute("DROP FUNCTION refuse_rewriting(), refuse_second_decision()")
    op.execute("DROP INDEX thread_bindings_record_idx")
