"""What another service said of its refusal, where it may be repeated to a person."""

import re

from threadline.privacy.redaction import redact

LONGEST = 300
"""Characters; what is longer is a page or a dump."""
_PLACE = re.compile(r"[/\\@]|\w\.\w|\w:\d|[{}<>]|localhost", re.IGNORECASE)
"""The signs of an address, a path, a host, a mail address, or of a program's own form."""


def quotable(said: object) -> str:
    """A service's own words in one line, or nothing where they name a place, hold a secret or are no words.

    All or nothing: of half a sentence nobody knows what is missing.
    """
    text = " ".join(said.split()) if isinstance(said, str) else ""
    if not text.isprintable() or len(text) > LONGEST or _PLACE.search(text) or redact(text) != text:
        return ""
    return text
