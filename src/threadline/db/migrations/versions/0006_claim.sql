-- The bot's posts are never used by a turn: as rows without one they would be read by each search for what is unused.
DROP INDEX bug_conversations_turn_idx;
CREATE INDEX bug_conversations_turn_idx ON bug_conversations (bug_id, turn) WHERE sender_type <> 'bot';

-- As before, but for three searches. The UPDATE: what an earlier attempt took has this turn's number already, and no later
-- turn has taken anything, since only the case's next one can be claimed; a search for both could read all that was ever
-- said in the case. The turn's messages: where they are wanted in their order, Postgres walked through all of the case in
-- that order, unless they are searched first. The diffs: most turns have none.
CREATE OR REPLACE FUNCTION agent_claim_turn(
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

    UPDATE bug_conversations SET turn = p_turn WHERE bug_id = p_bug_id AND sender_type <> 'bot' AND turn IS NULL;
    WITH batch AS MATERIALIZED (
        SELECT * FROM bug_conversations WHERE bug_id = p_bug_id AND sender_type <> 'bot' AND turn = p_turn
    )
    SELECT min(seq), max(seq),
           (array_agg(message_id ORDER BY said_at DESC)
               FILTER (WHERE sender_type = 'developer' AND message_type = 'message' AND redacted_at IS NULL))[1]
    INTO lo, hi, asked_by FROM batch;

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
                  WHERE k.bug_id = p_bug_id AND k.turn <= c.turn AND k.status = 'done' AND k.diffs <> '{}'));
END $$;
