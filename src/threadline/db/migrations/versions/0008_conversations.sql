-- A thread in which the bot was spoken to. `turn` is the last settled one; `rev` counts changes, under the row's lock.
-- `stored` is 0 when all that was said is forgotten: the thread is not followed any more, and its row stays, so that no
-- number of a turn, and no key that is made of one, is used again.
CREATE TABLE conversations (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    rev int NOT NULL DEFAULT 1,
    stored int NOT NULL DEFAULT 0,
    turn int NOT NULL DEFAULT 0,
    -- The last call of the model for which what was unused has been taken up: once, however often it is tried.
    taken_turn int NOT NULL DEFAULT 0,
    taken_step int NOT NULL DEFAULT 0,
    question text NOT NULL DEFAULT '',
    -- One of the people whose thread it is, who write in it or wrote its root, and whether there are others.
    writer text NOT NULL DEFAULT '',
    several boolean NOT NULL DEFAULT false,
    cost_usd double precision NOT NULL DEFAULT 0,
    -- What older messages of the transcript came to, and the `place` up to which it tells them.
    summary text NOT NULL DEFAULT '',
    summary_until int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT conversations_thread_key UNIQUE (team, channel, thread_ts)
);
CREATE INDEX conversations_age_idx ON conversations (last_at) WHERE stored > 0;

-- What people said, as it arrived. `turn` is NULL as long as no turn has taken it up; the turn may be unsettled yet.
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
    files jsonb NOT NULL DEFAULT '[]',
    addressed boolean NOT NULL DEFAULT false,
    -- The guards' word, for ever: NULL until they have judged it.
    verdict text CHECK (verdict IN ('ok', 'duplicate', 'throttled', 'throttled_first')),
    wakes boolean NOT NULL DEFAULT false,
    turn int,
    step int,
    error text NOT NULL DEFAULT '',
    redacted_at timestamptz,
    edited_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (conversation_id, seq),
    UNIQUE (conversation_id, message_id)
);
CREATE INDEX conversation_messages_unused_idx ON conversation_messages (conversation_id, turn);
CREATE INDEX conversation_messages_id_idx ON conversation_messages (message_id);
CREATE INDEX conversation_messages_correction_idx ON conversation_messages (conversation_id, correction_of)
    WHERE correction_of <> '';

-- What the model reads, in its order, append only. `body` is a message as JSON in ASCII, so that any text comes back
-- exactly; `key` says what it is, so that it is there once: u:<message id>, a:<turn>:<step>, t:<turn>:<step>:<call id>.
CREATE TABLE transcript (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    place int NOT NULL,
    key text NOT NULL,
    turn int NOT NULL,
    step int NOT NULL,
    body text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, place),
    UNIQUE (conversation_id, key)
);

-- A turn that was settled: what is to be said, in full, and when it was.
CREATE TABLE conversation_turns (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    turn int NOT NULL,
    kind text NOT NULL,
    answer text NOT NULL,
    user_id text NOT NULL,
    detail boolean NOT NULL DEFAULT false,
    model_calls int NOT NULL DEFAULT 0,
    settled_at timestamptz NOT NULL DEFAULT now(),
    said_at timestamptz,
    PRIMARY KEY (conversation_id, turn)
);
CREATE INDEX conversation_turns_unsaid_idx ON conversation_turns (conversation_id, turn)
    WHERE said_at IS NULL AND answer <> '';

-- Each call of a model and what it cost; `purpose` is think or summarise.
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
    cost_usd double precision NOT NULL,
    milliseconds int NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX model_calls_turn_idx ON model_calls (conversation_id, turn);

-- Which thread an answer of the bot stands in.
CREATE INDEX slack_posts_answers_idx ON slack_posts (channel, ts) WHERE key LIKE 'talk:%';
-- What was posted in a thread that is forgotten.
CREATE INDEX slack_posts_talk_idx ON slack_posts (channel, thread_ts) WHERE key LIKE 'talk:%';
