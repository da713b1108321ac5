"""What a promise is made of."""

import re
from dataclasses import dataclass

NAME = re.compile(r"[a-z-]+:[a-z0-9-]+:[a-z0-9-]+")


@dataclass(frozen=True)
class Promise:
    """One guarantee.

    Args:
        name: `area:feature:variant`; a test says with `@pytest.mark.promise(name)` that it holds the product to it.
        sentence: what is guaranteed, so precise that a test can refute it.
        rests_on: the mechanism and its places in the code, as Markdown; paths are relative to `src/threadline/` or to
            the repository.
        ends: sentences that say where the guarantee ends. Empty when no end is known.
    """

    name: str
    sentence: str
    rests_on: str
    ends: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not of the form area:feature:variant")
        for text in (self.sentence, self.rests_on, *self.ends):
            if not text.endswith("."):
                raise ValueError(f"{self.name}: not a sentence: {text!r}")

    @property
    def area(self) -> str:
        return self.name.partition(":")[0]


@dataclass(frozen=True)
class Area:
    """Promises of one kind.

    Args:
        name: the first part of its promises' names.
        title: the heading in docs/guarantees.md.
        sentence: all of it in one sentence; README may quote it, and may quote nothing else.
        promises: in the order in which they are best read.
        ends: what ends all of them.
    """

    name: str
    title: str
    sentence: str
    promises: tuple[Promise, ...]
    ends: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for promise in self.promises:
            if promise.area != self.name:
                raise ValueError(f"{promise.name} stands in the area {self.name}")
