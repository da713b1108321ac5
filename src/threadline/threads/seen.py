"""The keys of the last things that were delivered, to drop what is delivered again. Run by workflows: never changes."""


def first_time(seen: dict[str, None], key: str, most: int) -> bool:
    """Whether a key is new. It is remembered, and of more than `most` the oldest are forgotten."""
    if key in seen:
        return False
    seen[key] = None
    while len(seen) > most:
        del seen[next(iter(seen))]
    return True
