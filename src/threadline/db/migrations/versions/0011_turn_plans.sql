-- The way of a turn (`route`, `domain.routing.Route`), what the operator was told for it while it ran, and what it came
-- to (`result`). `context`, `patterns` and `analysis` may hold people's words: they go when it is settled; `layers` are sizes.
CREATE TABLE turn_plans (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    turn int NOT NULL,
    route jsonb NOT NULL,
    context text NOT NULL DEFAULT '',
    patterns text NOT NULL DEFAULT '',
    analysis text NOT NULL DEFAULT '',
    layers jsonb NOT NULL DEFAULT '[]',
    result jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, turn)
);
