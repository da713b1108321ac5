"""For whom something was put on record, and in which turn."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Author:
    """`correlation_id` is the same in all that one turn wrote, in the log and in the reply's metadata."""

    user_id: str
    correlation_id: str
