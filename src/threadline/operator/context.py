"""The comprehensive context of a turn: every layer fetched at once, each bounded in time, all together in size."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog

from threadline.errors import Permanent
from threadline.operator import context_budget as budget
from threadline.operator import context_layers as layers
from threadline.operator import prompt_fences as fences
from threadline.operator import query_triggers as asking
from threadline.operator.context_layers import Layer, LayerName
from threadline.operator.context_sources import Request, Sources
from threadline.tools.public_text import public_sentence

TOKENS = 6_000
PATIENCE = 3.0
"""Seconds; a layer that takes longer is left out, and the turn goes on without it."""
NOT_ASKED, NOTHING = "not asked for", "there is nothing"
_LATE, _BROKEN = "it did not come in time", "it could not be read"
_REASON = 200

Value = TypeVar("Value")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LayerReport:
    """What became of a layer. `tokens`: of what is shown; `pieces` of those it is made of, `cut` those left out.

    `shortened`: pieces that are shown without their end. `milliseconds`: until it was there, or was given up.
    `missing`: why it is not there; empty when it is.
    """

    name: str
    tokens: int = 0
    pieces: int = 0
    cut: int = 0
    shortened: int = 0
    milliseconds: int = 0
    missing: str = ""


@dataclass(frozen=True)
class Context:
    """`text` is for the system prompt, in fences; it says itself what it does not hold."""

    text: str
    layers: tuple[LayerReport, ...]


@dataclass(frozen=True)
class _Fetched:
    name: LayerName
    layer: Layer | None = None
    milliseconds: int = 0
    missing: str = ""
    failed: bool = False


async def build_comprehensive_context(
    sources: Sources, request: Request, tokens: int = TOKENS, patience: float = PATIENCE
) -> Context:
    """Fetch what the request calls for, side by side, and fit it into the budget.

    Args:
        tokens: of all layers together; a token is taken for four bytes.
        patience: seconds that one layer may take.

    Returns:
        always something: what cannot be had is left out and named.
    """
    wanted = _wanted(sources, request)
    fetched = await asyncio.gather(*(_fetch(name, fetch, patience) for name, fetch in wanted.items()))
    return _context(fetched, tokens * 4)


def _wanted(sources: Sources, request: Request) -> Mapping[LayerName, Callable[[], Awaitable[Layer]]]:
    """How each layer that the request calls for is made, in the order of the layers."""

    external, skills = asking.about_outside(request.question), asking.about_skills(request.question)
    found: dict[LayerName, Callable[[], Awaitable[Layer]]] = {
        LayerName.USER: lambda: _made(sources.person(request), layers.user),
        LayerName.THREAD: lambda: _made(sources.said_before(request), layers.thread),
        LayerName.RELATED: lambda: _made(sources.related(request), layers.related),
        LayerName.MEMORIES: lambda: _made(sources.memories(request), layers.memories),
    }
    if request.rfp_id:
        found |= {
            LayerName.RFP: lambda: _made(sources.rfp(request), layers.rfp),
            LayerName.JOURNAL: lambda: _made(sources.journal(request), layers.journal),
            LayerName.EVENTS: lambda: _made(sources.events(request), layers.events),
            LayerName.OTHER_THREADS: lambda: _made(sources.other_threads(request), layers.other_threads),
        }
    if asking.about_team(request.question):
        found[LayerName.TEAM] = lambda: _made(sources.team(request), partial(layers.team, user_id=request.user_id))
    if external or skills:
        found[LayerName.OUTSIDE] = lambda: _made(_nothing(), lambda _: layers.outside(external=external, skills=skills))
    return {name: found[name] for name in LayerName if name in found}


async def _made(fetched: Awaitable[Value], make: Callable[[Value], Layer]) -> Layer:
    # In a thread: to search much text for secrets takes a while, in which others are to be served.
    return await asyncio.to_thread(make, await fetched)


async def _nothing() -> None:
    """No source outside is set up, so there is nobody to ask."""


async def _fetch(name: LayerName, fetch: Callable[[], Awaitable[Layer]], patience: float) -> _Fetched:
    begun = time.monotonic()
    layer, missing = None, ""
    try:
        async with asyncio.timeout(patience):
            layer = await fetch()
    except TimeoutError:
        missing = _LATE
    except Permanent as error:  # such as an RFP that is not there: the words name those that are
        missing = fences.line(public_sentence(str(error), _BROKEN), _REASON)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one layer, the others are to be there
        _log.warning("context_layer_failed", layer=name, error=type(error).__name__)
        missing = _BROKEN
    took = round((time.monotonic() - begun) * 1000)
    if missing:
        _log.warning("context_layer_missing", layer=name, reason=missing, milliseconds=took)
    elif layer and not layer.pieces:
        return _Fetched(name, None, took, NOTHING)
    return _Fetched(name, layer, took, missing, failed=bool(missing))


def _context(fetched: list[_Fetched], room: int) -> Context:
    there = [each.layer for each in fetched if each.layer]
    missing = _sentence([f"{each.name} ({each.missing})" for each in fetched if each.failed])
    # The names of all layers may have to be said as left out.
    kept_free = fences.size(missing) + fences.size(_sentence([f"{each.name} (no room)" for each in there])) + 2
    shown = budget.fitted(there, room - kept_free)
    no_room = _sentence([f"{each.name} (no room)" for each in shown if not each.text])
    lines = [*(each.text for each in shown), missing, no_room]
    text = "\n".join(filter(None, lines))
    if fences.size(text) > room:
        text = ""  # a budget in which not even that can be said; the report says it
    return Context(text, _reports(fetched, {each.name: each for each in shown}))


def _sentence(missing: list[str]) -> str:
    return f"Missing here: {'; '.join(missing)}." if missing else ""


def _reports(fetched: list[_Fetched], shown: Mapping[LayerName, budget.Shown]) -> tuple[LayerReport, ...]:
    by_name = {each.name: each for each in fetched}
    return tuple(_report(name, by_name.get(name), shown.get(name)) for name in LayerName)


def _report(name: LayerName, fetched: _Fetched | None, shown: budget.Shown | None) -> LayerReport:
    if fetched is None:
        return LayerReport(name, missing=NOT_ASKED)
    if shown is None:
        return LayerReport(name, milliseconds=fetched.milliseconds, missing=fetched.missing)
    tokens = -(-fences.size(shown.text) // 4)
    missing = "" if shown.text else "no room"
    return LayerReport(name, tokens, shown.pieces, shown.cut, shown.shortened, fetched.milliseconds, missing)
