"""The pull request of a fix. Only values, which a store may import."""

from dataclasses import dataclass
from typing import Literal

PullRequestState = Literal["open", "merged", "closed"]
RemoteState = PullRequestState | Literal["gone"]
"""State of a pull request at the code host; `gone` when its number or its branch does not exist.
"""


@dataclass(frozen=True)
class PullRequest:
    """A pull request. `commit` is its newest one.

    - `number`: None where the code host knows only the pushed branch;
    - `draft`: GitHub did not allow merging it when it was last pushed.
    """

    repository: str
    branch: str
    url: str
    number: int | None
    commit: str
    draft: bool = False
    state: PullRequestState = "open"
