"""The layers of a turn's context, each as pieces of one line: a layer that is too long is cut between two of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain, zip_longest

from threadline.operator import prompt_fences as fences
from threadline.operator.context_sources import OtherThread, Person, RfpState, Said, TeamFound
from threadline.operator.model.memory import Memory, MemoryKind
from threadline.rfps.model import FACTS, Event, JournalEntry, Rfp, TeamMember
from threadline.slack.model import name_with_id

LONGEST = 1_500
"""Bytes of one piece: a journal entry of 10,000 characters leaves room for others."""
_NAME = 200
_BIOGRAPHY = 300
_SKILLS = 20


class LayerName(StrEnum):
    """In the order in which they are told: what is asked about comes before what is beside it."""

    USER = "user"
    RFP = "rfp_state"
    JOURNAL = "journal"
    EVENTS = "events"
    THREAD = "thread"
    OTHER_THREADS = "other_threads"
    RELATED = "related_rfps"
    MEMORIES = "memories"
    TEAM = "team"
    OUTSIDE = "outside"


@dataclass(frozen=True)
class Layer:
    """`pieces` in the order in which they are shown, without any there is nothing to tell.

    Cut are the last ones, or the first where they are `oldest_first`. `more` says where the rest is to be found.
    `left_out`: pieces that were never read.
    """

    name: LayerName
    heading: str
    pieces: tuple[str, ...]
    more: str = ""
    oldest_first: bool = False
    left_out: int = 0


def user(person: Person) -> Layer:
    actor, member = person.actor, person.member
    told = [f"- Slack user id: {fences.line(actor.user_id, _NAME)}"]
    known = {"name": actor.display_name, "email": actor.email, "platform identity": actor.platform_id}
    told += [f"- {name}: {fences.line(text, _NAME)}" for name, text in known.items() if text]
    told.append(_member(member) if member else "- not known to the team")
    return Layer(LayerName.USER, "Who asks:", tuple(told), "team_get")


def thread(said: Sequence[Said]) -> Layer:
    heading = "Said in this Slack thread before you were called, oldest first; you were not spoken to:"
    return Layer(LayerName.THREAD, heading, tuple(map(_said, said)), "slack_get_thread", oldest_first=True)


def rfp(found: RfpState) -> Layer:
    state = found.state
    heading = f"{state.rfp_id}, version {state.version} of its state, changed last at {_moment(state.updated_at)} UTC:"
    first = {name: state.document[name] for name in FACTS if name in state.document}
    document = first | {name: each for name, each in state.document.items() if name not in first}
    pieces = [
        f"- {fences.line(name, _NAME)}: {fences.value(each, LONGEST, field=name)}" for name, each in document.items()
    ]
    return Layer(LayerName.RFP, heading, tuple(pieces or ["- nothing is written down yet"]), "opportunity_load")


def journal(entries: Sequence[JournalEntry]) -> Layer:
    pieces = [
        f"- {_moment(each.at)} {each.kind} by {fences.line(each.author.user_id, _NAME)}: "
        f"{fences.line(each.text, LONGEST)}"
        for each in entries
    ]
    return Layer(LayerName.JOURNAL, "Its journal, the newest entry first:", tuple(pieces), "journal_list")


def events(found: Sequence[Event]) -> Layer:
    pieces = [
        f"- {_moment(each.at)} {fences.line(each.event_type, _NAME)} by {fences.line(each.author.user_id, _NAME)}: "
        f"{fences.value(each.payload, LONGEST)}"
        for each in found
    ]
    return Layer(LayerName.EVENTS, "Its events, the newest first:", tuple(pieces), "event_list")


def related(found: Sequence[Rfp]) -> Layer:
    return Layer(LayerName.RELATED, "Other RFPs that may be meant or may help:", tuple(map(_rfp, found)), "rfp_search")


def other_threads(found: Sequence[OtherThread]) -> Layer:
    """Of threads whose words are not for the readers here, only the channel is named."""
    answers = [
        f"- in <#{each.channel}>, answered last at {_seconds(each.at)}: {fences.line(each.answered, LONGEST)}"
        for each in found
        if each.answered
    ]
    silent = list(dict.fromkeys(f"- in <#{each.channel}>" for each in found if not each.answered))
    heading = "Other threads about the same RFP; what was said in other channels is not shown here:"
    return Layer(LayerName.OTHER_THREADS, heading, (*answers, *silent))


def memories(found: Mapping[MemoryKind, Sequence[Memory]]) -> Layer:
    """One of each kind by turns, so that a cut takes the least like of every kind first.

    Successful patterns are told elsewhere.
    """
    lessons = [each for each in found.get(MemoryKind.PROCEDURAL, ()) if each.error_class]
    kinds = [found.get(MemoryKind.SEMANTIC, ()), found.get(MemoryKind.EPISODIC, ()), lessons]
    ranked = [each for each in chain.from_iterable(zip_longest(*kinds)) if each]
    heading = "Remembered of earlier turns; it may be outdated, so look it up before you rely on it:"
    return Layer(LayerName.MEMORIES, heading, tuple(map(_memory, ranked)), "memory_search")


def team(found: TeamFound, user_id: str) -> Layer:
    """Whoever asks comes first."""
    ordered = sorted(found.members, key=lambda each: each.user_id != user_id)
    pieces = tuple(_member(each, asks=each.user_id == user_id) for each in ordered)
    return Layer(LayerName.TEAM, "The team:", pieces, "team_list", left_out=int(found.more))


def outside(*, external: bool, skills: bool) -> Layer:
    """What is asked for and not set up: said, so that nobody makes it up."""
    told = ["- No source outside of Slack and of the records is set up here: say so, and do not guess."]
    skill = ["- No skills are set up here, only tools: say so where somebody asks for one."]
    pieces = (told if external else []) + (skill if skills else [])
    return Layer(LayerName.OUTSIDE, "Asked for, and not there:", tuple(pieces))


def _said(said: Said) -> str:
    files = "".join(f" [attached: {fences.line(name, _NAME)}]" for name in said.files)
    return f"- {_seconds(said.at)} {fences.line(said.author, _NAME)}: {fences.line(said.text, LONGEST)}{files}"


def _rfp(found: Rfp) -> str:
    told = [
        f"{found.rfp_id}: {found.title}",
        f"client {found.client}" if found.client else "",
        f"status {found.status}",
    ]
    due = f"due {found.due_date}" if found.due_date else ""
    owner = f"owner {found.owner}" if found.owner else ""
    return f"- {fences.line(', '.join(filter(None, (*told, due, owner))), LONGEST)}"


def _memory(memory: Memory) -> str:
    about = f" ({fences.line(memory.rfp_id, _NAME)})" if memory.rfp_id else ""
    return f"- {_moment(memory.at)} {memory.kind}{about}: {fences.line(memory.text, LONGEST)}"


def _member(member: TeamMember, *, asks: bool = False) -> str:
    skills = f"can {', '.join(member.skills[:_SKILLS])}" if member.skills else ""
    hours = f"{member.hours_per_week} hours a week for proposals"
    biography = fences.line(member.biography, _BIOGRAPHY)
    told = "; ".join(filter(None, (member.role, skills, hours, biography)))
    mark = ", who asks" if asks else ""
    return f"- {fences.line(name_with_id(member.name, member.user_id), _NAME)}{mark}: {fences.line(told, LONGEST)}"


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def _seconds(at: float) -> str:
    return _moment(datetime.fromtimestamp(at, UTC))
