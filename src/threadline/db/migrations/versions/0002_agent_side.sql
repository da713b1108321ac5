-- What the agent's role may do: read these views, and call the functions named agent_*.
-- Each function that writes checks (case, turn, token) and a live lease; SQLSTATE TL001 means the claim is lost.

CREATE VIEW agent_conversations AS
SELECT m.bug_id, m.seq, m.id, m.message_id, m.sender_type, m.sender_id, m.message_type, m.said_at, m.version, m.turn,
       m.read_through IS NOT NULL OR coalesce(m.turn <= c.turn, false) AS read,
       CASE WHEN m.redacted_at IS NULL THEN m.message_text ELSE '(deleted by its author)' END AS message_text
FROM bug_conversations m JOIN cases c USING (bug_id)
WHERE m.message_type NOT IN ('deletion', 'quarantined');

CREATE VIEW agent_cases AS
SELECT c.bug_id, c.title, c.status, c.severity, c.components, c.reporter_id, c.created_at, c.resolved_at, c.turn,
       c.questions, coalesce(p.url, '') AS pull_request,
       coalesce((SELECT t.result ->> 'summary' FROM agent_turns t
                 WHERE t.bug_id = c.bug_id AND t.turn <= c.turn AND t.status = 'done'
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

CREATE VIEW agent_transcript_keys AS
SELECT project_key, session_id, subpath, modified_at FROM agent_sessions;

-- Other cases, by the words their reporters used and by their titles.
CREATE FUNCTION agent_similar_cases(p_bug_id text, p_text text, p_limit int)
RETURNS TABLE (bug_id text, title text, status text, summary text, similarity real)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    WITH words AS (
        SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery AS query
        FROM unnest(to_tsvector('english', left(p_text, 4000)))
    ), told AS (
        SELECT m.bug_id, max(ts_rank(to_tsvector('english', m.message_text), w.query, 32)) AS rank
        FROM bug_conversations m, words w
        WHERE to_tsvector('english', m.message_text) @@ w.query AND m.sender_type = 'reporter'
        GROUP BY m.bug_id
    )
    SELECT c.bug_id, c.title, c.status, c.summary,
           least(1, coalesce(t.rank, 0) + similarity(c.title, left(p_text, 200)))::real
    FROM agent_cases c LEFT JOIN told t USING (bug_id)
    WHERE c.bug_id <> p_bug_id AND (t.rank IS NOT NULL OR c.title % left(p_text, 200))
    ORDER BY 5 DESC, c.created_at DESC LIMIT p_limit
$$;

CREATE FUNCTION agent_claim_turn(
    p_bug_id text, p_turn int, p_attempt int, p_session_id text, p_lease_s double precision
) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    c cases;
    t agent_turns;
    lo int;
    hi int;
    asked_by text;
BEGIN
    SELECT * INTO c FROM cases WHERE bug_id = p_bug_id FOR NO KEY UPDATE;
    SELECT * INTO t FROM agent_turns WHERE bug_id = p_bug_id AND turn = p_turn FOR UPDATE;
    IF t.status = 'done' THEN
        RETURN jsonb_build_object('status', 'done', 'action', t.action, 'cost_usd', t.cost_usd);
    ELSIF c.bug_id IS NULL OR c.status = 'resolved' OR p_turn <> c.turn + 1 THEN
        RETURN jsonb_build_object('status', 'refused');
    ELSIF t.status = 'running' AND t.lease_until > clock_timestamp() AND t.attempt > p_attempt THEN
        RETURN jsonb_build_object('status', 'refused');
    END IF;

    UPDATE bug_conversations SET turn = p_turn
    WHERE bug_id = p_bug_id AND sender_type <> 'bot' AND (turn IS NULL OR turn >= p_turn);
    SELECT min(seq), max(seq),
           (array_agg(message_id ORDER BY said_at DESC)
               FILTER (WHERE sender_type = 'developer' AND message_type = 'message' AND redacted_at IS NULL))[1]
    INTO lo, hi, asked_by
    FROM bug_conversations WHERE bug_id = p_bug_id AND turn = p_turn;

    INSERT INTO agent_turns AS a
        (bug_id, turn, attempt, status, token, lease_until, session_id, parent_session, first_seq, last_seq, fix_asked_by)
    VALUES (p_bug_id, p_turn, p_attempt, 'running', 1, clock_timestamp() + make_interval(secs => p_lease_s),
            p_session_id, c.session_head, lo, hi, coalesce(asked_by, ''))
    ON CONFLICT (bug_id, turn) DO UPDATE SET
        attempt = excluded.attempt, status = 'running', token = a.token + 1, lease_until = excluded.lease_until,
        session_id = excluded.session_id, parent_session = excluded.parent_session,
        first_seq = excluded.first_seq, last_seq = excluded.last_seq,
        fix_asked_by = coalesce(nullif(a.fix_asked_by, ''), excluded.fix_asked_by), started_at = clock_timestamp()
    RETURNING * INTO t;

    RETURN jsonb_build_object(
        'status', 'claimed', 'token', t.token, 'parent_session', c.session_head, 'state', c.status,
        'questions', c.questions, 'cost_usd', c.cost_usd + t.cost_usd, 'base', c.base, 'fix_asked_by', t.fix_asked_by,
        'last_action', c.last_action,
        'diffs', (SELECT coalesce(jsonb_object_agg(d.key, d.value ORDER BY k.turn), '{}')
                  FROM agent_turns k, jsonb_each(k.diffs) d
                  WHERE k.bug_id = p_bug_id AND k.turn <= c.turn AND k.status = 'done'));
END $$;

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

-- A fix and its diffs are kept only in a turn whose batch held a developer's message: whoever wrote the outcome.
CREATE FUNCTION agent_finish_turn(p_bug_id text, p_turn int, p_token bigint, p_outcome jsonb)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    t agent_turns;
    permitted boolean;
BEGIN
    PERFORM FROM agent_turns WHERE bug_id = p_bug_id AND turn = p_turn AND token = p_token AND status = 'done';
    IF FOUND THEN
        RETURN;  -- the answer to this very call was lost on its way
    END IF;
    t := held_claim(p_bug_id, p_turn, p_token);
    permitted := t.fix_asked_by <> '';
    UPDATE agent_turns SET
        status = CASE WHEN p_outcome ->> 'action' IS NULL THEN 'failed' ELSE 'done' END,
        action = p_outcome ->> 'action',
        result = coalesce(p_outcome -> 'result', '{}'),
        diffs = CASE WHEN permitted THEN coalesce(p_outcome -> 'diffs', '{}') ELSE '{}' END,
        base = coalesce(p_outcome -> 'base', '{}'),
        has_fix = permitted AND coalesce((p_outcome ->> 'has_fix')::boolean, false),
        cost_usd = t.cost_usd + coalesce((p_outcome ->> 'cost_usd')::numeric, 0),
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

-- The session's row is the lock that keeps the batches of concurrent appends whole and in order.
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
