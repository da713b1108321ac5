-- Who has put which thumb on a message of a conversation, and whether it is there still, by the last word on it (`at`,
-- Slack's time). Which turn said the message is told by the ledger of posts.
CREATE TABLE thumbs (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    message_ts text NOT NULL,
    user_id text NOT NULL,
    reaction text NOT NULL,
    put boolean NOT NULL,
    at numeric(20, 6) NOT NULL,
    PRIMARY KEY (conversation_id, message_ts, user_id, reaction)
);
