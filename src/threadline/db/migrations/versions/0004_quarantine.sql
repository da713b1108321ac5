-- What could not be read, in threads that have no case: with one, it stands in the case's conversation.
CREATE TABLE quarantine (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    channel text NOT NULL,
    thread_ts text NOT NULL,
    message_id text NOT NULL,
    message_text text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (team, channel, thread_ts, message_id)
);
