"""Slack's mrkdwn, decoded once where a message is read:
https://docs.slack.dev/messaging/formatting-message-text.

Slack encodes the characters `&`, `<` and `>` that people type as entities, and writes its own
tokens in angle brackets. A decoded text has

- the characters that people typed: `R&D`, `a < b`;
- links in Markdown: `[label](https://example.com)`, or the bare address;
- live tokens as Slack writes them: `<@U1>` for a user, `<#C1|general>` for a channel,
  `<!subteam^S1|@devs>` for a group and `<!here>`. Typed characters that look like a live token
  have an invisible character inside, and so do tokens in code, since neither notifies anybody.

Every function here takes time linear in the length of the text.
"""

import re
from collections.abc import Callable, Iterator

WORD_JOINER = "\u2060"
"""An invisible character, which keeps Slack from reading a token or a broadcast."""
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}
_ENTITY = re.compile("|".join(_ENTITIES))
_TOKEN = re.compile(r"<([^<>\n]+)>")
_LIKE_A_TOKEN = re.compile(
    r"<(?=(?:@[UW]|#[CDG])[A-Z0-9_]+[|>]|!(?:here|channel|everyone|group|subteam\^|date\^))"
)
_CODE = re.compile(r"```(?:(?!```).)+```|`[^`\n]+`", re.DOTALL)
"""Slack ends a code block at the next three backticks, wherever they are. An unclosed block is no
code.
"""
_LIVE = re.compile(r"@[UW][A-Z0-9_]+|#[CDG][A-Z0-9_]+|!\w.*")
_DATE = re.compile(r"!date\^.*")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")
_BOLD = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]*[^\s*])\*(?![\w*])")
_STRIKE = re.compile(r"(?<![\w~])~(?=[^\s~])([^~\n]*[^\s~])~(?![\w~])")
_BLOCK_MARK = re.compile(r"^([ ]{0,3})(#{1,6}[ ]|(?:-{3,}|={3,}|\+)[ ]*$)", re.MULTILINE)
_SCHEMES = ("mailto:", "tel:")


def escape(text: str) -> str:
    """Encode foreign text for mrkdwn, so that no part of it is a token."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def decode(text: str) -> str:
    """Decode the text of Slack's JSON, as the module describes."""
    return "".join(
        _decoded_code(part) if is_code else _decoded(part) for part, is_code in split_code(text)
    )


def split_code(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a mrkdwn text in order, each with whether it is code. Joined, they are
    the text.
    """
    done = 0
    for code in _CODE.finditer(text):
        yield text[done : code.start()], False
        yield code[0], True
        done = code.end()
    yield text[done:], False


def to_markdown(text: str) -> str:
    """Convert a person's decoded text to Markdown, for display in another place.

    Unconverted, `*bold*` would be italic there, `~struck~` or a fence within a line would have no
    effect, and a line that begins with `#` would be a heading.
    """
    parts = list[str]()
    for part, is_code in split_code(text):
        if not is_code:
            parts.append(_marks_as_markdown(part))
        elif part.startswith("```"):
            parts.append(
                _fence(part, is_begun=bool(parts and parts[-1] and not parts[-1].endswith("\n")))
            )
        else:
            parts.append(part)
    return "".join(parts).strip("\n")


def _marks_as_markdown(text: str) -> str:
    struck = _STRIKE.sub(r"~~\1~~", _BOLD.sub(r"**\1**", text))
    return _BLOCK_MARK.sub(r"\1\\\2", struck)


def _fence(code: str, *, is_begun: bool) -> str:
    body = code.removeprefix("```").removesuffix("```").strip("\n")
    before = "\n" if is_begun else ""
    return f"{before}```\n{body}\n```\n"


def inert(text: str) -> str:
    """Break everything in typed characters that looks like a live token."""
    return _LIKE_A_TOKEN.sub(f"<{WORD_JOINER}", text)


def link(url: str, label: str = "") -> str:
    """Return a link in Markdown; the bare address where the label adds nothing."""
    address = next((url.removeprefix(each) for each in _SCHEMES if url.startswith(each)), url)
    plain = label.strip()
    if not plain or _bare_address(plain) == _bare_address(address):
        return address
    shown = " ".join(plain.split()).replace("[", r"\[").replace("]", r"\]")
    return f"[{shown}]({url.replace(' ', '%20').replace('(', '%28').replace(')', '%29')})"


def _bare_address(text: str) -> str:
    return text.removeprefix("https://").removeprefix("http://").rstrip("/")


def _decoded(text: str) -> str:
    return _map_tokens(text, _token)


def _decoded_code(code: str) -> str:
    return _map_tokens(code, _token_in_code)


def _map_tokens(text: str, read_token: Callable[[str], str]) -> str:
    pieces = list[str]()
    done = 0
    for token in _TOKEN.finditer(text):
        pieces += [characters(text[done : token.start()]), read_token(token[1])]
        done = token.end()
    return "".join([*pieces, characters(text[done:])])


def characters(text: str) -> str:
    return inert(_ENTITY.sub(lambda entity: _ENTITIES[entity[0]], text))


def _token(inside: str) -> str:
    target, _, label = inside.partition("|")
    if _DATE.fullmatch(target):
        return characters(label)
    if _LIVE.fullmatch(target):
        return f"<{inside}>"
    if _ADDRESS.fullmatch(target):
        return link(characters(target), characters(label))
    return characters(f"<{inside}>")


def _token_in_code(inside: str) -> str:
    """Return a token as the text that people see in code and copy, such as a link's label."""
    target, _, label = inside.partition("|")
    if _DATE.fullmatch(target):
        return characters(label)
    if _LIVE.fullmatch(target):
        return f"<{WORD_JOINER}{inside}>"
    if _ADDRESS.fullmatch(target):
        return characters(label or target)
    return characters(f"<{inside}>")
