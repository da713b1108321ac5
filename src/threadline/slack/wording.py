"""The words of a Slack message as somebody reads them, for rules that look for phrases in it.

Nothing here takes longer than in proportion to the text: no pattern runs over a `<` or a `:` into the next.
"""

import re

_CALL = re.compile(r"<[@#!][^<>]*>")
"""A person, a channel, a group: its name is nothing that was said."""
_LABELLED = re.compile(r"<[^<>|]*\|([^<>]*)>")
_ADDRESS = re.compile(r"<[^<>]*>")
_ENTITY = re.compile(r"&(?:amp|lt|gt);")
_EMOJI = re.compile(r":[a-z0-9_+\-]+:")
"""`:runner:` is somebody in a hurry, not what runs jobs."""
_MARK = re.compile(r"[*~`\"“”()\[\]{}<>|]")


def plain(text: str) -> str:
    """The words in one line and in lower case, without mentions, addresses, emoji and marks.

    A link's label stays, and so do punctuation, hyphens and underscores: `<@U1> *It’s* new: <https://a.b|this>` is
    `it's new: this`.
    """
    said = text.lower().replace("’", "'").replace("‘", "'")
    said = _ADDRESS.sub(" ", _LABELLED.sub(r" \1 ", _CALL.sub(" ", said)))
    return " ".join(_MARK.sub(" ", _EMOJI.sub(" ", _ENTITY.sub(" ", said))).split())
