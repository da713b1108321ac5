"""Code in Markdown and mrkdwn, which must stay as it was written.

Fences: https://spec.commonmark.org/0.31.2/#fenced-code-blocks; spans:
https://spec.commonmark.org/0.31.2/#code-spans, here within one line, as Slack reads them.
"""

import re
from collections.abc import Callable, Iterator

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})(.*)")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\1(?!`)).)+?(?<!`)\1(?!`)")


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to the text outside fences and code spans. An unclosed fence extends to the
    end.
    """
    return "".join(part if is_code else change(part) for part, is_code in split_code(text))


def split_code(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text in order, each with whether it is code. Joined, they are the
    text.
    """
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.fullmatch(line.rstrip("\r\n"))
        if fence:
            yield line, True
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
            yield line, True
        else:
            yield from _spans(line)


def _spans(line: str) -> Iterator[tuple[str, bool]]:
    done = 0
    for span in _SPAN.finditer(line):
        yield line[done : span.start()], False
        yield span[0], True
        done = span.end()
    yield line[done:], False
