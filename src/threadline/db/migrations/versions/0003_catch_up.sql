CREATE TABLE channel_marks (
    channel text PRIMARY KEY,
    installed_at numeric(20, 6) NOT NULL,
    looked_at timestamptz,
    deep_at timestamptz,
    error text NOT NULL DEFAULT ''
);

CREATE TABLE followed_threads (
    channel text NOT NULL,
    thread_ts text NOT NULL,
    said_at numeric(20, 6) NOT NULL,
    active_at numeric(20, 6) NOT NULL,
    shown text NOT NULL,
    compared text NOT NULL DEFAULT '',
    seen_at double precision NOT NULL,
    compared_at double precision NOT NULL DEFAULT 0,
    due boolean NOT NULL,
    error text NOT NULL DEFAULT '',
    PRIMARY KEY (channel, thread_ts)
);
CREATE INDEX followed_threads_due_idx ON followed_threads (active_at) WHERE due;
CREATE INDEX followed_threads_active_idx ON followed_threads (active_at, compared_at);

CREATE TABLE resent_messages (
    message_id text PRIMARY KEY,
    times int NOT NULL CHECK (times > 0),
    last_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE refused_messages (
    message_id text PRIMARY KEY,
    refused_at timestamptz NOT NULL DEFAULT now()
);
