"""Basis: what a post rests on. It stands in the post's metadata, so that after a restore the post is recognised by it.

After a restore the same messages are handled again: found by the catch-up, they lead to the same turns under the same
numbers, or under other numbers, since another batch of messages may have come to a turn. So a post is not recognised by
its key. It carries in its metadata what it is (`Basis.kind`), what it is about (`Basis.subject`), and which messages it
has read (`Basis.read`). A post is taken for made when Slack shows posts of its kind and subject that have read every
message which it answers. A post that answers anything else is sent: an answer may be doubled, and none is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from threadline.slack.model import Thread

MAX_READ = 50
"""Messages that a post names in its metadata, the newest: Slack limits its size."""


@dataclass(frozen=True)
class Basis:
    """What a post rests on.

    - `kind`: what it says, such as `answer` or `findings`; with a number where two of them may not be confused;
    - `subject`: what it is about, such as the key of the thread that a case was reported in;
    - `asked`: the `ts` of the messages that it answers, which are not answered without it;
    - `read`: the `ts` of the messages that were read for it, the newest first, `asked` among them.
    """

    kind: str
    subject: str
    asked: tuple[str, ...]
    read: tuple[str, ...]

    def metadata(self, part: int, parts: int) -> dict[str, str]:
        """What a part of the post carries in Slack. `part` counts from 1."""
        read = " ".join(self.read[:MAX_READ])
        return {"says": self.kind, "about": self.subject, "read": read, "part": f"{part}/{parts}"}

    @classmethod
    def of_thread(cls, kind: str, thread: Thread) -> "Basis":
        """Of what is said once about a thread: it answers the thread's root."""
        return cls(kind, thread.key, (thread.ts,), (thread.ts,))


@dataclass(frozen=True)
class LostPost:
    """A part of a post that Slack shows, with what its metadata tells."""

    ts: str
    key: str
    kind: str
    subject: str
    read: frozenset[str]
    part: int
    parts: int

    @property
    def base_key(self) -> str:
        """The key of the post that it is a part of."""
        return self.key if self.part == 1 else self.key.rpartition("#")[0]


def lost_post(ts: str, payload: Mapping[str, Any]) -> LostPost | None:
    """A message's metadata, read; None for one of a post without a basis."""
    part, _, parts = str(payload.get("part") or "").partition("/")
    if not (part.isdecimal() and parts.isdecimal() and payload.get("says")):
        return None
    read = frozenset(str(payload.get("read") or "").split())
    key, kind, subject = (str(payload.get(name) or "") for name in ("key", "says", "about"))
    return LostPost(ts, key, kind, subject, read, int(part), int(parts))


def find_made(shown: Sequence[LostPost], basis: Basis, key: str, part: int, *, in_channel: bool) -> str:
    """The `ts` of the message in which a part of a post has been made; empty where it is to be sent.

    Args:
        shown: the posts of its channel, or of its thread.
        key: of the post's first part; it counts only where the post answers no message.
        in_channel: the first part is in the channel, and the others are in its thread.
    """
    same = [each for each in shown if (each.kind, each.subject) == (basis.kind, basis.subject)]
    whole = [each for each in same if in_channel or _is_complete(each, same)]
    asked = frozenset(basis.asked)
    if not asked:
        asked, whole = frozenset(basis.read), [each for each in whole if each.base_key == key]
    read = frozenset[str]().union(*(each.read for each in whole))
    if not asked or not asked <= read:
        return ""
    newest = max(asked, key=float)
    first = min((each for each in whole if newest in each.read), key=lambda each: float(each.ts))
    own = [each for each in whole if each.base_key == first.base_key]
    if in_channel:
        return next((each.ts for each in own if each.part == part), "")
    return next(each.ts for each in own if each.part == min(part, first.parts))


def _is_complete(post: LostPost, shown: Sequence[LostPost]) -> bool:
    parts = {each.part for each in shown if each.base_key == post.base_key and each.parts == post.parts}
    return parts == set(range(1, post.parts + 1))
