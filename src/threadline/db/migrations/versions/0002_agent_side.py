"""The agent's side: views it may read, and functions that check its claim before they write."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"

_FUNCTIONS = (
    "agent_append_entries, append_entries, agent_record_finding, agent_finish_turn, agent_renew_lease, held_claim, "
    "agent_claim_turn, agent_similar_cases"
)
_VIEWS = (
    "agent_transcript_keys, agent_transcripts, agent_attachments, agent_services, agent_findings, agent_cases, "
    "agent_conversations"
)


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute(f"DROP FUNCTION {_FUNCTIONS}")
    op.execute(f"DROP VIEW {_VIEWS}")
