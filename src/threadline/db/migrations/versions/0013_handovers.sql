-- A turn that was given to a person. `channel` and `card_ts` say where it is shown, once it is; what is shown there is
-- made of the conversation each time. A thread is with one person at a time. `closed_at`: when the button was pressed;
-- what was written until then counts, whenever it arrives.
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

CREATE UNIQUE INDEX handovers_open_key ON handovers (conversation_id) WHERE closed_at IS NULL;
CREATE INDEX handovers_card_idx ON handovers (channel, card_ts);

-- What people wrote under a hand-over's card and has been dealt with; corrections and deletions have rows of their own,
-- an edit with its wording, since its original may come later. `version`: by which the newest edit wins.
CREATE TABLE handover_answers (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    message_id text NOT NULL,
    turn int NOT NULL,
    message_type text NOT NULL,
    sender_id text NOT NULL,
    channel text NOT NULL,
    slack_ts text NOT NULL,
    correction_of text NOT NULL DEFAULT '',
    version numeric(20, 6) NOT NULL DEFAULT 0,
    message_text text NOT NULL DEFAULT '',
    files jsonb NOT NULL DEFAULT '[]',
    deleted boolean NOT NULL DEFAULT false,
    PRIMARY KEY (conversation_id, message_id)
);

CREATE INDEX handover_answers_message_idx ON handover_answers (message_id);
