"""What a document is called, where nobody has said it."""

import re

LONGEST = 150
"""Characters of a line that is taken for a title."""
_LOOKED_AT = 15
"""Lines of the beginning."""
_SHORTEST = 8
_NO_TITLE = re.compile(r"(?:page|seite)\b|\d[\d./ -]*$|(?:draft|confidential|final|version)\b", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s_-]+")


def title_of(text: str, name: str) -> str:
    """The first line of a text that reads like a title, else the file's name without its end.

    A line reads like one when it has at least two words, and is not as long as a sentence of a paragraph may be.
    """
    for line in text.split("\n")[:_LOOKED_AT]:
        plain = " ".join(line.strip("#*_|=- \t").split())
        if _SHORTEST <= len(plain) <= LONGEST and len(plain.split()) > 1 and not _NO_TITLE.match(plain):
            return plain
    stem = name.rpartition(".")[0] or name
    return _SEPARATORS.sub(" ", stem).strip()[:LONGEST] or "Untitled"
