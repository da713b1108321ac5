"""What the operator's context is made of, from Postgres and Slack: each question is a unit of work of its own."""

import asyncio
from collections.abc import Mapping, Sequence

from threadline.db.engine import Database
from threadline.operator import memory
from threadline.operator.context_sources import OtherThread, Person, Request, RfpState, Said, Sources, TeamFound
from threadline.operator.model.memory import Memory, MemoryKind
from threadline.rfps import model as rfps
from threadline.rfps.model import Event, JournalEntry, Rfp, TeamMember
from threadline.rfps.store import RfpStore, TeamMemberStore
from threadline.slack import rich_text
from threadline.slack.history import History, Raw
from threadline.slack.model import User, name_with_id
from threadline.slack.users import UserProfiles
from threadline.threads.authors import AuthorPolicy, messages_before

RECENT = 20
"""Journal entries and events that are read."""
_RELATED, _MEMORIES, _TEAM, _THREADS = 5, 5, 50, 20


class LiveSources(Sources):
    """Args: `authors` says what counts of the messages that `history` shows."""

    def __init__(self, database: Database, profiles: UserProfiles, history: History, authors: AuthorPolicy) -> None:
        self._database = database
        self._profiles = profiles
        self._history = history
        self._authors = authors

    async def person(self, request: Request) -> Person:
        profile = self._profiles.get(request.thread.team, request.user_id)
        return Person(*await asyncio.gather(profile, self._member(request)))

    async def _member(self, request: Request) -> TeamMember | None:
        async with self._database.begin() as work:
            return (await TeamMemberStore(work.tx).of(request.thread.team, [request.user_id])).get(request.user_id)

    async def said_before(self, request: Request) -> Sequence[Said]:
        async with self._database.begin() as work:
            begun = await work.talked.begun_at(request.thread)
        if begun is None or float(begun) <= float(request.thread.ts):
            return []  # the bot was called by the root: nothing was said before
        messages, users = await messages_before(self._history, self._authors, request.thread, float(begun))
        return [_said(each, users) for each in messages]

    async def rfp(self, request: Request) -> RfpState:
        async with self._database.begin() as work:
            state = await RfpStore(work.tx).ensure_state_exists(request.thread.team, request.rfp_id)
            return RfpState(await RfpStore(work.tx).get(request.thread.team, state.rfp_id), state)

    async def journal(self, request: Request) -> Sequence[JournalEntry]:
        async with self._database.begin() as work:
            await RfpStore(work.tx).get(request.thread.team, request.rfp_id)  # of one that is gone nothing is shown
            return await RfpStore(work.tx).journal(request.thread.team, request.rfp_id, RECENT)

    async def events(self, request: Request) -> Sequence[Event]:
        async with self._database.begin() as work:
            await RfpStore(work.tx).get(request.thread.team, request.rfp_id)  # of one that is gone nothing is shown
            return await RfpStore(work.tx).events(request.thread.team, request.rfp_id, RECENT)

    async def related(self, request: Request) -> Sequence[Rfp]:
        async with self._database.begin() as work:
            if request.rfp_id:
                return await RfpStore(work.tx).related(request.thread.team, request.rfp_id, _RELATED)
            return await RfpStore(work.tx).search(request.thread.team, request.question, _RELATED)

    async def other_threads(self, request: Request) -> Sequence[OtherThread]:
        """Words are told in the channel in which they were said. A direct message is nobody else's business."""
        here = request.thread
        async with self._database.begin() as work:
            about = await work.bindings.threads_of(here.team, rfps.BINDING, request.rfp_id, _THREADS)
            others = [each for each in about if each != here]
            same = [each.ts for each in others if each.channel == here.channel]
            answered = await work.talked.last_answers(here.team, here.channel, same)
        told = sorted(answered.values(), key=lambda each: each.at, reverse=True)
        elsewhere = dict.fromkeys(each.channel for each in others if each.channel != here.channel)
        return [
            *(OtherThread(here.channel, each.answer, each.at.timestamp()) for each in told),
            *(OtherThread(channel) for channel in elsewhere if not channel.startswith("D")),
        ]

    async def memories(self, request: Request) -> Mapping[MemoryKind, Sequence[Memory]]:
        team, channel = request.thread.team, request.thread.channel
        async with self._database.begin() as work:
            asked = memory.asked(request.question)
            # The ways that succeeded are told elsewhere: the room is for the lessons.
            return await work.memories.recall(team, asked, channel=channel, with_successes=False, limit=_MEMORIES)

    async def team(self, request: Request) -> TeamFound:
        async with self._database.begin() as work:
            found = await TeamMemberStore(work.tx).listed(request.thread.team, limit=_TEAM + 1)
        return TeamFound(found[:_TEAM], more=len(found) > _TEAM)


def _said(message: Raw, users: Mapping[str, User | None]) -> Said:
    user_id = str(message.get("user") or "")
    user = users.get(user_id)
    author = name_with_id(user.name if user else "", user_id) or str(message.get("username") or "an app")
    files = (f"{each.get('name') or 'a file'} ({each['id']})" for each in message.get("files") or () if each.get("id"))
    return Said(author, float(message["ts"]), rich_text.text_of(message), tuple(files))
