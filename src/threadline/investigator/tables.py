"""The tables of the agent's findings and sessions. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import Column, ForeignKey, ForeignKeyConstraint, Index, Integer, Table, UniqueConstraint, text

from threadline.db.columns import MOMENT, TEXT, identity, metadata, required


def _case() -> Column[str]:
    return Column("bug_id", TEXT, ForeignKey("cases.bug_id"), nullable=False)


findings = Table(
    "findings",
    metadata,
    identity(),
    _case(),
    required("turn", Integer()),
    *(required(name, TEXT) for name in ("title", "detail", "file")),
    required("line", Integer()),
    required("severity", TEXT),
    required("created_at", MOMENT),
    UniqueConstraint("bug_id", "turn", "title", "file", "line"),
)

agent_sessions = Table(
    "agent_sessions",
    metadata,
    Column("project_key", TEXT, primary_key=True),
    Column("session_id", TEXT, primary_key=True),
    Column("subpath", TEXT, primary_key=True),
    required("modified_at", MOMENT),
)

agent_session_entries = Table(
    "agent_session_entries",
    metadata,
    identity(),
    *(required(name, TEXT) for name in ("project_key", "session_id", "subpath")),
    Column("uuid", TEXT),
    required("entry", TEXT),
    ForeignKeyConstraint(
        ["project_key", "session_id", "subpath"],
        ["agent_sessions.project_key", "agent_sessions.session_id", "agent_sessions.subpath"],
        name="agent_session_entries_project_key_session_id_subpath_fkey",
        ondelete="CASCADE",
    ),
    Index(
        "agent_session_entries_uuid_idx",
        "project_key",
        "session_id",
        "subpath",
        "uuid",
        unique=True,
        postgresql_where=text("uuid IS NOT NULL"),
    ),
    Index("agent_session_entries_order_idx", "project_key", "session_id", "subpath", "id"),
)
