"""The tables of the sales tools. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import Column, Computed, ForeignKey, Index, Table, UniqueConstraint, text

from threadline.db.columns import MOMENT, TEXT, identity, metadata, required


def _numbered(name: str, prefix: str) -> Column[str]:
    """An id for people, made of the row's number."""
    return Column(name, TEXT, Computed(f"('{prefix}-'::text || (id)::text)", persisted=True), nullable=False)


crm_companies = Table(
    "crm_companies",
    metadata,
    identity(),
    _numbered("company_id", "CO"),
    *(required(name, TEXT) for name in ("team", "name", "website", "industry", "company_notes")),
    required("created_at", MOMENT),
    UniqueConstraint("company_id"),
    Index("crm_companies_name_idx", "team", text("lower(name)"), unique=True),
)

crm_leads = Table(
    "crm_leads",
    metadata,
    identity(),
    _numbered("lead_id", "LEAD"),
    *(required(name, TEXT) for name in ("team", "user_id", "email", "name", "title", "phone", "stage", "notes")),
    Column("company_id", TEXT, ForeignKey("crm_companies.company_id")),
    required("created_at", MOMENT),
    UniqueConstraint("lead_id"),
    Index("crm_leads_user_idx", "team", "user_id", unique=True, postgresql_where=text("user_id <> ''")),
    Index("crm_leads_email_idx", "team", "email", unique=True, postgresql_where=text("email <> ''")),
)

crm_interactions = Table(
    "crm_interactions",
    metadata,
    identity(),
    Column("lead_id", TEXT, ForeignKey("crm_leads.lead_id", ondelete="CASCADE"), nullable=False),
    *(required(name, TEXT) for name in ("kind", "summary")),
    required("at", MOMENT),
    required("user_id", TEXT),
    Index("crm_interactions_lead_idx", "lead_id", "id"),
)

crm_audit = Table(
    "crm_audit",
    metadata,
    identity(),
    Column("lead_id", TEXT, ForeignKey("crm_leads.lead_id", ondelete="CASCADE")),
    Column("company_id", TEXT, ForeignKey("crm_companies.company_id", ondelete="CASCADE")),
    *(required(name, TEXT) for name in ("field", "old_value", "new_value")),
    *(required(name, TEXT) for name in ("user_id", "correlation_id", "operation_key")),
    required("changed_at", MOMENT),
    Index("crm_audit_lead_idx", "lead_id", "id"),
    Index("crm_audit_company_idx", "company_id", "id"),
)

email_drafts = Table(
    "email_drafts",
    metadata,
    identity(),
    _numbered("draft_id", "MAIL"),
    *(required(name, TEXT) for name in ("team", "channel", "thread_ts", "user_id", "recipient", "subject", "body")),
    *(required(name, TEXT) for name in ("status", "operation_key", "message_id")),
    required("created_at", MOMENT),
    Column("sent_at", MOMENT),
    UniqueConstraint("draft_id"),
    Index("email_drafts_age_idx", "created_at"),
    Index("email_drafts_operation_idx", "operation_key", unique=True, postgresql_where=text("operation_key <> ''")),
)
