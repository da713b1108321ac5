"""The kinds of files from which agents read text, recognised by Slack's metadata before a
download.
"""

import re

CANVAS = "application/vnd.slack-docs"
"""A canvas or a post, which Slack serves as HTML."""
_TEXT = re.compile(
    r"text/(?!html)[\w.+-]+"
    r"|application/(?:json|xml|yaml|x-yaml|toml|sql|javascript|x-javascript|x-sh|x-ndjson"
    r"|[\w.-]+\+(?:json|xml))"
)
_UNTOLD_TYPES = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "text/html", "video/mp2t"}
)
"""Types under which Slack may list a text file; the last one is TypeScript's."""
_TEXT_NAME = re.compile(
    r".*\.(?:log|txt|text|out|err|trace|csv|tsv|md|markdown|rst|tex|json|jsonl|ndjson|ya?ml"
    r"|toml|ini|cfg|conf|env|properties|xml|html?|css|sql|py|rb|go|rs|java|kts?|scala|js|mjs"
    r"|ts|tsx|jsx|vue|c|h|cc|cpp|hpp|cs|php|pl|lua|r|swift|sh|bash|zsh|ps1|bat|diff|patch"
    r"|tf|gradle|proto|graphql|lock)(?:\.\d{1,3})?",
    re.IGNORECASE,
)
"""Names of text files, including a rotated `app.log.1`."""


def holds_text(mimetype: str, name: str) -> bool:
    """Return whether a file holds text, judged by Slack's metadata before the download."""
    if mimetype in _UNTOLD_TYPES:
        return _TEXT_NAME.fullmatch(name) is not None
    return mimetype == CANVAS or _TEXT.fullmatch(mimetype) is not None
