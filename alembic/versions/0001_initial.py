"""Initial schema.

Until 0.1.0 is released, this is the only revision: a change of the schema is a change of
`0001_initial.sql`.
"""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

_EXTENSIONS = "pg_trgm, btree_gist"
"""Without `vector`: only a superuser can create it, and other users may need it."""

_AGENT_FUNCTIONS = (
    "agent_append_entries, append_entries, agent_record_finding, agent_finish_turn, "
    "agent_renew_lease, held_claim, agent_claim_turn, agent_similar_cases"
)
_VIEWS = "turn_messages, unposted_closings, reporter_words, case_records"
_WORD_FUNCTIONS = "any_word, word_vector"
_AGENT_VIEWS = (
    "agent_transcripts, agent_attachments, agent_services, agent_findings, agent_cases, "
    "agent_conversations"
)
_TABLES = (
    # sales, estimates, appointments
    "email_drafts, crm_audit, crm_interactions, crm_leads, crm_companies",
    "estimate_quotes, estimate_items, estimate_roles, estimate_projects",
    "appointments, appointment_resources",
    # jobs, approvals, RFPs and the operator agent's records
    "agent_jobs, proposed_actions",
    "memories, users, team_members, events, journal_entries, opportunity_states, rfps",
    # knowledge, tools
    "knowledge_words, knowledge_passages, knowledge_documents",
    "agent_tool_executions, rate_limit_events",
    # handovers, decisions, conversations
    "handover_answers, handovers, decisions",
    "ratings, model_calls, conversation_turns, transcript_entries",
    "conversation_files, conversation_messages, conversations",
    # threads
    "quarantine, installation_faults, installation_places, removed_content",
    "catch_up_absences, catch_up_messages, catch_up_threads, catch_up_channels",
    "thread_bindings, threads, posts",
    # investigations, cases
    "agent_session_entries, agent_sessions, findings, agent_turns",
    "services, pull_requests, sla_events, attachments, bug_conversations, case_transitions, cases",
)
_TRIGGER_FUNCTIONS = (
    "refuse_second_decision, refuse_rewriting, demand_a_record, refuse_illegal_step"
)


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    # The agents' role stays: it belongs to the server, and may have rights in other databases.
    op.execute(f"DROP FUNCTION {_AGENT_FUNCTIONS}")
    op.execute(f"DROP VIEW {_AGENT_VIEWS}, {_VIEWS}")
    op.execute(f"DROP TABLE {', '.join(_TABLES)}")
    op.execute(f"DROP FUNCTION {_TRIGGER_FUNCTIONS}, {_WORD_FUNCTIONS}")
    op.execute(f"DROP EXTENSION {_EXTENSIONS}")
