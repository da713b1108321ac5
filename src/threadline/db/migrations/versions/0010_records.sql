-- Requests for proposals. What is deleted keeps its row: its journal and its events are for ever.
CREATE TABLE rfps (
    rfp_id text PRIMARY KEY CHECK (rfp_id ~ '^rfp_[a-z0-9]{3,40}$'),
    team text NOT NULL,
    title text NOT NULL CHECK (title <> ''),
    client text NOT NULL,
    due_date date,
    status text NOT NULL CHECK (status ~ '^[a-z_]{1,40}$'),
    owner text NOT NULL,
    source_name text NOT NULL,
    source_hash text CHECK (source_hash ~ '^[0-9a-f]{64}$'),
    source_text text NOT NULL,
    words tsvector GENERATED ALWAYS AS
        (setweight(to_tsvector('english', title || ' ' || client), 'A')
         || setweight(to_tsvector('english', left(source_text, 200000)), 'D')) STORED,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    deleted_at timestamptz,
    UNIQUE (team, rfp_id)
);
-- The same file is the same request, in one team.
CREATE UNIQUE INDEX rfps_source_idx ON rfps (team, source_hash) WHERE deleted_at IS NULL;
CREATE INDEX rfps_due_idx ON rfps (team, due_date, rfp_id) WHERE deleted_at IS NULL;
CREATE INDEX rfps_client_idx ON rfps (team, lower(client)) WHERE deleted_at IS NULL;
CREATE INDEX rfps_words_idx ON rfps USING gin (words);
CREATE INDEX rfps_title_trgm_idx ON rfps USING gin (title gin_trgm_ops);

-- One document for each request; who changes it names the version that it was made from.
CREATE TABLE opportunity_states (
    team text NOT NULL,
    rfp_id text NOT NULL,
    version int NOT NULL DEFAULT 1 CHECK (version > 0),
    document jsonb NOT NULL CHECK (jsonb_typeof(document) = 'object'),
    updated_by text NOT NULL DEFAULT '',
    correlation_id text NOT NULL DEFAULT '',
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (team, rfp_id),
    FOREIGN KEY (team, rfp_id) REFERENCES rfps (team, rfp_id)
);

CREATE TABLE journal_entries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    rfp_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('note', 'decision', 'said', 'failed')),
    text text NOT NULL CHECK (text <> ''),
    user_id text NOT NULL,
    correlation_id text NOT NULL CHECK (correlation_id <> ''),
    channel text NOT NULL,
    thread_ts text NOT NULL,
    operation_key text NOT NULL,
    at timestamptz NOT NULL,
    FOREIGN KEY (team, rfp_id) REFERENCES rfps (team, rfp_id),
    UNIQUE (team, operation_key)
);
CREATE INDEX journal_entries_order_idx ON journal_entries (team, rfp_id, id);
CREATE INDEX journal_entries_correlation_idx ON journal_entries (team, correlation_id);

CREATE TABLE events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    rfp_id text NOT NULL,
    event_type text NOT NULL CHECK (event_type <> ''),
    payload jsonb NOT NULL CHECK (jsonb_typeof(payload) = 'object'),
    user_id text NOT NULL,
    correlation_id text NOT NULL CHECK (correlation_id <> ''),
    channel text NOT NULL,
    thread_ts text NOT NULL,
    operation_key text NOT NULL,
    at timestamptz NOT NULL,
    FOREIGN KEY (team, rfp_id) REFERENCES rfps (team, rfp_id),
    UNIQUE (team, operation_key)
);
CREATE INDEX events_order_idx ON events (team, rfp_id, id);
CREATE INDEX events_correlation_idx ON events (team, correlation_id);

-- Nothing takes back what was written down, the owner of the tables neither. TL004: what is on record stays as it is.
CREATE FUNCTION refuse_rewriting() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION '% only grows: nothing in it is changed or deleted', TG_TABLE_NAME USING ERRCODE = 'TL004';
END $$;
CREATE TRIGGER refuse_rewriting BEFORE UPDATE OR DELETE OR TRUNCATE ON journal_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER refuse_rewriting BEFORE UPDATE OR DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
ALTER TABLE journal_entries ENABLE ALWAYS TRIGGER refuse_rewriting;
ALTER TABLE events ENABLE ALWAYS TRIGGER refuse_rewriting;

CREATE TABLE team_members (
    team text NOT NULL,
    user_id text NOT NULL CHECK (user_id <> ''),
    name text NOT NULL CHECK (name <> ''),
    email text NOT NULL,
    role text NOT NULL,
    biography text NOT NULL,
    skills text[] NOT NULL,
    -- Hours a week that the person has for proposals.
    capacity int NOT NULL CHECK (capacity BETWEEN 0 AND 168),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (team, user_id)
);
CREATE INDEX team_members_name_idx ON team_members (team, lower(name));

-- `cue` is what it is found by first, such as the question; `channel` the only place where it may be told, empty for any.
CREATE TABLE memories (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('episodic', 'semantic', 'procedural')),
    cue text NOT NULL,
    text text NOT NULL CHECK (text <> ''),
    error_class text NOT NULL,
    user_id text NOT NULL,
    channel text NOT NULL,
    rfp_id text NOT NULL,
    key text NOT NULL,
    words tsvector GENERATED ALWAYS AS
        (setweight(to_tsvector('english', cue), 'A') || setweight(to_tsvector('english', text), 'B')) STORED,
    at timestamptz NOT NULL,
    UNIQUE (team, kind, key)
);
CREATE INDEX memories_words_idx ON memories USING gin (words);
CREATE INDEX memories_age_idx ON memories (at);

CREATE TABLE actors (
    team text NOT NULL,
    user_id text NOT NULL CHECK (user_id <> ''),
    email text NOT NULL,
    display_name text NOT NULL,
    platform_id text NOT NULL,
    fetched_at timestamptz NOT NULL,
    PRIMARY KEY (team, user_id)
);

-- What somebody is to agree to before it is done. Without a decision it is open, until it expires.
CREATE TABLE proposed_actions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action_id text NOT NULL GENERATED ALWAYS AS ('ACT-' || id::text) STORED UNIQUE,
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    rfp_id text NOT NULL,
    action jsonb NOT NULL CHECK (jsonb_typeof(action) = 'object'),
    action_hash text NOT NULL CHECK (action_hash ~ '^[0-9a-f]{64}$'),
    risk text NOT NULL CHECK (risk IN ('low', 'medium', 'high')),
    asked_by text NOT NULL CHECK (asked_by <> ''),
    approvers text[] NOT NULL,
    correlation_id text NOT NULL CHECK (correlation_id <> ''),
    operation_key text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    decision text CHECK (decision IN ('approved', 'rejected', 'expired')),
    decided_at timestamptz,
    decided_by text NOT NULL DEFAULT '',
    decided_how text NOT NULL DEFAULT '',
    UNIQUE (team, operation_key),
    CHECK (created_at < expires_at),
    CHECK ((decision IS NULL) = (decided_at IS NULL)),
    CHECK (risk <> 'high' OR decided_by <> asked_by)
);
CREATE INDEX proposed_actions_thread_idx ON proposed_actions (team, channel, thread_ts, id);

CREATE FUNCTION refuse_second_decision() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    -- The last one is generated after this has run.
    others CONSTANT text[] := ARRAY['decision', 'decided_at', 'decided_by', 'decided_how', 'action_id'];
BEGIN
    IF OLD.decision IS NOT NULL OR to_jsonb(OLD) - others <> to_jsonb(NEW) - others THEN
        RAISE EXCEPTION '% stays as it was proposed, and is decided once', OLD.action_id USING ERRCODE = 'TL004';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse_second_decision BEFORE UPDATE ON proposed_actions
    FOR EACH ROW EXECUTE FUNCTION refuse_second_decision();

-- Work for later: at a moment, or whenever the cron says so.
CREATE TABLE agent_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id text NOT NULL GENERATED ALWAYS AS ('JOB-' || id::text) STORED UNIQUE,
    workflow_id text NOT NULL GENERATED ALWAYS AS ('job:' || team || ':' || id::text) STORED,
    team text NOT NULL,
    job_type text NOT NULL CHECK (job_type <> ''),
    arguments jsonb NOT NULL CHECK (jsonb_typeof(arguments) = 'object'),
    run_at timestamptz,
    cron text NOT NULL,
    time_zone text NOT NULL,
    status text NOT NULL DEFAULT 'scheduled'
        CHECK (status IN ('scheduled', 'running', 'done', 'failed', 'cancelled')),
    rfp_id text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    asked_by text NOT NULL CHECK (asked_by <> ''),
    correlation_id text NOT NULL CHECK (correlation_id <> ''),
    operation_key text NOT NULL,
    -- Of the latest run: what started it, what came of it, and what went wrong.
    run_key text NOT NULL DEFAULT '',
    runs int NOT NULL DEFAULT 0,
    result jsonb,
    error text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    UNIQUE (team, operation_key),
    CHECK ((run_at IS NULL) = (cron <> ''))
);
CREATE INDEX agent_jobs_order_idx ON agent_jobs (team, id);
CREATE INDEX agent_jobs_status_idx ON agent_jobs (team, status, id);
CREATE INDEX agent_jobs_rfp_idx ON agent_jobs (team, rfp_id, id) WHERE rfp_id <> '';

-- The other threads about the same record.
CREATE INDEX thread_bindings_record_idx ON thread_bindings (team, kind, record_id, bound_at);
