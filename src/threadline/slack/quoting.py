"""The words of a message with its quotes where they were written; by the same rule as `slack.text.split_quotes`."""

_QUOTE = "&gt;"
"""Begins a line that Slack shows as a quote; three of them quote all that follows."""


def with_marked_quotes(text: str) -> str:
    """A text in Slack's own form, in which each quoted line has a mark of its own. Empty where nothing is quoted, since
    then the author's words are all there is."""
    lines = list[str]()
    has_quotes = in_code = in_long_quote = False
    for line in text.split("\n"):
        begun = line.lstrip()
        if in_long_quote or (begun.startswith(_QUOTE) and not in_code):
            has_quotes = True
            in_long_quote = in_long_quote or begun.startswith(_QUOTE * 3)
            bare = begun.removeprefix(_QUOTE * 3).removeprefix(_QUOTE).lstrip()
            lines.append(f"{_QUOTE} {bare}")
            continue
        in_code ^= line.count("```") % 2 == 1
        lines.append(line)
    return "\n".join(lines) if has_quotes else ""


def leading_quotes(marked: str) -> tuple[str, str]:
    """Part a text with marked quotes before the author's first word: the quotes before it, and the rest."""
    lines = marked.split("\n")
    count = 0
    while count < len(lines) and (not lines[count].strip() or lines[count].startswith(_QUOTE)):
        count += 1
    return "\n".join(lines[:count]).strip(), "\n".join(lines[count:])
