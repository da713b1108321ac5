"""DraftShare: whether a draft of the answer is worth its tokens."""

from dataclasses import dataclass

ENOUGH = 0.75
"""Share of decided turns from which drafts are made: at most one in four is then dropped, so that
drafts cost at most a third of the answers' tokens.
"""
_WEIGHT = 0.1
"""Weight of the latest turn; the earlier ones fade."""


@dataclass
class DraftShare:
    """The share of a worker's recent turns that kept their draft, or would have kept one, from 0
    to 1. Only turns count that may have a draft.
    """

    share: float = 1.0

    @property
    def is_worthwhile(self) -> bool:
        return self.share >= ENOUGH

    def note(self, *, keeps_draft: bool) -> None:
        """Take a turn into account."""
        latest = 1.0 if keeps_draft else 0.0
        self.share += _WEIGHT * (latest - self.share)
