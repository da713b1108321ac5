-- One round of the decision engine in a turn. `decided` is the model's answer (`domain.decisions.Decided`), whose words
-- may be people's: what they write goes when they delete theirs. `sources` lose their texts when the turn is settled.
-- `factors` and `course` are there once the evidence is weighed; `outcome` once the turn is settled.
CREATE TABLE decisions (
    conversation_id bigint NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    turn int NOT NULL,
    round int NOT NULL,
    inputs_hash text NOT NULL,
    prompt_version text NOT NULL,
    variant text NOT NULL DEFAULT '',
    action text NOT NULL,
    decided jsonb NOT NULL,
    threshold_high double precision NOT NULL,
    threshold_low double precision NOT NULL,
    sources jsonb NOT NULL DEFAULT '[]',
    retrieval jsonb,
    factors jsonb,
    confidence double precision,
    course text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    outcome text NOT NULL DEFAULT '',
    cost_usd double precision NOT NULL DEFAULT 0,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, turn, round)
);

CREATE INDEX decisions_age_idx ON decisions (at);
