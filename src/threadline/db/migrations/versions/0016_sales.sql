CREATE TABLE crm_companies (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    company_id text NOT NULL GENERATED ALWAYS AS ('CO-' || id::text) STORED UNIQUE,
    team text NOT NULL,
    name text NOT NULL CHECK (name <> ''),
    website text NOT NULL DEFAULT '',
    industry text NOT NULL DEFAULT '',
    company_notes text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX crm_companies_name_idx ON crm_companies (team, lower(name));

-- `user_id` is empty for somebody who was never seen in Slack.
CREATE TABLE crm_leads (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lead_id text NOT NULL GENERATED ALWAYS AS ('LEAD-' || id::text) STORED UNIQUE,
    team text NOT NULL,
    user_id text NOT NULL DEFAULT '',
    email text NOT NULL DEFAULT '' CHECK (email = lower(email)),
    name text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
    phone text NOT NULL DEFAULT '',
    stage text NOT NULL DEFAULT 'new' CHECK (stage ~ '^[a-z_]{1,40}$'),
    notes text NOT NULL DEFAULT '',
    company_id text REFERENCES crm_companies (company_id),
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX crm_leads_user_idx ON crm_leads (team, user_id) WHERE user_id <> '';
CREATE UNIQUE INDEX crm_leads_email_idx ON crm_leads (team, email) WHERE email <> '';

CREATE TABLE crm_interactions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lead_id text NOT NULL REFERENCES crm_leads (lead_id) ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind <> ''),
    summary text NOT NULL CHECK (summary <> ''),
    at timestamptz NOT NULL,
    by_user text NOT NULL
);
CREATE INDEX crm_interactions_lead_idx ON crm_interactions (lead_id, id);

-- One row for each field that a change has changed. It goes with whom it is about, and is never rewritten.
CREATE TABLE crm_audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lead_id text REFERENCES crm_leads (lead_id) ON DELETE CASCADE,
    company_id text REFERENCES crm_companies (company_id) ON DELETE CASCADE,
    field text NOT NULL CHECK (field <> ''),
    was text NOT NULL,
    became text NOT NULL CHECK (became <> was),
    user_id text NOT NULL,
    correlation_id text NOT NULL CHECK (correlation_id <> ''),
    operation_key text NOT NULL CHECK (operation_key <> ''),
    at timestamptz NOT NULL,
    CHECK (num_nonnulls(lead_id, company_id) = 1)
);
CREATE INDEX crm_audit_lead_idx ON crm_audit (lead_id, id);
CREATE INDEX crm_audit_company_idx ON crm_audit (company_id, id);
CREATE TRIGGER refuse_rewriting BEFORE UPDATE OR TRUNCATE ON crm_audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
ALTER TABLE crm_audit ENABLE ALWAYS TRIGGER refuse_rewriting;

-- What a mail says never changes. `operation_key` is that of the call that has begun to send it, empty before.
CREATE TABLE email_drafts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    draft_id text NOT NULL GENERATED ALWAYS AS ('MAIL-' || id::text) STORED UNIQUE,
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    user_id text NOT NULL,
    recipient text NOT NULL CHECK (recipient <> ''),
    subject text NOT NULL CHECK (subject !~ '[\r\n]'),
    body text NOT NULL CHECK (body <> ''),
    status text NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'sending', 'sent')),
    operation_key text NOT NULL DEFAULT '',
    message_id text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    sent_at timestamptz,
    CHECK ((status = 'draft') = (operation_key = '')),
    CHECK ((status = 'sent') = (sent_at IS NOT NULL))
);
CREATE INDEX email_drafts_age_idx ON email_drafts (created_at);

-- How often it was moved or cancelled: what an invitation calls its SEQUENCE.
ALTER TABLE appointments ADD COLUMN revision int NOT NULL DEFAULT 0;
