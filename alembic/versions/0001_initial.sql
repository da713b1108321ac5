-- The whole schema, grouped by feature. Errors that functions and triggers raise on purpose:
--   TL001  the caller no longer holds the claim on its turn
--   TL003  a case may not take this step, or the step was not recorded
--   TL004  a record that is final would be changed
-- threadline/db/errors.py turns them into exceptions.

-- ---------------------------------------------------------------------------------------------------------------------
-- Extensions
-- ---------------------------------------------------------------------------------------------------------------------

-- Similarity of text: titles of cases and RFPs, and mistyped words.
CREATE EXTENSION IF NOT EXISTS pg_trgm;
-- Equality of text in a GiST index, for the constraint that keeps appointments apart. A database owner may create it
-- without being a superuser.
CREATE EXTENSION IF NOT EXISTS btree_gist;

-- Search by words. A column of words is filled by its store, with `stored_words` of threadline/db/words.py: Postgres'
-- own parser finds no identifiers and no words of scripts without blanks. A word that begins with "=" matches the same
-- characters only; Postgres stems the others.
CREATE FUNCTION word_vector(language regconfig, words text[]) RETURNS tsvector
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT array_to_tsvector(ARRAY(SELECT word FROM unnest(words) AS word WHERE starts_with(word, '=')))
        || strip(to_tsvector(language, array_to_string(
               ARRAY(SELECT word FROM unnest(words) AS word WHERE NOT starts_with(word, '=')), ' ')))
$$;

-- A query for rows with any of the words; NULL if none is left, such as for stop words.
CREATE FUNCTION any_word(words text[]) RETURNS tsquery LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery FROM unnest(word_vector('english', words))
$$;

-- pgvector is optional: without it, knowledge is searched by words alone.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
        CREATE EXTENSION IF NOT EXISTS vector;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'knowledge is searched by words alone until a superuser runs CREATE EXTENSION vector';
END
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Cases
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE cases (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bug_id text NOT NULL GENERATED ALWAYS AS ('BUG-' || id::text) STORED UNIQUE,
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    reporter_id text NOT NULL,
    title text NOT NULL DEFAULT '',
    title_words text[] NOT NULL DEFAULT '{}',
    severity text NOT NULL DEFAULT 'S3' CHECK (severity IN ('S1', 'S2', 'S3', 'S4')),
    components text[] NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT 'new',
    rev bigint NOT NULL DEFAULT 1,
    message_count int NOT NULL DEFAULT 0,
    turn int NOT NULL DEFAULT 0,
    questions int NOT NULL DEFAULT 0,
    escalations int NOT NULL DEFAULT 0,
    closings int NOT NULL DEFAULT 0,
    escalated boolean NOT NULL DEFAULT false,
    wait_until double precision NOT NULL DEFAULT 0 CHECK (wait_until >= 0),
    last_action text NOT NULL DEFAULT '',
    last_question text NOT NULL DEFAULT '',
    close_reason text NOT NULL DEFAULT '',
    last_session_id text NOT NULL DEFAULT '',
    base jsonb NOT NULL DEFAULT '{}',
    -- The CLI's estimate counts for the budgets, also where the model's price is unknown.
    cost_usd numeric(14, 6) NOT NULL DEFAULT 0 CHECK (cost_usd >= 0),
    cost_known boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    resolved_at timestamptz,
    workflow_id text NOT NULL GENERATED ALWAYS AS ('bug:' || team || ':' || channel || ':' || thread_ts) STORED,
    search_vector tsvector NOT NULL GENERATED ALWAYS AS
        (to_tsvector('english', title) || word_vector('english', title_words)) STORED,
    UNIQUE (team, channel, thread_ts),
    CHECK ((status = 'resolved') = (resolved_at IS NOT NULL)),
    CHECK ((status = 'resolved') = (close_reason <> ''))
);
CREATE INDEX cases_status_idx ON cases (status);
CREATE INDEX cases_words_idx ON cases USING gin (search_vector);
CREATE INDEX cases_title_trgm_idx ON cases USING gin (title gin_trgm_ops);

-- Every status that a case has had.
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

-- The state machine of a case, enforced for every writer. The code's own copy is `TRANSITIONS`.
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

-- Each status change has its row in case_transitions. Deferred to the commit: the row may be written after the change.
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

-- The messages of a case. `seq` numbers what people wrote; the bot's own posts have none. `turn` is NULL until a turn
-- has taken the message. `words` are those of the text and of `forwarded`. The bot's own posts have none, as no search
-- finds them.
CREATE TABLE bug_conversations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bug_id text NOT NULL REFERENCES cases (bug_id),
    seq int CHECK (seq > 0),
    message_id text NOT NULL,
    sender_type text NOT NULL CHECK (sender_type IN ('reporter', 'developer', 'admin', 'unknown', 'bot')),
    sender_id text NOT NULL,
    message_type text NOT NULL,
    message_text text NOT NULL,
    channel text NOT NULL,
    slack_ts text NOT NULL,
    said_at numeric(20, 6) NOT NULL,
    correction_of text NOT NULL DEFAULT '',
    version numeric(20, 6) NOT NULL DEFAULT 0,
    -- What the author forwards or quotes, as readers are shown it.
    forwarded text NOT NULL DEFAULT '',
    words text[] NOT NULL DEFAULT '{}',
    search_vector tsvector NOT NULL GENERATED ALWAYS AS
        (to_tsvector('english', message_text || ' ' || forwarded) || word_vector('english', words)) STORED,
    turn int CHECK (turn >= 0),
    read_in_turn int CHECK (read_in_turn > 0),
    -- The message's effect on its case, as cases/effects.py decided when it was stored. `closes` is NULL for a message
    -- that neither closes the case nor keeps it open.
    spoken boolean NOT NULL DEFAULT false,
    wants_turn boolean NOT NULL DEFAULT false,
    closes boolean,
    redacted_at timestamptz,
    edited_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (bug_id, seq),
    UNIQUE (bug_id, message_id),
    CHECK ((sender_type = 'bot') = (seq IS NULL)),
    CHECK (sender_type = 'bot'
           OR message_type IN ('report', 'message', 'close', 'edit', 'deletion')),
    CHECK (NOT wants_turn OR message_type IN ('report', 'message', 'close')),
    CHECK (wants_turn OR closes IS NULL),
    CHECK (redacted_at IS NULL OR message_text = '' AND forwarded = '' AND words = '{}')
);
CREATE INDEX bug_conversations_order_idx ON bug_conversations (bug_id, said_at);
-- Finds the messages that no turn has taken without reading the whole case. No turn takes the bot's own posts: as rows
-- without a turn they would be read by each such search.
CREATE INDEX bug_conversations_turn_idx ON bug_conversations (bug_id, turn) WHERE sender_type <> 'bot';
CREATE INDEX bug_conversations_correction_idx ON bug_conversations (bug_id, correction_of) WHERE correction_of <> '';
CREATE INDEX bug_conversations_words_idx ON bug_conversations USING gin (search_vector);

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
    draft boolean NOT NULL,
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

-- ---------------------------------------------------------------------------------------------------------------------
-- Investigations: turns, findings, sessions
-- ---------------------------------------------------------------------------------------------------------------------

-- One row for each turn. `token` is the fencing token of the attempt that holds the claim, `lease_until` its end.
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
    fix_requested_by text NOT NULL DEFAULT '',
    -- The CLI's estimate counts for the budgets, also where the model's price is unknown.
    cost_usd numeric(14, 6) NOT NULL DEFAULT 0 CHECK (cost_usd >= 0),
    cost_known boolean NOT NULL DEFAULT true,
    input_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    duration_s double precision NOT NULL DEFAULT 0,
    read_seqs int[] NOT NULL DEFAULT '{}',
    failure text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    -- The turn gives the case's findings whole. Without a summary they stay as they were.
    has_findings boolean GENERATED ALWAYS AS (
        status = 'done' AND failure = '' AND coalesce(action, 'ask_reporter') <> 'ask_reporter'
        AND coalesce(result ->> 'summary', '') ~ '[^[:space:]]'
    ) STORED NOT NULL,
    -- It has words for developers besides findings.
    has_reply boolean GENERATED ALWAYS AS (
        failure <> '' OR coalesce(result ->> 'reply', '') ~ '[^[:space:]]'
    ) STORED NOT NULL,
    PRIMARY KEY (bug_id, turn),
    CHECK (status <> 'done' OR action IS NOT NULL),
    CHECK (status <> 'running' OR lease_until IS NOT NULL),
    CHECK (fix_requested_by <> '' OR NOT has_fix)
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

-- The Claude Agent SDK's sessions, as its session store keeps them.
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

-- ---------------------------------------------------------------------------------------------------------------------
-- The agents' process
-- ---------------------------------------------------------------------------------------------------------------------
-- Its role reads no table. It reads the views named agent_* and calls the functions named agent_*, which grants.sql
-- finds by that name. Each function that writes checks the case, the turn, the token and that the lease has not ended.

CREATE VIEW agent_conversations AS
SELECT m.bug_id, m.seq, m.id, m.message_id, m.sender_type, m.sender_id, m.message_type, m.said_at, m.version, m.turn,
       m.read_in_turn IS NOT NULL OR coalesce(m.turn <= c.turn, false) AS read,
       CASE WHEN m.redacted_at IS NULL THEN m.message_text ELSE '(deleted by its author)' END AS message_text,
       m.forwarded
FROM bug_conversations m JOIN cases c USING (bug_id)
WHERE m.message_type <> 'deletion';

CREATE VIEW agent_cases AS
SELECT c.bug_id, c.title, c.status, c.severity, c.components, c.reporter_id, c.created_at, c.resolved_at, c.turn,
       c.questions, coalesce(p.url, '') AS pull_request,
       coalesce((SELECT t.result ->> 'summary' FROM agent_turns t
                 WHERE t.bug_id = c.bug_id AND t.turn <= c.turn AND t.has_findings
                 ORDER BY t.turn DESC LIMIT 1), '') AS summary
FROM cases c LEFT JOIN pull_requests p USING (bug_id);

CREATE VIEW agent_findings AS
SELECT id, bug_id, turn, title, detail, file, line, severity FROM findings;

CREATE VIEW agent_services AS
SELECT name, description, owner, channel, repository FROM services;

CREATE VIEW agent_attachments AS
SELECT bug_id, id, file_id, name, mimetype, content, error FROM attachments;

CREATE VIEW agent_transcripts AS
SELECT project_key, session_id, subpath, id, entry FROM agent_session_entries;

-- Finds similar cases of the same workspace by their reporters' words and by their titles. `p_words` are those of the
-- text, as `asked_words` of threadline/db/words.py cuts them.
CREATE FUNCTION agent_similar_cases(p_bug_id text, p_text text, p_words text[], p_limit int)
RETURNS TABLE (bug_id text, title text, status text, summary text, similarity real)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    WITH words AS MATERIALIZED (SELECT any_word(p_words) AS query), told AS (
        SELECT m.bug_id, max(ts_rank(m.search_vector, w.query, 32)) AS rank
        FROM bug_conversations m, words w
        WHERE m.search_vector @@ w.query AND m.sender_type = 'reporter'
        GROUP BY m.bug_id
    )
    SELECT c.bug_id, c.title, c.status, c.summary,
           least(1, coalesce(t.rank, 0) + similarity(c.title, left(p_text, 200)))::real
    FROM agent_cases c JOIN cases k USING (bug_id) LEFT JOIN told t USING (bug_id)
    WHERE c.bug_id <> p_bug_id AND k.team = (SELECT team FROM cases own WHERE own.bug_id = p_bug_id)
        AND (t.rank IS NOT NULL OR c.title % left(p_text, 200))
    ORDER BY 5 DESC, c.created_at DESC LIMIT p_limit
$$;

-- Claims a turn, takes the messages that no turn has taken, and returns what the agent starts from.
--
-- Three searches are written for their plans:
--   The UPDATE looks for messages without a turn only. Those of an earlier attempt have this turn's number already, and
--   no later turn has taken any, since only a case's next turn can be claimed. A search for both could read the whole
--   case.
--   The turn's messages are MATERIALIZED: asked for in their order, Postgres walked through the whole case in that
--   order.
--   Most turns have no diffs: `diffs <> '{}'` leaves them out.
CREATE FUNCTION agent_claim_turn(
    p_bug_id text, p_turn int, p_attempt int, p_session_id text, p_lease_s double precision
) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    c cases;
    t agent_turns;
    lo int;
    hi int;
    asked_by text;
    closed_last boolean;
BEGIN
    SELECT * INTO c FROM cases WHERE bug_id = p_bug_id FOR NO KEY UPDATE;
    SELECT * INTO t FROM agent_turns WHERE bug_id = p_bug_id AND turn = p_turn FOR UPDATE;
    IF t.status = 'done' THEN
        RETURN jsonb_build_object('status', 'done', 'action', t.action,
            'cost_usd', CASE WHEN t.cost_known THEN t.cost_usd END);
    ELSIF c.bug_id IS NULL OR c.status = 'resolved' OR p_turn <> c.turn + 1 THEN
        RETURN jsonb_build_object('status', 'refused');
    ELSIF t.status = 'running' AND t.lease_until > clock_timestamp() AND t.attempt > p_attempt THEN
        RETURN jsonb_build_object('status', 'refused');
    END IF;

    UPDATE bug_conversations SET turn = p_turn WHERE bug_id = p_bug_id AND sender_type <> 'bot' AND turn IS NULL;
    WITH batch AS MATERIALIZED (
        SELECT * FROM bug_conversations WHERE bug_id = p_bug_id AND sender_type <> 'bot' AND turn = p_turn
    )
    SELECT min(seq), max(seq),
           (array_agg(message_id ORDER BY said_at DESC)
               FILTER (WHERE sender_type = 'developer' AND spoken AND redacted_at IS NULL))[1],
           (array_agg(closes ORDER BY said_at DESC, seq DESC) FILTER (WHERE closes IS NOT NULL))[1]
    INTO lo, hi, asked_by, closed_last FROM batch;
    -- A close that is due ends the case; as a part of a turn's batch it would be used up.
    IF closed_last THEN
        RETURN jsonb_build_object('status', 'refused');
    END IF;

    INSERT INTO agent_turns AS a
        (bug_id, turn, attempt, status, token, lease_until, session_id, parent_session, first_seq, last_seq,
         fix_requested_by)
    VALUES (p_bug_id, p_turn, p_attempt, 'running', 1, clock_timestamp() + make_interval(secs => p_lease_s),
            p_session_id, c.last_session_id, lo, hi, coalesce(asked_by, ''))
    ON CONFLICT (bug_id, turn) DO UPDATE SET
        attempt = excluded.attempt, status = 'running', token = a.token + 1, lease_until = excluded.lease_until,
        session_id = excluded.session_id, parent_session = excluded.parent_session,
        first_seq = excluded.first_seq, last_seq = excluded.last_seq,
        fix_requested_by = coalesce(nullif(a.fix_requested_by, ''), excluded.fix_requested_by),
        started_at = clock_timestamp()
    RETURNING * INTO t;

    RETURN jsonb_build_object(
        'status', 'claimed', 'token', t.token, 'parent_session', c.last_session_id, 'state', c.status,
        'questions', c.questions, 'cost_usd', c.cost_usd + t.cost_usd, 'base', c.base,
        'fix_requested_by', t.fix_requested_by,
        'last_action', c.last_action,
        'has_findings', EXISTS (SELECT FROM agent_turns k
                                WHERE k.bug_id = p_bug_id AND k.turn <= c.turn AND k.has_findings),
        'diffs', (SELECT coalesce(jsonb_object_agg(d.key, d.value ORDER BY k.turn), '{}')
                  FROM agent_turns k, jsonb_each(k.diffs) d
                  WHERE k.bug_id = p_bug_id AND k.turn <= c.turn AND k.status = 'done' AND k.diffs <> '{}'));
END $$;

-- Returns the turn and locks it, or raises TL001. The functions below call it; the role itself may not.
CREATE FUNCTION held_claim(p_bug_id text, p_turn int, p_token bigint)
RETURNS agent_turns LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    t agent_turns;
BEGIN
    SELECT * INTO t FROM agent_turns WHERE bug_id = p_bug_id AND turn = p_turn FOR UPDATE;
    IF t.token IS DISTINCT FROM p_token OR t.status <> 'running' OR t.lease_until <= clock_timestamp() THEN
        RAISE EXCEPTION 'turn % of % is no longer held under token %', p_turn, p_bug_id, p_token
            USING ERRCODE = 'TL001';
    END IF;
    RETURN t;
END $$;

CREATE FUNCTION agent_renew_lease(p_bug_id text, p_turn int, p_token bigint, p_lease_s double precision)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM held_claim(p_bug_id, p_turn, p_token);
    UPDATE agent_turns SET lease_until = clock_timestamp() + make_interval(secs => p_lease_s)
    WHERE bug_id = p_bug_id AND turn = p_turn;
END $$;

-- Keeps a fix and its diffs only when a developer's message was in the turn's batch, whatever the outcome says.
CREATE FUNCTION agent_finish_turn(p_bug_id text, p_turn int, p_token bigint, p_outcome jsonb)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    t agent_turns;
    permitted boolean;
BEGIN
    PERFORM FROM agent_turns WHERE bug_id = p_bug_id AND turn = p_turn AND token = p_token AND status = 'done';
    IF FOUND THEN
        RETURN;  -- a retry: the answer to the first call was lost
    END IF;
    t := held_claim(p_bug_id, p_turn, p_token);
    permitted := t.fix_requested_by <> '';
    UPDATE agent_turns SET
        status = CASE WHEN p_outcome ->> 'action' IS NULL THEN 'failed' ELSE 'done' END,
        action = p_outcome ->> 'action',
        result = coalesce(p_outcome -> 'result', '{}'),
        diffs = CASE WHEN permitted THEN coalesce(p_outcome -> 'diffs', '{}') ELSE '{}' END,
        base = coalesce(p_outcome -> 'base', '{}'),
        has_fix = permitted AND coalesce((p_outcome ->> 'has_fix')::boolean, false),
        cost_usd = t.cost_usd + coalesce((p_outcome ->> 'cost_usd')::numeric, 0),
        cost_known = t.cost_known AND coalesce((p_outcome ->> 'cost_known')::boolean, true),
        input_tokens = t.input_tokens + coalesce((p_outcome ->> 'input_tokens')::bigint, 0),
        output_tokens = t.output_tokens + coalesce((p_outcome ->> 'output_tokens')::bigint, 0),
        duration_s = t.duration_s + coalesce((p_outcome ->> 'duration_s')::double precision, 0),
        read_seqs = ARRAY(SELECT jsonb_array_elements_text(coalesce(p_outcome -> 'read_seqs', '[]'))::int),
        failure = coalesce(p_outcome ->> 'failure', ''),
        finished_at = clock_timestamp()
    WHERE bug_id = p_bug_id AND turn = p_turn;
END $$;

CREATE FUNCTION agent_record_finding(
    p_bug_id text, p_turn int, p_token bigint, p_title text, p_detail text, p_file text, p_line int, p_severity text
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM held_claim(p_bug_id, p_turn, p_token);
    INSERT INTO findings (bug_id, turn, title, detail, file, line, severity)
    VALUES (p_bug_id, p_turn, p_title, p_detail, p_file, p_line, p_severity)
    ON CONFLICT (bug_id, turn, title, file, line) DO NOTHING;
END $$;

-- The session's row is a lock: it keeps the batches of concurrent appends whole and in order.
CREATE FUNCTION append_entries(p_project_key text, p_session_id text, p_subpath text, p_uuids text[], p_entries text[])
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    INSERT INTO agent_sessions (project_key, session_id, subpath, modified_at)
    VALUES (p_project_key, p_session_id, p_subpath, clock_timestamp())
    ON CONFLICT (project_key, session_id, subpath) DO UPDATE SET modified_at = excluded.modified_at;
    INSERT INTO agent_session_entries (project_key, session_id, subpath, uuid, entry)
    SELECT p_project_key, p_session_id, p_subpath, e.uuid, e.entry
    FROM unnest(p_uuids, p_entries) WITH ORDINALITY AS e (uuid, entry, position) ORDER BY e.position
    ON CONFLICT (project_key, session_id, subpath, uuid) WHERE uuid IS NOT NULL DO NOTHING;
END $$;

CREATE FUNCTION agent_append_entries(
    p_bug_id text, p_turn int, p_token bigint,
    p_project_key text, p_session_id text, p_subpath text, p_uuids text[], p_entries text[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    t agent_turns;
BEGIN
    t := held_claim(p_bug_id, p_turn, p_token);
    IF t.session_id <> p_session_id THEN
        RAISE EXCEPTION 'turn % of % writes session %, not %', p_turn, p_bug_id, t.session_id, p_session_id
            USING ERRCODE = 'TL001';
    END IF;
    PERFORM append_entries(p_project_key, p_session_id, p_subpath, p_uuids, p_entries);
END $$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Threads: posts, registry, catch-up
-- ---------------------------------------------------------------------------------------------------------------------

-- One row for each visible post, claimed under its key before it is sent, so that a retry does not post it twice.
-- record_due: it is in Slack as ts, and recording what goes with it failed; the next attempt records it.
CREATE TABLE posts (
    key text PRIMARY KEY,
    channel text NOT NULL,
    thread_ts text,
    claimed_at double precision NOT NULL,
    ts text,
    record_due boolean NOT NULL DEFAULT false,
    CHECK (ts IS NOT NULL OR NOT record_due)
);
-- Finds the conversation that an answer of the bot belongs to.
CREATE INDEX posts_answers_idx ON posts (channel, ts) WHERE key LIKE 'conversation:%';
-- Finds the posts of which nobody knows yet whether Slack has them.
CREATE INDEX posts_in_doubt_idx ON posts (claimed_at) WHERE ts IS NULL;
-- Finds the posts of a conversation that is being forgotten.
CREATE INDEX posts_conversation_idx ON posts (channel, thread_ts) WHERE key LIKE 'conversation:%';
-- Finds the files that a handover has shown in a thread.
CREATE INDEX posts_handover_idx ON posts (channel, thread_ts) WHERE key LIKE 'handover:%';

-- The registry of threads: the workflow that gets what people write there. author_id wrote the root; it is kept for when
-- Slack has it no more. The catch-up leaves alone what was said before compare_from. first_message_at: when the first
-- message was said that is stored of a conversation.
CREATE TABLE threads (
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    workflow_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('case:report', 'case:summary', 'case:escalation', 'conversation', 'handover')),
    author_id text NOT NULL DEFAULT '',
    compare_from numeric(20, 6) NOT NULL DEFAULT 0,
    first_message_at numeric(20, 6),
    PRIMARY KEY (team, channel, thread_ts)
);
CREATE INDEX threads_workflow_idx ON threads (workflow_id);

-- Cases with their pull request and their thread in the summaries channel. A root may be posted twice, and a reply under
-- the second copy registers that as well: the first one counts.
CREATE VIEW case_records AS
SELECT c.*, s.channel AS summary_channel, s.thread_ts AS summary_ts, p.url
FROM cases c LEFT JOIN pull_requests p USING (bug_id)
LEFT JOIN LATERAL (SELECT channel, thread_ts FROM threads
                   WHERE workflow_id = c.workflow_id AND kind = 'case:summary'
                   ORDER BY thread_ts LIMIT 1) s ON true;

-- The words of each case's reporter, with the names of their files.
CREATE VIEW reporter_words AS
SELECT told.bug_id, string_agg(told.words, E'\n') AS words
FROM (SELECT bug_id, message_text || E'\n' || forwarded AS words FROM bug_conversations
      WHERE sender_type = 'reporter' AND redacted_at IS NULL
      UNION ALL SELECT f.bug_id, f.name FROM attachments f JOIN bug_conversations m USING (bug_id, message_id)
      WHERE m.sender_type = 'reporter') told
GROUP BY told.bug_id;

-- Resolved cases some thread of which lacks the post about the end.
CREATE VIEW unposted_closings AS
SELECT c.bug_id, c.resolved_at FROM cases c
WHERE c.status = 'resolved' AND EXISTS (
    SELECT FROM threads place
    WHERE place.workflow_id = c.workflow_id AND NOT EXISTS (
        SELECT FROM posts p
        WHERE p.ts IS NOT NULL
          AND p.key = c.bug_id || ':closing:' || c.closings || ':' || place.channel
                      || CASE place.kind WHEN 'case:escalation' THEN ':' || place.thread_ts ELSE '' END));

-- The record that a thread is about, one for each kind of record.
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
-- Finds the other threads about the same record.
CREATE INDEX thread_bindings_record_idx ON thread_bindings (team, kind, record_id, bound_at);

-- What the catch-up remembers: since when each channel is followed, how far each thread was compared with Slack, which
-- messages were signalled again, and whose authors were refused.
CREATE TABLE catch_up_channels (
    team text NOT NULL,
    channel text NOT NULL,
    installed_at numeric(20, 6) NOT NULL,
    read_at timestamptz,
    deep_read_at timestamptz,
    error text NOT NULL DEFAULT '',
    PRIMARY KEY (team, channel)
);

-- root_state is what Slack shows of the thread's root, compared_state what it showed when the thread was compared.
CREATE TABLE catch_up_threads (
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    active_at numeric(20, 6) NOT NULL,
    root_state text NOT NULL,
    compared_state text NOT NULL DEFAULT '',
    seen_at double precision NOT NULL,
    compared_at double precision NOT NULL DEFAULT 0,
    is_due boolean NOT NULL,
    error text NOT NULL DEFAULT '',
    PRIMARY KEY (team, channel, thread_ts)
);
CREATE INDEX catch_up_threads_due_idx ON catch_up_threads (team, active_at, channel, thread_ts) WHERE is_due;
CREATE INDEX catch_up_threads_active_idx ON catch_up_threads (team, active_at, compared_at);

CREATE TABLE catch_up_messages (
    team text NOT NULL,
    message_id text NOT NULL,
    sends int NOT NULL CHECK (sends >= 0),
    refused boolean NOT NULL,
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (team, message_id)
);

-- Stored messages that Slack's history does not show, and in how many passes of the catch-up.
CREATE TABLE catch_up_absences (
    team text NOT NULL,
    message_id text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    looks int NOT NULL CHECK (looks > 0),
    looked_at double precision NOT NULL,
    verdict text NOT NULL CHECK (verdict IN ('waiting', 'doubted', 'believed', 'restored')),
    PRIMARY KEY (team, message_id)
);
CREATE INDEX catch_up_absences_looked_at_idx ON catch_up_absences (team, looked_at);

-- Copies of what was removed because a deletion was inferred, and nobody has seen one: `threadline messages restore`
-- brings them back. A deletion that is seen removes them at once, and a setting says how long they are kept. `record`
-- is the table that a row is of, and `record_key` says which row there; `message_id` is the deleted message's.
CREATE TABLE removed_content (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bug_id text,
    conversation_id bigint,
    message_id text NOT NULL,
    record text NOT NULL CHECK (record IN (
        'bug_conversations', 'attachments', 'cases', 'conversation_messages', 'transcript_entries', 'handover_answers')),
    record_key text NOT NULL,
    kept jsonb NOT NULL,
    content bytea,
    removed_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((bug_id IS NULL) <> (conversation_id IS NULL))
);
CREATE UNIQUE INDEX removed_content_record_idx
    ON removed_content (coalesce(bug_id, ''), coalesce(conversation_id, 0), record, record_key);
CREATE INDEX removed_content_message_idx ON removed_content (message_id);
CREATE INDEX removed_content_removed_at_idx ON removed_content (removed_at);

-- Faults of the installation that the admin is told of, and whether they know of its beginning and its end.
CREATE TABLE installation_faults (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind <> ''),
    subject text NOT NULL,
    text text NOT NULL,
    first_seen timestamptz NOT NULL,
    last_seen timestamptz NOT NULL,
    resolved_at timestamptz,
    told_open boolean NOT NULL DEFAULT false,
    told_over boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX installation_faults_open_idx ON installation_faults (kind, subject) WHERE resolved_at IS NULL;

-- Where the data has lived: the first row is the installation, and each further row is a restore from a backup.
-- lost_since is the last moment that the restored database knows. Times are seconds since 1970.
CREATE TABLE installation_places (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    database_id text NOT NULL,
    temporal_id text NOT NULL,
    noticed_at double precision NOT NULL,
    lost_since double precision
);

CREATE TABLE quarantine (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    message_id text NOT NULL,
    message_text text NOT NULL,
    error text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (team, channel, thread_ts, message_id)
);

-- ---------------------------------------------------------------------------------------------------------------------
-- Conversations
-- ---------------------------------------------------------------------------------------------------------------------

-- A thread in which someone has addressed the bot. `turn` is the last finished turn; `rev` counts changes, under the
-- row's lock. `stored` is 0 once all messages were deleted: the thread is no longer followed. Its row stays, so that no
-- turn number, and no key made of one, is used twice.
CREATE TABLE conversations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    rev int NOT NULL DEFAULT 1,
    stored int NOT NULL DEFAULT 0,
    -- How many of the stored messages are deletions.
    deletions int NOT NULL DEFAULT 0,
    turn int NOT NULL DEFAULT 0,
    -- The last model call that has taken the unused messages. Each call takes them once, however often it is retried.
    reading_turn int NOT NULL DEFAULT 0,
    reading_step int NOT NULL DEFAULT 0,
    question text NOT NULL DEFAULT '',
    -- One of the people who write in the thread or wrote its root, and whether there are others.
    first_author text NOT NULL DEFAULT '',
    has_several_people boolean NOT NULL DEFAULT false,
    -- The end of the thread's quiet, 0 for none, and the message that changed it last; in Slack's seconds since 1970.
    quiet_until numeric(20, 6) NOT NULL DEFAULT 0,
    quiet_changed_at numeric(20, 6) NOT NULL DEFAULT 0,
    -- NULL once a call's cost was unknown.
    cost_usd double precision DEFAULT 0,
    -- The summary of the transcript's older messages, and the last `position` that it covers.
    summary text NOT NULL DEFAULT '',
    summary_until int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT conversations_thread_key UNIQUE (team, channel, thread_ts)
);
CREATE INDEX conversations_age_idx ON conversations (last_at) WHERE stored > 0;

-- People's messages, as they arrived. `turn` is NULL until a turn has taken the message; that turn may be unfinished.
CREATE TABLE conversation_messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    seq int NOT NULL,
    message_id text NOT NULL,
    sender_type text NOT NULL,
    sender_id text NOT NULL,
    message_type text NOT NULL,
    message_text text NOT NULL,
    channel text NOT NULL,
    slack_ts text NOT NULL,
    said_at numeric(20, 6) NOT NULL,
    correction_of text NOT NULL DEFAULT '',
    version numeric(20, 6) NOT NULL DEFAULT 0,
    forwarded text NOT NULL DEFAULT '',
    files jsonb NOT NULL DEFAULT '[]',
    -- An edit's: the message shows a file no more. Without it an edit that names no files leaves them alone.
    files_removed boolean NOT NULL DEFAULT false,
    addressed boolean NOT NULL DEFAULT false,
    -- The verdict of the rate limits: NULL until it is given, and never changed, unless an edit first mentions the bot.
    -- 'heard' marks a message that the rule for silence only stores.
    verdict text CHECK (verdict IN ('ok', 'answer', 'duplicate', 'throttled', 'throttled_first', 'heard')),
    wants_turn boolean NOT NULL DEFAULT false,
    turn int,
    step int,
    redacted_at timestamptz,
    edited_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- The message has something to answer. An empty message counts if it is addressed to the bot.
    needs_answer boolean NOT NULL GENERATED ALWAYS AS (
        message_type = 'message' AND redacted_at IS NULL
        AND (addressed OR message_text ~ '\S' OR files <> '[]' OR forwarded <> '')) STORED,
    UNIQUE (conversation_id, seq),
    UNIQUE (conversation_id, message_id)
);
CREATE INDEX conversation_messages_unused_idx ON conversation_messages (conversation_id, turn);
CREATE INDEX conversation_messages_id_idx ON conversation_messages (message_id);
CREATE INDEX conversation_messages_correction_idx ON conversation_messages (conversation_id, correction_of)
    WHERE correction_of <> '';

-- The texts of attached files, each fetched from Slack once, bounded and without secrets. `trouble` says why a file could
-- not be read. A row goes with its message, and when an edit removes the file from it.
CREATE TABLE conversation_files (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    message_id text NOT NULL,
    file_id text NOT NULL,
    content text NOT NULL DEFAULT '',
    trouble text NOT NULL DEFAULT '',
    fetched_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, message_id, file_id),
    CHECK (fetched_at IS NOT NULL OR content = '' AND trouble = '')
);
CREATE INDEX conversation_files_pending_idx ON conversation_files (conversation_id) WHERE fetched_at IS NULL;

-- What the model reads, in order; append only. `body` is a message as JSON in ASCII, so that any text comes back
-- exactly. `key` makes each entry unique: u:<message id>, a:<turn>:<step>, t:<turn>:<step>:<call id>.
CREATE TABLE transcript_entries (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    position int NOT NULL,
    key text NOT NULL,
    turn int NOT NULL,
    step int NOT NULL,
    body text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, position),
    UNIQUE (conversation_id, key)
);

-- The messages that turns have taken up, in their current wording. An edit is a row of its own if its original was taken
-- up earlier; otherwise the original already has the new wording. `in_transcript`: a model call has read the row.
CREATE VIEW turn_messages AS
SELECT t.*, EXISTS (SELECT FROM transcript_entries r
                    WHERE r.conversation_id = t.conversation_id AND r.key = 'u:' || t.message_id) AS in_transcript
FROM (
    SELECT m.conversation_id, m.turn, m.step, m.seq, m.message_id, m.sender_id, m.message_text, m.forwarded, m.files,
           m.said_at, m.redacted_at, m.addressed, '' AS edit_of, m.verdict IS NOT DISTINCT FROM 'heard' AS only_stored
    FROM conversation_messages m
    WHERE m.message_type = 'message'
    UNION ALL
    SELECT e.conversation_id, e.turn, e.step, e.seq, e.message_id, o.sender_id, o.message_text, o.forwarded, o.files,
           o.said_at, o.redacted_at, o.addressed, o.message_id, o.verdict IS NOT DISTINCT FROM 'heard'
    FROM conversation_messages e JOIN conversation_messages o
         ON o.conversation_id = e.conversation_id AND o.message_id = e.correction_of
    WHERE e.message_type = 'edit' AND (o.turn, o.step) < (e.turn, e.step) AND o.redacted_at IS NULL
      AND NOT EXISTS (SELECT FROM conversation_messages later
                      WHERE later.conversation_id = e.conversation_id AND later.message_type = 'edit'
                        AND later.correction_of = e.correction_of AND later.version > e.version)
) t;

-- Turns: the route, the context that the operator agent got and, once the turn is settled, the full answer, when it was
-- posted, and the result in figures. `route` is NULL where a turn ended before it was routed. `context`, `patterns` and
-- `analysis` may hold people's words: they are emptied when the turn is settled. `layers` are sizes.
CREATE TABLE conversation_turns (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    turn int NOT NULL,
    route jsonb,
    context text NOT NULL DEFAULT '',
    patterns text NOT NULL DEFAULT '',
    analysis text NOT NULL DEFAULT '',
    layers jsonb NOT NULL DEFAULT '[]',
    kind text NOT NULL DEFAULT '',
    answer text NOT NULL DEFAULT '',
    user_id text NOT NULL DEFAULT '',
    wants_detail boolean NOT NULL DEFAULT false,
    model_calls int NOT NULL DEFAULT 0,
    result jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    settled_at timestamptz,
    posted_at timestamptz,
    PRIMARY KEY (conversation_id, turn),
    CONSTRAINT conversation_turns_settled_check CHECK (
        settled_at IS NULL AND kind = '' AND answer = '' AND posted_at IS NULL OR settled_at IS NOT NULL AND kind <> '')
);
CREATE INDEX conversation_turns_unposted_idx ON conversation_turns (conversation_id, turn)
    WHERE posted_at IS NULL AND answer <> '';

-- Each model call and its cost, NULL where the model has no price; `purpose` is decide, compare, think, draft, analyse
-- or summarise. `failure` is the reason of a call that failed: it may quote people, and is removed with their messages.
CREATE TABLE model_calls (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    turn int NOT NULL,
    step int NOT NULL,
    purpose text NOT NULL,
    model text NOT NULL,
    input_tokens int NOT NULL,
    cached_tokens int NOT NULL,
    output_tokens int NOT NULL,
    reasoning_tokens int NOT NULL,
    cost_usd double precision,
    milliseconds int NOT NULL,
    failure text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX model_calls_turn_idx ON model_calls (conversation_id, turn);

-- Feedback: the thumbs on the bot's messages. `active` is false once one was taken back; `at` is Slack's time, and the
-- latest event wins. posts says which turn a message belongs to.
CREATE TABLE ratings (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    message_ts text NOT NULL,
    user_id text NOT NULL,
    reaction text NOT NULL,
    active boolean NOT NULL,
    at numeric(20, 6) NOT NULL,
    PRIMARY KEY (conversation_id, message_ts, user_id, reaction)
);

-- ---------------------------------------------------------------------------------------------------------------------
-- Decisions
-- ---------------------------------------------------------------------------------------------------------------------

-- One round of the decision engine in a turn. `decision` is the model's answer; it may quote people, and is removed with
-- their messages. `sources` lose their texts when the turn is finished. `factors` and `next_step` are set once the
-- evidence is judged, `outcome` once the turn is finished.
CREATE TABLE decisions (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    turn int NOT NULL,
    round int NOT NULL,
    inputs_hash text NOT NULL,
    prompt_version text NOT NULL,
    variant text NOT NULL DEFAULT '',
    type text NOT NULL,
    decision jsonb NOT NULL,
    threshold_high double precision NOT NULL,
    threshold_low double precision NOT NULL,
    sources jsonb NOT NULL DEFAULT '[]',
    retrieval jsonb,
    factors jsonb,
    confidence double precision,
    next_step text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    outcome text NOT NULL DEFAULT '',
    cost_usd double precision DEFAULT 0,
    decided_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, turn, round)
);
CREATE INDEX decisions_age_idx ON decisions (decided_at);

-- ---------------------------------------------------------------------------------------------------------------------
-- Handovers
-- ---------------------------------------------------------------------------------------------------------------------

-- A turn that was given to a person. `channel` and `card_ts` are its card, once posted; the card's text is made of the
-- conversation each time. `closed_at` is when the button was pressed: what was written before that counts, whenever it
-- arrives.
CREATE TABLE handovers (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    turn int NOT NULL,
    user_id text NOT NULL,
    channel text NOT NULL DEFAULT '',
    card_ts text NOT NULL DEFAULT '',
    taken_by text NOT NULL DEFAULT '',
    taken_at timestamptz,
    closed_by text NOT NULL DEFAULT '',
    closed_at timestamptz,
    reminded int NOT NULL DEFAULT 0,
    opened_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, turn)
);
-- A thread has one open handover at most.
CREATE UNIQUE INDEX handovers_open_key ON handovers (conversation_id) WHERE closed_at IS NULL;

-- The messages below a handover's card. Edits and deletions have rows of their own; an edit keeps its text, since it may
-- arrive before its original. The highest `version` wins. `shown_at` is set once a message needs nothing more.
-- Retention deletes the handover of a conversation, and the foreign key its messages.
CREATE TABLE handover_answers (
    conversation_id bigint NOT NULL,
    message_id text NOT NULL,
    turn int NOT NULL,
    seq int NOT NULL,
    message_type text NOT NULL,
    sender_type text NOT NULL,
    sender_id text NOT NULL,
    message_text text NOT NULL,
    channel text NOT NULL,
    slack_ts text NOT NULL,
    said_at numeric(20, 6) NOT NULL,
    correction_of text NOT NULL DEFAULT '',
    version numeric(20, 6) NOT NULL DEFAULT 0,
    forwarded text NOT NULL DEFAULT '',
    -- The words with their quotes where they were written; empty where nothing is quoted.
    as_written text NOT NULL DEFAULT '',
    files jsonb NOT NULL DEFAULT '[]',
    -- An edit's: the message shows a file no more. Without it an edit that names no files leaves them alone.
    files_removed boolean NOT NULL DEFAULT false,
    redacted_at timestamptz,
    edited_at timestamptz,
    shown_at timestamptz,
    reply_state text NOT NULL DEFAULT ''
        CHECK (reply_state IN ('', 'held', 'sending', 'sent', 'undone', 'late', 'refused')),
    undone_by text NOT NULL DEFAULT '',
    send_at timestamptz,
    PRIMARY KEY (conversation_id, message_id),
    FOREIGN KEY (conversation_id, turn) REFERENCES handovers (conversation_id, turn) ON DELETE CASCADE
);
CREATE INDEX handover_answers_message_idx ON handover_answers (message_id);

-- ---------------------------------------------------------------------------------------------------------------------
-- Tools and rate limits
-- ---------------------------------------------------------------------------------------------------------------------

-- The verdict on each event that a rule limits. A retry of the event gets the same one.
CREATE TABLE rate_limit_events (
    rule text NOT NULL CHECK (rule IN ('user', 'mutation')),
    scope text NOT NULL,
    event text NOT NULL,
    at double precision NOT NULL,
    verdict text NOT NULL CHECK (verdict IN ('ok', 'throttled_first', 'throttled')),
    PRIMARY KEY (rule, scope, event)
);
CREATE INDEX rate_limit_events_window_idx ON rate_limit_events (rule, scope, at);
CREATE INDEX rate_limit_events_told_idx ON rate_limit_events (rule, scope, at) WHERE verdict = 'throttled_first';
CREATE INDEX rate_limit_events_age_idx ON rate_limit_events (at);

-- Executions of tools. A row without a status is an intent: the call may have been made, and its outcome is unknown.
-- The result of a `cacheable` row may answer the same question again, for a while.
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
    status text CHECK (status IN ('ok', 'error', 'blocked', 'cached', 'pending')),
    success boolean NOT NULL GENERATED ALWAYS AS (status IS NOT NULL AND status IN ('ok', 'cached', 'pending')) STORED,
    execution_time_ms int CHECK (execution_time_ms >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT agent_tool_executions_call_key UNIQUE (team, channel, thread_ts, turn, step, call_id),
    CHECK (status IS NOT NULL OR finished_at IS NULL)
);
CREATE INDEX idx_tool_executions_channel_thread ON agent_tool_executions (channel, thread_ts);
CREATE INDEX idx_tool_executions_user ON agent_tool_executions (user_id);
CREATE INDEX idx_tool_executions_age ON agent_tool_executions (created_at);
CREATE INDEX idx_tool_executions_answer ON agent_tool_executions (fingerprint) WHERE cacheable;
CREATE INDEX idx_tool_executions_toolset ON agent_tool_executions (team, split_part(tool_name, '.', 1)) WHERE cacheable;
CREATE INDEX idx_tool_executions_intent ON agent_tool_executions (team, split_part(tool_name, '.', 1))
    WHERE status IS NULL;

-- ---------------------------------------------------------------------------------------------------------------------
-- Knowledge
-- ---------------------------------------------------------------------------------------------------------------------

-- The team's documents, one row each; answers quote their passages. `ingest_root` is the folder or list that a document
-- came with: a document that is gone from there is removed. `content_hash` is that of the file; an empty one differs
-- from every file, so that the next ingest replaces the document. `language` is the text search configuration that stems
-- its words. It is no regconfig, which pg_upgrade refuses.
CREATE TABLE knowledge_documents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    title text NOT NULL CHECK (title <> ''),
    source text NOT NULL CHECK (source <> ''),
    body text NOT NULL CHECK (body <> ''),
    updated_at timestamptz NOT NULL DEFAULT now(),
    type text NOT NULL DEFAULT 'product',
    authority double precision NOT NULL DEFAULT 0.7 CHECK (authority BETWEEN 0 AND 1),
    effective date,
    expires date,
    ingest_root text NOT NULL DEFAULT '',
    content_hash text NOT NULL DEFAULT '',
    language text NOT NULL DEFAULT 'english',
    UNIQUE (team, source)
);

-- A part of a document, with its title and the path of headings above it. `vector` is the embedding that `model` made,
-- as plain numbers: the extension pgvector compares them, and a Postgres without it has the same tables. A search scans
-- the index once for each word of the question. With `fastupdate` each scan would read the list of pending entries, too.
-- `search_vector` has the words as Postgres cuts and stems them, by weight and position, and the terms of
-- threadline/db/words.py, which cuts questions as well.
CREATE TABLE knowledge_passages (
    document_id bigint NOT NULL REFERENCES knowledge_documents (id) ON DELETE CASCADE,
    position int NOT NULL,
    title text NOT NULL,
    section text NOT NULL,
    body text NOT NULL,
    search_vector tsvector NOT NULL,
    model text NOT NULL DEFAULT '',
    vector real[],
    PRIMARY KEY (document_id, position)
);
CREATE INDEX knowledge_passages_search_vector_idx ON knowledge_passages USING gin (search_vector) WITH (fastupdate = off);

-- Each word that a team's documents have or had: mistyped words of a query are corrected to these.
CREATE TABLE knowledge_words (
    team text NOT NULL,
    word text NOT NULL,
    PRIMARY KEY (team, word)
);
CREATE INDEX knowledge_words_letters_idx ON knowledge_words USING gin (word gin_trgm_ops) WITH (fastupdate = off);

-- ---------------------------------------------------------------------------------------------------------------------
-- RFPs and the operator agent's records
-- ---------------------------------------------------------------------------------------------------------------------

-- Requests for proposals. A deleted one keeps its row: its journal and its events are kept for ever.
CREATE TABLE rfps (
    team text NOT NULL,
    rfp_id text NOT NULL CHECK (rfp_id ~ '^rfp_[a-z0-9]{3,40}$'),
    title text NOT NULL CHECK (title <> ''),
    client text NOT NULL,
    due_date date,
    status text NOT NULL CHECK (status ~ '^[a-z_]{1,40}$'),
    owner text NOT NULL,
    source_name text NOT NULL,
    source_hash text CHECK (source_hash ~ '^[0-9a-f]{64}$'),
    source_text text NOT NULL,
    -- What the text lacks of the file, such as scans.
    source_unread text[] NOT NULL,
    -- The words of title and client, and those of the text.
    name_words text[] NOT NULL DEFAULT '{}',
    source_words text[] NOT NULL DEFAULT '{}',
    search_vector tsvector NOT NULL GENERATED ALWAYS AS
        (setweight(to_tsvector('english', title || ' ' || client), 'A')
         || setweight(to_tsvector('english', left(source_text, 200000)), 'D')
         || word_vector('english', name_words) || word_vector('english', source_words)) STORED,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    deleted_at timestamptz,
    PRIMARY KEY (team, rfp_id)
);
-- In one team, the same file is the same request.
CREATE UNIQUE INDEX rfps_source_idx ON rfps (team, source_hash) WHERE deleted_at IS NULL;
CREATE INDEX rfps_due_idx ON rfps (team, due_date, rfp_id) WHERE deleted_at IS NULL;
CREATE INDEX rfps_client_idx ON rfps (team, lower(client)) WHERE deleted_at IS NULL;
CREATE INDEX rfps_search_idx ON rfps USING gin (search_vector);
CREATE INDEX rfps_title_trgm_idx ON rfps USING gin (title gin_trgm_ops);

-- One document for each RFP. A writer locks the row; `version` counts its changes.
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
    kind text NOT NULL CHECK (kind IN ('note', 'decision', 'said', 'failed', 'unchecked')),
    text text NOT NULL CHECK (text <> ''),
    user_id text NOT NULL,
    correlation_id text NOT NULL CHECK (correlation_id <> ''),
    channel text NOT NULL,
    thread_ts text NOT NULL,
    operation_key text NOT NULL,
    created_at timestamptz NOT NULL,
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
    created_at timestamptz NOT NULL,
    FOREIGN KEY (team, rfp_id) REFERENCES rfps (team, rfp_id),
    UNIQUE (team, operation_key)
);
CREATE INDEX events_order_idx ON events (team, rfp_id, id);
CREATE INDEX events_correlation_idx ON events (team, correlation_id);

-- Append-only tables: not even their owner changes or deletes a row. ALWAYS: also for a session with
-- session_replication_role = replica, which skips ordinary triggers.
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
    -- That the person has for proposals.
    hours_per_week int NOT NULL CHECK (hours_per_week BETWEEN 0 AND 168),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (team, user_id)
);
CREATE INDEX team_members_name_idx ON team_members (team, lower(name));

-- Profiles of Slack users, cached.
CREATE TABLE users (
    team text NOT NULL,
    user_id text NOT NULL CHECK (user_id <> ''),
    email text NOT NULL,
    display_name text NOT NULL,
    platform_id text NOT NULL,
    fetched_at timestamptz NOT NULL,
    PRIMARY KEY (team, user_id)
);

-- The operator agent's memory. `search_text` is the text that a search prefers, such as the question. A memory with a `channel`
-- may be used in that channel alone.
CREATE TABLE memories (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('episodic', 'semantic', 'procedural')),
    search_text text NOT NULL,
    text text NOT NULL CHECK (text <> ''),
    error_class text NOT NULL,
    user_id text NOT NULL,
    channel text NOT NULL,
    rfp_id text NOT NULL,
    key text NOT NULL,
    -- The words of both texts.
    words text[] NOT NULL DEFAULT '{}',
    search_vector tsvector NOT NULL GENERATED ALWAYS AS
        (setweight(to_tsvector('english', search_text), 'A') || setweight(to_tsvector('english', text), 'B')
         || word_vector('english', words)) STORED,
    created_at timestamptz NOT NULL,
    UNIQUE (team, kind, key)
);
CREATE INDEX memories_search_idx ON memories USING gin (search_vector);
CREATE INDEX memories_age_idx ON memories (created_at);

-- ---------------------------------------------------------------------------------------------------------------------
-- Approvals
-- ---------------------------------------------------------------------------------------------------------------------

-- Actions that need a person's approval first. An action without a decision is open until it expires. Nobody approves
-- an action of high risk that they asked for.
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
    requested_by text NOT NULL CHECK (requested_by <> ''),
    -- The name of whoever asked, and everybody else who wrote in the turn: id to label.
    actor text NOT NULL DEFAULT '',
    co_requesters jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(co_requesters) = 'object'),
    approvers text[] NOT NULL,
    correlation_id text NOT NULL CHECK (correlation_id <> ''),
    operation_key text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    decision text CHECK (decision IN ('approved', 'rejected', 'expired')),
    decided_at timestamptz,
    decided_by text NOT NULL DEFAULT '',
    decision_key text NOT NULL DEFAULT '',
    UNIQUE (team, operation_key),
    CHECK (created_at < expires_at),
    CHECK ((decision IS NULL) = (decided_at IS NULL)),
    CHECK (risk <> 'high' OR decided_by <> requested_by)
);
CREATE INDEX proposed_actions_open_idx ON proposed_actions (team, correlation_id) WHERE decision IS NULL;

-- An action is decided once, and stays as it was proposed.
CREATE FUNCTION refuse_second_decision() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    -- action_id is generated after this trigger has run.
    others CONSTANT text[] := ARRAY['decision', 'decided_at', 'decided_by', 'decision_key', 'action_id'];
BEGIN
    IF OLD.decision IS NOT NULL OR to_jsonb(OLD) - others <> to_jsonb(NEW) - others THEN
        RAISE EXCEPTION '% stays as it was proposed, and is decided once', OLD.action_id USING ERRCODE = 'TL004';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse_second_decision BEFORE UPDATE ON proposed_actions
    FOR EACH ROW EXECUTE FUNCTION refuse_second_decision();

-- ---------------------------------------------------------------------------------------------------------------------
-- Jobs
-- ---------------------------------------------------------------------------------------------------------------------

-- Scheduled work: at one moment (`run_at`), or by `cron`.
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
    requested_by text NOT NULL CHECK (requested_by <> ''),
    correlation_id text NOT NULL CHECK (correlation_id <> ''),
    operation_key text NOT NULL,
    -- Of the latest run: what started it, its result, and its error.
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

-- ---------------------------------------------------------------------------------------------------------------------
-- Appointments
-- ---------------------------------------------------------------------------------------------------------------------

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

-- The exclusion constraint makes a double booking impossible, whoever writes. `revision` counts changes and the
-- cancellation: an invitation's SEQUENCE.
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
    revision int NOT NULL DEFAULT 0,
    FOREIGN KEY (team, resource) REFERENCES appointment_resources (team, name),
    CHECK (NOT isempty(during) AND NOT lower_inf(during) AND NOT upper_inf(during)),
    CHECK (lower_inc(during) AND NOT upper_inc(during)),
    CONSTRAINT appointments_one_at_a_time
        EXCLUDE USING gist (team WITH =, resource WITH =, during WITH &&) WHERE (cancelled_at IS NULL)
);
CREATE INDEX appointments_attendee_idx ON appointments (team, attendee);

-- ---------------------------------------------------------------------------------------------------------------------
-- Estimates
-- ---------------------------------------------------------------------------------------------------------------------

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

-- The upper bounds of this table and the next also keep NaN out, which is greater than any number.
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

-- ---------------------------------------------------------------------------------------------------------------------
-- Sales
-- ---------------------------------------------------------------------------------------------------------------------

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

-- `user_id` is empty for a person who is not in Slack.
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
    user_id text NOT NULL
);
CREATE INDEX crm_interactions_lead_idx ON crm_interactions (lead_id, id);

-- One row for each field that a change has changed. Rows are never rewritten, but are deleted with their lead or
-- company.
CREATE TABLE crm_audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lead_id text REFERENCES crm_leads (lead_id) ON DELETE CASCADE,
    company_id text REFERENCES crm_companies (company_id) ON DELETE CASCADE,
    field text NOT NULL CHECK (field <> ''),
    old_value text NOT NULL,
    new_value text NOT NULL CHECK (new_value <> old_value),
    user_id text NOT NULL,
    correlation_id text NOT NULL CHECK (correlation_id <> ''),
    operation_key text NOT NULL CHECK (operation_key <> ''),
    changed_at timestamptz NOT NULL,
    CHECK (num_nonnulls(lead_id, company_id) = 1)
);
CREATE INDEX crm_audit_lead_idx ON crm_audit (lead_id, id);
CREATE INDEX crm_audit_company_idx ON crm_audit (company_id, id);
CREATE TRIGGER refuse_rewriting BEFORE UPDATE OR TRUNCATE ON crm_audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
ALTER TABLE crm_audit ENABLE ALWAYS TRIGGER refuse_rewriting;

-- Drafts of emails; their text never changes. `operation_key` is the key of the call that sends the draft, and empty
-- until one does.
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
CREATE UNIQUE INDEX email_drafts_operation_idx ON email_drafts (operation_key) WHERE operation_key <> '';
