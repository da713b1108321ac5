-- `root` is the folder or list that a document came with: what is gone from there is forgotten. `content_hash` is of the
-- file as it was read; empty for what was kept before there were hashes, so that the next reading replaces it.
ALTER TABLE knowledge_documents
    ADD COLUMN type text NOT NULL DEFAULT 'product',
    ADD COLUMN authority double precision NOT NULL DEFAULT 0.7 CHECK (authority BETWEEN 0 AND 1),
    ADD COLUMN effective date,
    ADD COLUMN expires date,
    ADD COLUMN root text NOT NULL DEFAULT '',
    ADD COLUMN content_hash text NOT NULL DEFAULT '';

-- A part of a document with the title and the path of headings that it stands under. `vector` is what `model` made of it,
-- as plain numbers: it is compared where the extension `vector` is, and a Postgres without it has the same tables.
CREATE TABLE knowledge_passages (
    document_id bigint NOT NULL REFERENCES knowledge_documents (id) ON DELETE CASCADE,
    place int NOT NULL,
    title text NOT NULL,
    section text NOT NULL,
    body text NOT NULL,
    words tsvector GENERATED ALWAYS AS
        (setweight(to_tsvector('english', title), 'A') || setweight(to_tsvector('english', section), 'B')
         || setweight(to_tsvector('english', body), 'C')) STORED,
    model text NOT NULL DEFAULT '',
    vector real[],
    PRIMARY KEY (document_id, place)
);
CREATE INDEX knowledge_passages_words_idx ON knowledge_passages USING gin (words);

-- Each word that a team's documents have or had, by which one that is mistyped is found.
CREATE TABLE knowledge_words (
    team text NOT NULL,
    word text NOT NULL,
    PRIMARY KEY (team, word)
);
CREATE INDEX knowledge_words_letters_idx ON knowledge_words USING gin (word gin_trgm_ops);

-- What was kept as whole documents stays to be found until it is read again.
INSERT INTO knowledge_passages (document_id, place, title, section, body)
SELECT d.id, row_number() OVER (PARTITION BY d.id ORDER BY p.place, slice), d.title, '', s.body
FROM knowledge_documents d
CROSS JOIN LATERAL regexp_split_to_table(d.body, '\n[ \t]*\n') WITH ORDINALITY AS p (body, place)
CROSS JOIN LATERAL generate_series(0, (length(p.body) - 1) / 1200) AS slice
CROSS JOIN LATERAL (SELECT substr(p.body, slice * 1200 + 1, 1350) AS body) s
WHERE s.body ~ '\S';
INSERT INTO knowledge_words (team, word)
SELECT DISTINCT d.team, lower(found[1])
FROM knowledge_documents d JOIN knowledge_passages p ON p.document_id = d.id
CROSS JOIN LATERAL regexp_matches(p.title || ' ' || p.section || ' ' || p.body, '[[:alpha:]]{4,40}', 'g') AS found;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
        CREATE EXTENSION IF NOT EXISTS vector;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'documents are found by words alone until somebody who may runs CREATE EXTENSION vector';
END
$$;
