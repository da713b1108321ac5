"""Customers with what passed between us, mails that were drafted, and how often an appointment was changed."""

from pathlib import Path

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    op.execute("ALTER TABLE appointments DROP COLUMN revision")
    op.execute("DROP TABLE email_drafts, crm_audit, crm_interactions, crm_leads, crm_companies")
