-- What the team has written down, one row a document; an answer is made of the passages that have to do with it.
CREATE TABLE knowledge_documents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    title text NOT NULL CHECK (title <> ''),
    source text NOT NULL CHECK (source <> ''),
    body text NOT NULL CHECK (body <> ''),
    words tsvector GENERATED ALWAYS AS
        (setweight(to_tsvector('english', title), 'A') || setweight(to_tsvector('english', body), 'B')) STORED,
    updated_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (team, source)
);
CREATE INDEX knowledge_documents_words_idx ON knowledge_documents USING gin (words);
