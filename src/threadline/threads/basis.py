"""Basis: the messages that a post answers and has read, kept in the post's metadata, so that the
post is recognised after a restore.

After a restore the catch-up finds the same messages again, and they lead to the same turns: under
the same numbers, or under others, since another batch of messages may have come to a turn. So the
key does not identify a post. Its metadata holds its kind (`Basis.kind`), its subject
(`Basis.subject`) and the messages that it has read (`Basis.read`). A post counts as already made
when Slack shows posts of its kind and subject that together have read every message that it
answers. Otherwise it is sent: an answer may be doubled, but none is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from threadline.slack.model import Thread

MAX_READ = 50
"""Messages that a post lists in its metadata, the newest: Slack limits its size."""


@dataclass(frozen=True)
class Basis:
    """The origin of a post.

    - `kind`: the kind of content, such as `answer` or `findings`; with a number where two must not
      be confused;
    - `subject`: the thing it is about, such as the key of the thread in which a case was reported;
    - `asked`: the `ts` of the messages that it answers, which stay unanswered without it;
    - `read`: the `ts` of the messages that were read for it, the newest first, `asked` among them.
    """

    kind: str
    subject: str
    asked: tuple[str, ...]
    read: tuple[str, ...]

    def metadata(self, part: int, parts: int) -> dict[str, str]:
        """Return the metadata of one part of the post in Slack. `part` counts from 1."""
        read = " ".join(self.read[:MAX_READ])
        return {"says": self.kind, "about": self.subject, "read": read, "part": f"{part}/{parts}"}

    @classmethod
    def of_thread(cls, kind: str, thread: Thread) -> "Basis":
        """Return the basis of a post that is made once for a thread: it answers the thread's
        root.
        """
        return cls(kind, thread.key, (thread.ts,), (thread.ts,))


@dataclass(frozen=True)
class LostPost:
    """A part of a post that Slack shows, read from its metadata."""

    ts: str
    key: str
    kind: str
    subject: str
    read: frozenset[str]
    part: int
    parts: int

    @property
    def base_key(self) -> str:
        """The key of the post that this part belongs to."""
        return self.key if self.part == 1 else self.key.rpartition("#")[0]


def lost_post(ts: str, payload: Mapping[str, Any]) -> LostPost | None:
    """Read a message's metadata; returns None for a post without a basis."""
    part, _, parts = str(payload.get("part") or "").partition("/")
    if not (part.isdecimal() and parts.isdecimal() and payload.get("says")):
        return None
    read = frozenset(str(payload.get("read") or "").split())
    key, kind, subject = (str(payload.get(name) or "") for name in ("key", "says", "about"))
    return LostPost(ts, key, kind, subject, read, int(part), int(parts))


def find_made(
    shown: Sequence[LostPost], basis: Basis, key: str, part: int, *, in_channel: bool
) -> str:
    """Return the `ts` of the message that already shows a part of a post; empty where the part
    must be sent.

    Args:
        shown: the posts of its channel, or of its thread.
        key: of the post's first part; it counts only where the post answers no message.
        in_channel: the first part is in the channel, and the others are in its thread.
    """
    same = [each for each in shown if (each.kind, each.subject) == (basis.kind, basis.subject)]
    whole = [each for each in same if in_channel or _is_complete(each, same)]
    asked = frozenset(basis.asked)
    if not asked:
        asked = frozenset(basis.read)
        whole = [each for each in whole if each.base_key == key]
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
    parts = {
        each.part for each in shown if each.base_key == post.base_key and each.parts == post.parts
    }
    return parts == set(range(1, post.parts + 1))
