"""Whom a text calls, in the form in which Slack stores it: `<@U1>`, or `<@U1|name>`.

No pattern runs over a `<`, and none begins within blanks: 40,000 characters of either cost no more than others.
"""

import re

_MENTION = re.compile(r"<@([^<>|\s]+)(?:\|[^<>]*)?>")


def mentioned(text: str) -> set[str]:
    """The ids of all who are mentioned."""
    return set(_MENTION.findall(text))


def without(text: str, user: str) -> str:
    """The text with the mentions of one user taken out, and what led over from them to the words.

    `<@U1>: ask <@U2> and <@U1>, please` without U1 is `ask <@U2> and, please`.
    """
    call = rf"<@{re.escape(user)}(?:\|[^<>]*)?>"
    return re.sub(rf"(?<![ \t])[ \t]*{call}", "", re.sub(rf"^(?:\s*{call}[\s,:]*)+", "", text)).strip()
