"""How the room of a turn's context is shared among its layers, and what a layer shows in its share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from threadline.operator import prompt_fences as fences
from threadline.operator.context_layers import Layer, LayerName

WEIGHTS: Mapping[LayerName, int] = {
    LayerName.USER: 2,
    LayerName.RFP: 8,
    LayerName.JOURNAL: 6,
    LayerName.EVENTS: 3,
    LayerName.THREAD: 5,
    LayerName.OTHER_THREADS: 3,
    LayerName.RELATED: 3,
    LayerName.MEMORIES: 4,
    LayerName.TEAM: 5,
    LayerName.OUTSIDE: 2,
}
"""Each layer's part where all are too long; what one does not need, the others get."""
_LEAST = 80
"""Bytes; less of a piece says nothing."""


@dataclass(frozen=True)
class Shown:
    """A layer in its fence; empty where there was no room for any of it. `cut`: pieces that are left out.

    `shortened`: pieces of which the end is missing.
    """

    name: LayerName
    text: str
    pieces: int = 0
    cut: int = 0
    shortened: int = 0


def fitted(layers: Sequence[Layer], room: int) -> list[Shown]:
    """The layers in at most `room` bytes together, a line's end behind each counted."""
    whole = {each.name: _shown(each, each.pieces, 0) for each in layers}
    given = shares({name: fences.size(each.text) + 1 for name, each in whole.items()}, WEIGHTS, room)
    return [
        whole[each.name] if fences.size(whole[each.name].text) < given[each.name] else _cut(each, given[each.name] - 1)
        for each in layers
    ]


def shares(wanted: Mapping[LayerName, int], weights: Mapping[LayerName, int], room: int) -> dict[LayerName, int]:
    """How much of `room` each gets: what it wants, or its part of what those leave that want less than theirs."""
    given, rest = dict[LayerName, int](), dict(wanted)
    while rest:
        total = sum(weights[name] for name in rest)
        modest = [name for name, size in rest.items() if size * total <= room * weights[name]]
        if not modest:
            return given | {name: max(0, room) * weights[name] // total for name in rest}
        for name in modest:
            given[name] = rest.pop(name)
        room -= sum(given[name] for name in modest)
    return given


def _cut(layer: Layer, room: int) -> Shown:
    """As many pieces as there is room for, the most telling ones; of the first at least its beginning."""
    ranked = layer.pieces[::-1] if layer.oldest_first else layer.pieces
    frame = fences.size(_shown(layer, (), len(ranked)).text)
    kept, left = list[str](), room - frame
    for piece in ranked:
        if (needed := fences.size(piece) + 1) > left:
            break
        kept.append(piece)
        left -= needed
    if not kept and left > _LEAST:
        kept.append(fences.shortened(ranked[0], left - 1))
    if not kept:
        return Shown(layer.name, "", cut=len(ranked) + layer.left_out)
    return _shown(layer, tuple(kept[::-1] if layer.oldest_first else kept), len(ranked) - len(kept))


def _shown(layer: Layer, pieces: Sequence[str], cut: int) -> Shown:
    missing = cut + layer.left_out
    body = [layer.heading, *pieces, *([_note(missing, layer)] if missing else [])]
    shortened = sum(map(fences.was_cut, pieces))
    return Shown(layer.name, fences.fenced("context", "\n".join(body), layer.name), len(pieces), missing, shortened)


def _note(missing: int, layer: Layer) -> str:
    """The less is cut, the shorter it is."""
    which = "older" if layer.oldest_first else "more"
    return f"({missing} {which} left out here{f': {layer.more} shows them' if layer.more else ''})"
