-- Equality of text in a GiST index, for the constraint that keeps appointments apart. Its owner need not be a superuser.
CREATE EXTENSION IF NOT EXISTS btree_gist;

CREATE TABLE limit_verdicts (
    rule text NOT NULL CHECK (rule IN ('duplicate', 'user', 'mutation')),
    scope text NOT NULL,
    event text NOT NULL,
    at double precision NOT NULL,
    verdict text NOT NULL CHECK (verdict IN ('ok', 'throttled_first', 'throttled')),
    PRIMARY KEY (rule, scope, event)
);
CREATE INDEX limit_verdicts_window_idx ON limit_verdicts (rule, scope, at);
CREATE INDEX limit_verdicts_told_idx ON limit_verdicts (rule, scope, at) WHERE verdict = 'throttled_first';
CREATE INDEX limit_verdicts_age_idx ON limit_verdicts (at);

-- A row without a status is an intent: the call may have been made, and its outcome is not known.
CREATE TABLE agent_tool_executions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    request_id varchar(255) NOT NULL,
    team varchar(255) NOT NULL,
    channel varchar(255) NOT NULL,
    thread_ts varchar(255) NOT NULL,
    user_id varchar(255) NOT NULL,
    turn int NOT NULL,
    step int NOT NULL,
    call_id text NOT NULL,
    tool_name varchar(100) NOT NULL,
    fingerprint text NOT NULL,
    cacheable boolean NOT NULL,
    parameters jsonb,
    result jsonb,
    status text CHECK (status IN ('ok', 'error', 'blocked', 'cached')),
    success boolean NOT NULL GENERATED ALWAYS AS (status IS NOT NULL AND status IN ('ok', 'cached')) STORED,
    execution_time_ms int CHECK (execution_time_ms >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT agent_tool_executions_call_key UNIQUE (team, channel, thread_ts, turn, step, call_id),
    CHECK ((status IS NULL) = (finished_at IS NULL))
);
CREATE INDEX idx_tool_executions_channel_thread ON agent_tool_executions (channel, thread_ts);
CREATE INDEX idx_tool_executions_user ON agent_tool_executions (user_id);
CREATE INDEX idx_tool_executions_age ON agent_tool_executions (created_at);

-- What read-only tools have answered, for a while: `until` is in seconds since 1970.
CREATE TABLE tool_results (
    fingerprint text PRIMARY KEY,
    team text NOT NULL,
    toolset text NOT NULL,
    result jsonb NOT NULL,
    until double precision NOT NULL
);
CREATE INDEX tool_results_toolset_idx ON tool_results (team, toolset);
CREATE INDEX tool_results_age_idx ON tool_results (until);

CREATE TABLE tool_operations (
    key text PRIMARY KEY,
    kind text NOT NULL,
    record text NOT NULL,
    result jsonb,
    created_at timestamptz NOT NULL
);
CREATE INDEX tool_operations_age_idx ON tool_operations (created_at);

CREATE TABLE appointment_resources (
    team text NOT NULL,
    name text NOT NULL CHECK (name <> ''),
    time_zone text NOT NULL,
    opens time NOT NULL,
    closes time NOT NULL,
    weekdays int[] NOT NULL CHECK (weekdays <@ ARRAY[1, 2, 3, 4, 5, 6, 7]),
    PRIMARY KEY (team, name),
    CHECK (opens < closes)
);

CREATE TABLE appointments (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    appointment_id text NOT NULL GENERATED ALWAYS AS ('APT-' || id::text) STORED UNIQUE,
    team text NOT NULL,
    resource text NOT NULL,
    during tstzrange NOT NULL,
    title text NOT NULL,
    attendee text NOT NULL,
    created_at timestamptz NOT NULL,
    cancelled_at timestamptz,
    FOREIGN KEY (team, resource) REFERENCES appointment_resources (team, name),
    CHECK (NOT isempty(during) AND NOT lower_inf(during) AND NOT upper_inf(during)),
    CHECK (lower_inc(during) AND NOT upper_inc(during)),
    CONSTRAINT appointments_one_at_a_time
        EXCLUDE USING gist (team WITH =, resource WITH =, during WITH &&) WHERE (cancelled_at IS NULL)
);
CREATE INDEX appointments_attendee_idx ON appointments (team, attendee);

CREATE TABLE estimate_projects (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project_id text NOT NULL GENERATED ALWAYS AS ('PRJ-' || id::text) STORED UNIQUE,
    team text NOT NULL,
    name text NOT NULL CHECK (name <> ''),
    currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    locked boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX estimate_projects_name_idx ON estimate_projects (team, lower(name));

-- NaN is greater than any number, so the upper bounds keep it out as well.
CREATE TABLE estimate_roles (
    project_id text NOT NULL REFERENCES estimate_projects (project_id),
    name text NOT NULL CHECK (name <> ''),
    day_rate numeric NOT NULL CHECK (day_rate >= 0 AND day_rate <= 1000000 AND scale(day_rate) <= 4),
    PRIMARY KEY (project_id, name)
);

CREATE TABLE estimate_items (
    project_id text NOT NULL REFERENCES estimate_projects (project_id),
    number int NOT NULL CHECK (number > 0),
    title text NOT NULL CHECK (title <> ''),
    role text NOT NULL,
    days numeric NOT NULL CHECK (days >= 0 AND days <= 100000 AND scale(days) <= 4),
    PRIMARY KEY (project_id, number),
    FOREIGN KEY (project_id, role) REFERENCES estimate_roles (project_id, name)
);

CREATE TABLE estimate_quotes (
    project_id text NOT NULL REFERENCES estimate_projects (project_id),
    number int NOT NULL CHECK (number > 0),
    discount_percent numeric NOT NULL DEFAULT 0 CHECK (discount_percent >= 0 AND discount_percent <= 100),
    tax_percent numeric NOT NULL DEFAULT 0 CHECK (tax_percent >= 0 AND tax_percent <= 100),
    subtotal numeric NOT NULL DEFAULT 0 CHECK (scale(subtotal) <= 2),
    discount numeric NOT NULL DEFAULT 0 CHECK (scale(discount) <= 2),
    tax numeric NOT NULL DEFAULT 0 CHECK (scale(tax) <= 2),
    total numeric NOT NULL DEFAULT 0 CHECK (scale(total) <= 2),
    PRIMARY KEY (project_id, number)
);

-- What a thread is about, for every kind of record.
CREATE TABLE thread_bindings (
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    kind text NOT NULL CHECK (kind <> ''),
    record_id text NOT NULL CHECK (record_id <> ''),
    bound_by text NOT NULL,
    bound_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (team, channel, thread_ts, kind)
);
