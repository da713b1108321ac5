"""Parts of SQL that find rows by the words of a question."""


def any_word(parameter: str) -> str:
    """A query for whatever has one of the words. Postgres reckons it before it plans, so that it uses the index."""
    return f"replace(CAST(plainto_tsquery('english', left({parameter}, 4000)) AS text), '&', '|')::tsquery"


def words_shared(column: str, parameter: str) -> str:
    """How many of the words a row has; `column` is its `tsvector`.

    Counted by what goes when they are taken out: a long file has thousands of words, and to lay them all out for each
    row takes several times as long. The words asked for are reckoned once.
    """
    asked = f"(SELECT tsvector_to_array(to_tsvector('english', left({parameter}, 4000))))"
    return f"length({column}) - length(ts_delete({column}, {asked}))"
