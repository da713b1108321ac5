"""The operator's context: the knowledge that a turn starts with, in layers, within a budget.

One transaction reads the records; the requests to Slack follow outside of it. A layer that cannot
be loaded is omitted and named.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from itertools import chain, zip_longest

import structlog

from threadline.db.engine import Transaction
from threadline.errors import Permanent
from threadline.operator.memory import format_tool_patterns, recall_query
from threadline.operator.model.routing import MAX_QUESTION
from threadline.operator.prompt import (
    byte_size,
    redacted_json,
    redacted_line,
    truncate_bytes,
    wrap_in_tag,
)
from threadline.operator.store import MemoryKind, MemoryStore, StoredMemory
from threadline.rfps.model import (
    FACTS,
    Event,
    JournalEntry,
    OpportunityState,
    Rfp,
    RfpNotFound,
    TeamMember,
    facts_from_document,
)
from threadline.rfps.store import RfpStore, TeamMemberStore
from threadline.slack.history import History, RawMessage
from threadline.slack.model import Thread, User, UserProfile, name_with_id
from threadline.slack.names import plain_tokens
from threadline.slack.store import UserStore
from threadline.slack.text import read_text, with_forwarded
from threadline.slack.users import UserDirectory, current_profile, known_names
from threadline.threads.authors import AuthorPolicy, messages_before
from threadline.tools.public_text import public_sentence
from threadline.tools.roles import RecordKind

TOKENS = 6_000
"""Tokens of all layers together; a token counts as four bytes."""
LAYER_TIMEOUT = 3.0
"""Seconds for the records, and for each request to Slack; the turn continues without a layer that
takes longer.
"""
MAX_PIECE = 1_500
"""Bytes of one piece: a journal entry of 10,000 characters leaves room for others."""
NOT_ASKED = "not asked for"
NOTHING = "there is nothing"
_HIDDEN = "whoever asks may not see this"
_LATE = "it did not come in time"
_BROKEN = "it could not be read"
# journal entries and events per layer
_RECENT = 20
_RELATED = 5
_MEMORIES = 5
_TEAM = 50
# pattern memories to load; several of them may hold the same pattern
_PATTERNS = 20
_REASON = 200
_NAME = 200
_BIOGRAPHY = 300
_SKILLS = 20
# bytes; a shorter beginning of a piece is useless
_LEAST = 80

TEAM_WORDS = (
    "team", "teammate", "member", "colleague", "staff", "people", "person",
    "biography", "biographies", "bio", "resume", "cv",
    "capability", "capabilities", "capacity", "availability",
    "skill", "expertise", "experience", "expert", "specialist", "qualified", "qualification",
    "assign", "assignee", "staffing",
)  # fmt: skip
TEAM_PHRASES = (
    "who can",
    "who could",
    "who knows",
    "who should",
    "who has time",
    "who is free",
    "who works",
)
_PHRASES = "|".join(TEAM_PHRASES).replace(" ", r"\s+")
_TEAM_PATTERN = re.compile(
    rf"(?<![\w-])(?:(?:{'|'.join(TEAM_WORDS)})(?:s|'s|ed|ing|es)?|{_PHRASES})(?![\w-])",
    re.IGNORECASE,
)

_log = structlog.get_logger(__name__)


class LayerName(StrEnum):
    """The layers, in the order in which the prompt shows them: the subject of the request comes
    before its surroundings.
    """

    USER = "user"
    RFP = "rfp_state"
    JOURNAL = "journal"
    EVENTS = "events"
    THREAD = "thread"
    OTHER_THREADS = "other_threads"
    RELATED = "related_rfps"
    MEMORIES = "memories"
    TEAM = "team"


_OF_RFP = (LayerName.RFP, LayerName.JOURNAL, LayerName.EVENTS)
_LAYERS = {
    RecordKind.RFPS: (*_OF_RFP, LayerName.OTHER_THREADS, LayerName.RELATED, LayerName.MEMORIES),
    RecordKind.TEAM: (LayerName.TEAM,),
}
"""The layers that hold records, by kind. Memories quote them."""
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
}
"""Each layer's share of the budget if all are too long; the others get what a layer leaves."""


@dataclass(frozen=True)
class RelatedThread:
    """A thread about the same RFP. `answered` and `at`: the bot's last answer there and its time,
    if this thread's readers can read that thread too; empty otherwise.
    """

    channel: str
    answered: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class ContextRequest:
    """A person's request in a thread.

    Args:
        rfp_id: the RFP of the request, or empty.
        begun_at: the `ts` of the first message that called the bot; None if there is none.
        other_threads: threads about the same RFP.
        hidden: the kinds of record that the person must not see.
    """

    thread: Thread
    user_id: str
    question: str
    rfp_id: str = ""
    begun_at: float | None = None
    other_threads: Sequence[RelatedThread] = ()
    hidden: frozenset[RecordKind] = frozenset()


@dataclass(frozen=True)
class Layer:
    """A layer of the context.

    Args:
        pieces: in display order; the last ones are cut first, or the first ones if `oldest_first`.
        more: the tool that shows the rest.
        left_out: the number of pieces that were never read.
        missing: the reason why the layer could not be loaded; empty if it was.
    """

    name: LayerName
    heading: str = ""
    pieces: tuple[str, ...] = ()
    more: str = ""
    oldest_first: bool = False
    left_out: int = 0
    missing: str = ""


@dataclass(frozen=True)
class Records:
    """The records in Postgres for a request.

    Args:
        layers: builds each layer that the request needs; a build may take a while.
        member: the requester's entry in the team.
        profile: the requester's profile as last stored.
        patterns: sequences of tools that succeeded, the requester's own first.
    """

    layers: Mapping[LayerName, Callable[[], Layer]]
    member: TeamMember | None = None
    profile: UserProfile | None = None
    patterns: Sequence[StoredMemory] = ()


@dataclass(frozen=True)
class LayerReport:
    """The result for a layer: the `tokens` and `pieces` in the prompt, and the number of pieces
    that were `cut`. `missing`: the reason why the layer is absent; empty if it is present.
    """

    name: str
    tokens: int = 0
    pieces: int = 0
    cut: int = 0
    missing: str = ""


@dataclass(frozen=True)
class Context:
    """The context of a turn.

    Args:
        text: the layers for the system prompt, in tags, with a sentence that names the missing
            ones; may be empty.
        patterns: past successful tool patterns, one per line; may be empty.
        new_profile: the requester's profile to store; None if Slack returned no change.
    """

    text: str
    layers: tuple[LayerReport, ...]
    patterns: str = ""
    new_profile: UserProfile | None = None


async def read_records(tx: Transaction, request: ContextRequest) -> Records:
    """Read the records that the request needs. An existing RFP has a state afterwards. Raises
    `Transient`.
    """
    team = request.thread.team
    rfp_id = request.rfp_id
    rfps = RfpStore(tx)
    members = TeamMemberStore(tx)
    recalled = await MemoryStore(tx).recall_for_turn(
        team,
        recall_query(request.question),
        channel=request.thread.channel,
        user_id=request.user_id,
        limit=_MEMORIES,
        patterns=_PATTERNS,
    )
    kinds = {kind: [each for each in recalled if each.kind is kind] for kind in MemoryKind}
    layers: dict[LayerName, Callable[[], Layer]] = {
        LayerName.MEMORIES: partial(memories_layer, kinds)
    }
    if mentions_team(request.question):
        found = await members.listed(team, limit=_TEAM + 1)
        layers[LayerName.TEAM] = partial(
            team_layer, found[:_TEAM], request.user_id, left_out=len(found) - _TEAM
        )
    if RecordKind.RFPS in request.hidden:
        pass
    elif rfp_id:
        layers |= await _read_rfp(rfps, request)
    else:
        layers[LayerName.RELATED] = partial(
            related_layer, await rfps.search(team, request.question, _RELATED)
        )
    for kind in request.hidden & _LAYERS.keys():
        layers |= _missing(_LAYERS[kind], _HIDDEN)
    return Records(
        layers,
        await members.get(team, request.user_id),
        await UserStore(tx).get(team, request.user_id),
        sorted(
            (each for each in recalled if each.is_pattern),
            key=lambda each: each.user_id != request.user_id,
        ),
    )


async def _read_rfp(
    rfps: RfpStore, request: ContextRequest
) -> Mapping[LayerName, Callable[[], Layer]]:
    team = request.thread.team
    rfp_id = request.rfp_id
    layers = {LayerName.OTHER_THREADS: partial(other_threads_layer, request.other_threads)}
    try:
        state = await rfps.ensure_state_exists(team, rfp_id)
    except RfpNotFound as unknown:
        reason = redacted_line(public_sentence(str(unknown), _BROKEN), _REASON)
        return layers | _missing((*_OF_RFP, LayerName.RELATED), reason)
    related = await rfps.related(team, rfp_id, facts_from_document(state.document), _RELATED)
    return layers | {
        LayerName.RFP: partial(rfp_layer, state),
        LayerName.JOURNAL: partial(journal_layer, await rfps.journal(team, rfp_id, _RECENT)),
        LayerName.EVENTS: partial(events_layer, await rfps.events(team, rfp_id, _RECENT)),
        LayerName.RELATED: partial(related_layer, related),
    }


def _missing(names: Sequence[LayerName], reason: str) -> dict[LayerName, Callable[[], Layer]]:
    return {each: partial(Layer, each, missing=reason) for each in names}


@dataclass(eq=False)
class SlackContext:
    """Slack's data for a request. `authors` decides which messages of `history` count."""

    users: UserDirectory
    history: History
    authors: AuthorPolicy

    async def profile(self, request: ContextRequest, stored: UserProfile | None) -> UserProfile:
        return await current_profile(self.users, request.user_id, stored, time.time())

    async def messages_before(
        self, request: ContextRequest
    ) -> tuple[Sequence[RawMessage], Mapping[str, User | None]]:
        """Return the messages from before the bot was called, oldest first, and their authors: the
        dialogue does not include them.
        """
        begun = request.begun_at
        if begun is None or begun <= float(request.thread.ts):
            return [], {}  # the root called the bot, so there are no earlier messages
        return await messages_before(self.history, self.authors, request.thread, begun)


async def build_context(
    request: ContextRequest,
    records: Records | str,
    slack: SlackContext,
    offered: Collection[str],
    tokens: int = TOKENS,
    timeout: float = LAYER_TIMEOUT,
) -> Context:
    """Ask Slack, build the layers and fit them into the budget; layers that cannot be loaded are
    omitted and named.

    Args:
        records: the records, or the reason why they could not be read.
        offered: the tools' names as the model sees them.
        timeout: seconds for each layer.
    """
    if isinstance(records, str):
        names = [LayerName.RELATED, LayerName.MEMORIES, *(_OF_RFP if request.rfp_id else ())]
        names += [LayerName.TEAM] if mentions_team(request.question) else []
        records = Records(_missing(names, records))
    stored = records.profile
    member = records.member
    profile = stored

    async def user() -> Layer:
        nonlocal profile
        profile = await slack.profile(request, stored)
        return user_layer(profile, member)

    async def thread() -> Layer:
        # In a worker thread: the search for secrets in long texts would block the event loop.
        return await asyncio.to_thread(thread_layer, *await slack.messages_before(request))

    makers = {
        LayerName.USER: user(),
        LayerName.THREAD: thread(),
        **{name: asyncio.to_thread(make) for name, make in records.layers.items()},
    }
    made = await asyncio.gather(*(_within(timeout, name, layer) for name, layer in makers.items()))
    text, reports = fit_to_budget(
        sorted(made, key=lambda each: list(LayerName).index(each.name)), tokens * 4
    )
    return Context(
        text,
        tuple(reports.get(name) or LayerReport(name, missing=NOT_ASKED) for name in LayerName),
        format_tool_patterns(records.patterns, offered),
        profile if profile and profile.fetched_at and profile != stored else None,
    )


async def _within(timeout: float, name: LayerName, layer: Awaitable[Layer]) -> Layer:
    try:
        async with asyncio.timeout(timeout):
            return await layer
    except Exception as error:  # noqa: BLE001 - one broken layer must not cost the others
        return Layer(name, missing=reason_of(error, name))


def reason_of(error: Exception, what: str) -> str:
    """Return the reason why something is missing, in words for the model."""
    if isinstance(error, TimeoutError):
        reason = _LATE
    elif isinstance(error, Permanent):
        # such as an unknown RFP: the message names the known ones
        reason = redacted_line(public_sentence(str(error), _BROKEN), _REASON)
    else:
        reason = _BROKEN
    _log.warning("context_layer_missing", layer=what, reason=reason, error=type(error).__name__)
    return reason


def mentions_team(question: str) -> bool:
    """Whether the question is about the people who answer RFPs, or one of them."""
    return _TEAM_PATTERN.search(question[:MAX_QUESTION]) is not None


def user_layer(actor: UserProfile, member: TeamMember | None) -> Layer:
    told = [f"- Slack user id: {redacted_line(actor.user_id, _NAME)}"]
    known = {
        "name": actor.display_name,
        "email": actor.email,
        "platform identity": actor.platform_id,
    }
    told += [f"- {name}: {redacted_line(text, _NAME)}" for name, text in known.items() if text]
    told.append(_member(member) if member else "- not known to the team")
    return Layer(LayerName.USER, "Who asks:", tuple(told), "team_get")


def thread_layer(messages: Sequence[RawMessage], users: Mapping[str, User | None]) -> Layer:
    pieces = []
    names = known_names(users)
    for message in messages:
        user_id = str(message.get("user") or "")
        user = users.get(user_id)
        author = name_with_id(user.name if user else "", user_id) or str(
            message.get("username") or "an app"
        )
        named = [
            f"{each.get('name') or 'a file'} ({each['id']})"
            for each in message.get("files") or ()
            if each.get("id")
        ]
        attached = "".join(f" [attached: {redacted_line(each, _NAME)}]" for each in named)
        at = _format_time(datetime.fromtimestamp(float(message["ts"]), UTC))
        read = read_text(message)
        said = redacted_line(
            plain_tokens(with_forwarded(read.text, read.forwarded), names), MAX_PIECE
        )
        pieces.append(f"- {at} {redacted_line(author, _NAME)}: {said}{attached}")
    heading = (
        "Said in this Slack thread before you were called, oldest first; you were not spoken to:"
    )
    return Layer(LayerName.THREAD, heading, tuple(pieces), "slack_get_thread", oldest_first=True)


def rfp_layer(state: OpportunityState) -> Layer:
    changed = _format_time(state.updated_at)
    heading = (
        f"{state.rfp_id}, version {state.version} of its state, changed last at {changed} UTC:"
    )
    first = {name: state.document[name] for name in FACTS if name in state.document}
    pieces = [
        f"- {redacted_line(name, _NAME)}: {redacted_json(each, MAX_PIECE, field=name)}"
        for name, each in (first | state.document).items()
    ]
    return Layer(
        LayerName.RFP,
        heading,
        tuple(pieces or ["- nothing is written down yet"]),
        "opportunity_load",
    )


def journal_layer(entries: Sequence[JournalEntry]) -> Layer:
    pieces = [
        f"- {_format_time(each.created_at)} {each.kind} by "
        f"{redacted_line(each.author.user_id, _NAME)}: "
        f"{redacted_line(each.text, MAX_PIECE)}"
        for each in entries
    ]
    return Layer(
        LayerName.JOURNAL, "Its journal, the newest entry first:", tuple(pieces), "journal_list"
    )


def events_layer(found: Sequence[Event]) -> Layer:
    pieces = [
        f"- {_format_time(each.created_at)} {redacted_line(each.event_type, _NAME)} by "
        f"{redacted_line(each.author.user_id, _NAME)}: {redacted_json(each.payload, MAX_PIECE)}"
        for each in found
    ]
    return Layer(LayerName.EVENTS, "Its events, the newest first:", tuple(pieces), "event_list")


def related_layer(found: Sequence[Rfp]) -> Layer:
    pieces = []
    for rfp in found:
        client = f"client {rfp.client}" if rfp.client else ""
        due = f"due {rfp.due_date}" if rfp.due_date else ""
        owner = f"owner {rfp.owner}" if rfp.owner else ""
        told = filter(
            None, (f"{rfp.rfp_id}: {rfp.title}", client, f"status {rfp.status}", due, owner)
        )
        pieces.append(f"- {redacted_line(', '.join(told), MAX_PIECE)}")
    return Layer(
        LayerName.RELATED, "Other RFPs that may be meant or may help:", tuple(pieces), "rfp_search"
    )


def other_threads_layer(found: Sequence[RelatedThread]) -> Layer:
    """Build the layer; threads with messages that the readers here must not see appear only by
    channel.
    """
    answers = [
        (
            f"- in <#{each.channel}>, answered last at {_format_time(each.at)}: "
            f"{redacted_line(each.answered, MAX_PIECE)}"
        )
        for each in found
        if each.answered and each.at
    ]
    silent = list(dict.fromkeys(f"- in <#{each.channel}>" for each in found if not each.answered))
    heading = (
        "Other threads about the same RFP; what was said in other channels is not shown here:"
    )
    return Layer(LayerName.OTHER_THREADS, heading, (*answers, *silent))


def memories_layer(found: Mapping[MemoryKind, Sequence[StoredMemory]]) -> Layer:
    """Take one memory of each kind by turns, so that a cut drops the worst matches of every kind
    first. Patterns have their own section.
    """
    lessons = [each for each in found.get(MemoryKind.PROCEDURAL, ()) if each.error_class]
    kinds = [found.get(MemoryKind.SEMANTIC, ()), found.get(MemoryKind.EPISODIC, ()), lessons]
    pieces = []
    for memory in filter(None, chain.from_iterable(zip_longest(*kinds))):
        about = f" ({redacted_line(memory.rfp_id, _NAME)})" if memory.rfp_id else ""
        said = redacted_line(memory.text, MAX_PIECE)
        pieces.append(f"- {_format_time(memory.created_at)} {memory.kind}{about}: {said}")
    heading = (
        "Remembered of earlier turns; it may be outdated, so look it up before you rely on it:"
    )
    return Layer(LayerName.MEMORIES, heading, tuple(pieces), "memory_search")


def team_layer(members: Sequence[TeamMember], user_id: str, *, left_out: int = 0) -> Layer:
    """Build the layer with the requester first."""
    ordered = sorted(members, key=lambda each: each.user_id != user_id)
    pieces = tuple(_member(each, asks=each.user_id == user_id) for each in ordered)
    return Layer(LayerName.TEAM, "The team:", pieces, "team_list", left_out=max(0, left_out))


def _member(member: TeamMember, *, asks: bool = False) -> str:
    skills = f"can {', '.join(member.skills[:_SKILLS])}" if member.skills else ""
    hours = f"{member.hours_per_week} hours a week for proposals"
    told = "; ".join(
        filter(None, (member.role, skills, hours, redacted_line(member.biography, _BIOGRAPHY)))
    )
    name = redacted_line(name_with_id(member.name, member.user_id), _NAME)
    mark = ", who asks" if asks else ""
    return f"- {name}{mark}: {redacted_line(told, MAX_PIECE)}"


def _format_time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def fit_to_budget(layers: Sequence[Layer], room: int) -> tuple[str, dict[LayerName, LayerReport]]:
    """Return the layers in at most `room` bytes together, with a sentence that names the missing
    ones, and a report of each layer.
    """
    there = [each for each in layers if each.pieces]
    missing = _missing_sentence(
        [f"{each.name} ({each.missing})" for each in layers if each.missing]
    )
    # The worst case: every layer is named as left out.
    no_room = _missing_sentence([f"{each.name} (no room)" for each in there])
    shown = {each.name: _fenced(each, each.pieces, 0) for each in there}
    # with the newline that ends the layer
    sizes = {name: byte_size(text) + 1 for name, (text, _) in shown.items()}
    given = shares(sizes, WEIGHTS, room - byte_size(missing) - byte_size(no_room) - 2)
    shown |= {
        each.name: _cut(each, given[each.name] - 1)
        for each in there
        if sizes[each.name] > given[each.name]
    }
    left_out = _missing_sentence(
        [f"{name} (no room)" for name, (text, _) in shown.items() if not text]
    )
    whole = "\n".join(filter(None, [*(text for text, _ in shown.values()), missing, left_out]))
    if byte_size(whole) > room:
        whole = ""  # the budget is too small even for that; the reports say so
    absent = {
        each.name: LayerReport(each.name, missing=each.missing or NOTHING) for each in layers
    }
    return whole, absent | {name: report for name, (_, report) in shown.items()}


def _missing_sentence(missing: list[str]) -> str:
    return f"Missing here: {'; '.join(missing)}." if missing else ""


def shares(
    wanted: Mapping[LayerName, int], weights: Mapping[LayerName, int], room: int
) -> dict[LayerName, int]:
    """Divide `room` by weight: a layer gets at most its size, and the others share the rest."""
    given = dict[LayerName, int]()
    left = max(0, room)
    weight = sum(weights[name] for name in wanted)
    # the most modest first
    for name in sorted(wanted, key=lambda each: wanted[each] / weights[each]):
        given[name] = min(wanted[name], left * weights[name] // weight)
        left -= given[name]
        weight -= weights[name]
    return given


def _cut(layer: Layer, room: int) -> tuple[str, LayerReport]:
    """Keep as many pieces as fit, the most important ones first; at least the beginning of the
    first piece.
    """
    ranked = layer.pieces[::-1] if layer.oldest_first else layer.pieces
    frame, _ = _fenced(layer, (), len(ranked))
    kept = list[str]()
    left = room - byte_size(frame)
    for piece in ranked:
        if (needed := byte_size(piece) + 1) > left:
            break
        kept.append(piece)
        left -= needed
    if not kept and left > _LEAST:
        kept.append(truncate_bytes(ranked[0], left - 1))
    if not kept:
        return "", LayerReport(layer.name, cut=len(ranked) + layer.left_out, missing="no room")
    return _fenced(layer, kept[::-1] if layer.oldest_first else kept, len(ranked) - len(kept))


def _fenced(layer: Layer, pieces: Sequence[str], cut: int) -> tuple[str, LayerReport]:
    """Wrap the pieces of a layer in its tag, with a note that `cut` of them are left out. The note
    gets shorter as fewer are cut.
    """
    body = [layer.heading, *pieces]
    missing = cut + layer.left_out
    if missing:
        where = f": {layer.more} shows them" if layer.more else ""
        body.append(
            f"({missing} {'older' if layer.oldest_first else 'more'} left out here{where})"
        )
    text = wrap_in_tag("context", "\n".join(body), layer.name)
    return text, LayerReport(layer.name, -(-byte_size(text) // 4), len(pieces), missing)
