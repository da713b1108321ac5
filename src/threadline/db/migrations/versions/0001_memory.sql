CREATE EXTENSION IF NOT EXISTS pg_trgm;

CREATE TABLE cases (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bug_id text NOT NULL GENERATED ALWAYS AS ('BUG-' || id::text) STORED UNIQUE,
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    reporter_id text NOT NULL,
    title text NOT NULL DEFAULT '',
    severity text NOT NULL DEFAULT 'S3' CHECK (severity IN ('S1', 'S2', 'S3', 'S4')),
    components text[] NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT 'new',
    rev bigint NOT NULL DEFAULT 1,
    stored int NOT NULL DEFAULT 0,
    turn int NOT NULL DEFAULT 0,
    questions int NOT NULL DEFAULT 0,
    escalations int NOT NULL DEFAULT 0,
    closings int NOT NULL DEFAULT 0,
    escalated boolean NOT NULL DEFAULT false,
    wait_until double precision NOT NULL DEFAULT 0 CHECK (wait_until >= 0),
    last_action text NOT NULL DEFAULT '',
    last_question text NOT NULL DEFAULT '',
    close_reason text NOT NULL DEFAULT '',
    session_head text NOT NULL DEFAULT '',
    base jsonb NOT NULL DEFAULT '{}',
    cost_usd numeric(14, 6) NOT NULL DEFAULT 0 CHECK (cost_usd >= 0),
    summary_channel text,
    summary_ts text,
    created_at timestamptz NOT NULL DEFAULT now(),
    resolved_at timestamptz,
    UNIQUE (team, channel, thread_ts),
    CHECK ((status = 'resolved') = (resolved_at IS NOT NULL)),
    CHECK ((status = 'resolved') = (close_reason <> '')),
    CHECK ((summary_channel IS NULL) = (summary_ts IS NULL))
);
CREATE INDEX cases_status_idx ON cases (status);
CREATE INDEX cases_title_trgm_idx ON cases USING gin (title gin_trgm_ops);

CREATE TABLE case_transitions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bug_id text NOT NULL REFERENCES cases (bug_id),
    rev bigint NOT NULL,
    from_status text,
    to_status text NOT NULL,
    reason text NOT NULL,
    actor text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (bug_id, rev)
);

CREATE FUNCTION refuse_illegal_step() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'new' THEN
            RAISE EXCEPTION 'a case begins as new, not as %', NEW.status USING ERRCODE = 'TL003';
        END IF;
    ELSIF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
        ('new', 'investigating'), ('new', 'resolved'),
        ('investigating', 'awaiting_reporter'), ('investigating', 'pending_verification'),
        ('investigating', 'escalated'), ('investigating', 'resolved'),
        ('awaiting_reporter', 'investigating'), ('awaiting_reporter', 'resolved'),
        ('pending_verification', 'investigating'), ('pending_verification', 'resolved'),
        ('escalated', 'investigating'), ('escalated', 'resolved'),
        ('resolved', 'investigating')
    ) THEN
        RAISE EXCEPTION '% cannot go from % to %', NEW.bug_id, OLD.status, NEW.status USING ERRCODE = 'TL003';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse_illegal_step BEFORE INSERT OR UPDATE OF status ON cases
    FOR EACH ROW EXECUTE FUNCTION refuse_illegal_step();

CREATE FUNCTION demand_a_record() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM case_transitions t
        WHERE t.bug_id = NEW.bug_id AND t.rev = NEW.rev AND t.to_status = NEW.status
          AND t.from_status IS NOT DISTINCT FROM CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END
    ) THEN
        RAISE EXCEPTION 'the step of % to % was not recorded in case_transitions', NEW.bug_id, NEW.status
            USING ERRCODE = 'TL003';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER demand_a_record_of_the_opening AFTER INSERT ON cases
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION demand_a_record();
CREATE CONSTRAINT TRIGGER demand_a_record_of_each_step AFTER UPDATE OF status ON cases
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION demand_a_record();

CREATE TABLE bug_conversations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bug_id text NOT NULL REFERENCES cases (bug_id),
    seq int CHECK (seq > 0),
    message_id text NOT NULL,
    sender_type text NOT NULL CHECK (sender_type IN ('reporter', 'developer', 'operator', 'unknown', 'bot')),
    sender_id text NOT NULL,
    message_type text NOT NULL,
    message_text text NOT NULL,
    channel text NOT NULL,
    slack_ts text NOT NULL,
    said_at numeric(20, 6) NOT NULL,
    correction_of text NOT NULL DEFAULT '',
    version numeric(20, 6) NOT NULL DEFAULT 0,
    turn int CHECK (turn >= 0),
    read_through int CHECK (read_through > 0),
    wakes boolean NOT NULL DEFAULT false,
    error text NOT NULL DEFAULT '',
    redacted_at timestamptz,
    edited_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (bug_id, seq),
    UNIQUE (bug_id, message_id),
    CHECK ((sender_type = 'bot') = (seq IS NULL)),
    CHECK (sender_type = 'bot'
           OR message_type IN ('report', 'message', 'close', 'edit', 'deletion', 'quarantined')),
    CHECK (NOT wakes OR message_type IN ('report', 'message', 'close')),
    CHECK (redacted_at IS NULL OR message_text = '')
);
CREATE INDEX bug_conversations_order_idx ON bug_conversations (bug_id, said_at);
CREATE INDEX bug_conversations_correction_idx ON bug_conversations (bug_id, correction_of) WHERE correction_of <> '';
CREATE INDEX bug_conversations_words_idx ON bug_conversations USING gin (to_tsvector('english', message_text));

CREATE TABLE attachments (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bug_id text NOT NULL REFERENCES cases (bug_id),
    message_id text NOT NULL,
    file_id text NOT NULL,
    name text NOT NULL,
    mimetype text NOT NULL,
    size bigint NOT NULL CHECK (size >= 0),
    content bytea,
    error text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (bug_id, message_id, file_id),
    CHECK (content IS NULL OR error = '')
);

CREATE TABLE agent_turns (
    bug_id text NOT NULL REFERENCES cases (bug_id),
    turn int NOT NULL CHECK (turn > 0),
    attempt int NOT NULL CHECK (attempt >= 0),
    status text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'revoked')),
    token bigint NOT NULL CHECK (token > 0),
    lease_until timestamptz,
    session_id text NOT NULL DEFAULT '',
    parent_session text NOT NULL DEFAULT '',
    first_seq int,
    last_seq int,
    action text CHECK (action IN ('ask_reporter', 'post_findings', 'escalate', 'resolved')),
    result jsonb NOT NULL DEFAULT '{}',
    diffs jsonb NOT NULL DEFAULT '{}',
    base jsonb NOT NULL DEFAULT '{}',
    has_fix boolean NOT NULL DEFAULT false,
    fix_asked_by text NOT NULL DEFAULT '',
    cost_usd numeric(14, 6) NOT NULL DEFAULT 0 CHECK (cost_usd >= 0),
    input_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    duration_s double precision NOT NULL DEFAULT 0,
    read_seqs int[] NOT NULL DEFAULT '{}',
    failure text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    PRIMARY KEY (bug_id, turn),
    CHECK (status <> 'done' OR action IS NOT NULL),
    CHECK (status <> 'running' OR lease_until IS NOT NULL),
    CHECK (fix_asked_by <> '' OR NOT has_fix)
);

CREATE TABLE findings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bug_id text NOT NULL REFERENCES cases (bug_id),
    turn int NOT NULL,
    title text NOT NULL,
    detail text NOT NULL,
    file text NOT NULL DEFAULT '',
    line int NOT NULL DEFAULT 0,
    severity text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (bug_id, turn, title, file, line)
);

CREATE TABLE agent_sessions (
    project_key text NOT NULL,
    session_id text NOT NULL,
    subpath text NOT NULL DEFAULT '',
    modified_at timestamptz NOT NULL,
    PRIMARY KEY (project_key, session_id, subpath)
);

CREATE TABLE agent_session_entries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project_key text NOT NULL,
    session_id text NOT NULL,
    subpath text NOT NULL,
    uuid text,
    entry text NOT NULL,
    FOREIGN KEY (project_key, session_id, subpath)
        REFERENCES agent_sessions (project_key, session_id, subpath) ON DELETE CASCADE
);
CREATE UNIQUE INDEX agent_session_entries_uuid_idx
    ON agent_session_entries (project_key, session_id, subpath, uuid) WHERE uuid IS NOT NULL;
CREATE INDEX agent_session_entries_order_idx ON agent_session_entries (project_key, session_id, subpath, id);

CREATE TABLE slack_posts (
    key text PRIMARY KEY,
    bug_id text REFERENCES cases (bug_id),
    kind text NOT NULL,
    channel text NOT NULL,
    thread_ts text,
    claimed_at double precision NOT NULL,
    lease_until double precision NOT NULL,
    ts text,
    error text NOT NULL DEFAULT ''
);

CREATE TABLE sla_events (
    bug_id text NOT NULL REFERENCES cases (bug_id),
    escalation int NOT NULL,
    ordinal int NOT NULL,
    kind text NOT NULL,
    tier int NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (bug_id, escalation, ordinal)
);

CREATE TABLE pull_requests (
    bug_id text PRIMARY KEY REFERENCES cases (bug_id),
    repository text NOT NULL,
    branch text NOT NULL,
    url text NOT NULL,
    number int,
    state text NOT NULL CHECK (state IN ('open', 'merged', 'closed')),
    commit text NOT NULL,
    turn int NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT now(),
    merged_at timestamptz,
    CHECK ((state = 'merged') = (merged_at IS NOT NULL))
);

CREATE TABLE services (
    name text PRIMARY KEY,
    description text NOT NULL,
    owner text NOT NULL,
    channel text NOT NULL,
    repository text NOT NULL
);

CREATE TABLE threads (
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    workflow_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('report', 'summary', 'escalation')),
    bug_id text NOT NULL REFERENCES cases (bug_id),
    PRIMARY KEY (team, channel, thread_ts)
);
