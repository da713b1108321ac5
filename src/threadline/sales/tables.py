"""The tables of the sales tools. Constraints, indexes, defaults and triggers are in `alembic/`."""

from sqlalchemy import Column, Computed, Table

from threadline.db.columns import MOMENT, TEXT, identity, metadata, required


def _numbered(name: str, prefix: str) -> Column[str]:
    """Return a column with an id for people, computed from the row's number."""
    return Column(
        name, TEXT, Computed(f"('{prefix}-'::text || (id)::text)", persisted=True), nullable=False
    )


crm_companies = Table(
    "crm_companies",
    metadata,
    identity(),
    _numbered("company_id", "CO"),
    *(required(name, TEXT) for name in ("team", "name", "website", "industry", "company_notes")),
    required("created_at", MOMENT),
)

crm_leads = Table(
    "crm_leads",
    metadata,
    identity(),
    _numbered("lead_id", "LEAD"),
    *(
        required(name, TEXT)
        for name in ("team", "user_id", "email", "name", "title", "phone", "stage", "notes")
    ),
    Column("company_id", TEXT),
    required("created_at", MOMENT),
)

crm_interactions = Table(
    "crm_interactions",
    metadata,
    identity(),
    Column("lead_id", TEXT, nullable=False),
    *(required(name, TEXT) for name in ("kind", "summary")),
    required("at", MOMENT),
    required("user_id", TEXT),
)

crm_audit = Table(
    "crm_audit",
    metadata,
    identity(),
    Column("lead_id", TEXT),
    Column("company_id", TEXT),
    *(required(name, TEXT) for name in ("field", "old_value", "new_value")),
    *(required(name, TEXT) for name in ("user_id", "correlation_id", "operation_key")),
    required("changed_at", MOMENT),
)

email_drafts = Table(
    "email_drafts",
    metadata,
    identity(),
    _numbered("draft_id", "MAIL"),
    *(
        required(name, TEXT)
        for name in ("team", "channel", "thread_ts", "user_id", "recipient", "subject", "body")
    ),
    *(required(name, TEXT) for name in ("status", "operation_key", "message_id")),
    required("created_at", MOMENT),
    Column("sent_at", MOMENT),
)
