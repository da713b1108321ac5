"""An event of a conversation becomes one signal to its workflow, once its thread is known."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from temporalio.client import Client
from temporalio.service import RPCError

from tests.gateway.conftest import KnownThreads, within_slacks_limit
from tests.gateway.slack_events import CONFIG, outcome
from tests.gateway.test_dispatch import accepted, failing, hanging, new_thread, started_with
from tests.support.patience import patient
from threadline.conversations.model.conversation import ConversationInput, conversation_workflow_id
from threadline.errors import Permanent, Transient
from threadline.gateway.router import STARTING_WINDOW, EventRouter, NotAccepted
from threadline.gateway.routes import Route, RouteTarget
from threadline.slack.model import Thread, User
from threadline.slack.users import UserDirectory
from threadline.threads.authors import AuthorPolicy
from threadline.threads.model import IncomingMessage, MessageKind, SenderType, message_id, stop_id
from threadline.threads.workflow_client import CHANNEL_ATTRIBUTE

pytestmark = pytest.mark.asyncio(loop_scope="session")


def said(thread: Thread, ts: str = "", kind: MessageKind = MessageKind.MESSAGE) -> IncomingMessage:
    identity = message_id(thread.team, thread.channel, ts or thread.ts)
    return IncomingMessage(
        identity,
        kind,
        SenderType.UNKNOWN,
        "U1",
        "add three items",
        thread.channel,
        ts or thread.ts,
        addressed=not ts,
    )


def addressed(thread: Thread, message: IncomingMessage) -> Route:
    return Route(RouteTarget.CONVERSATION, thread, message)


def overheard(thread: Thread, message: IncomingMessage) -> Route:
    return Route(RouteTarget.FOLLOWED_THREAD, thread, message)


def stop_word(thread: Thread, message: IncomingMessage) -> Route:
    return Route(RouteTarget.DIRECT_STOP, thread, message)


def sign(thread: Thread, ts: str) -> Route:
    identity = stop_id(thread.team, thread.channel, ts, "U1", "9.5")
    place = Thread(thread.team, thread.channel, ts)
    return Route(
        RouteTarget.REACTED_MESSAGE,
        place,
        IncomingMessage(
            identity, MessageKind.STOP, SenderType.UNKNOWN, "U1", "", thread.channel, "9.5"
        ),
    )


async def until_listed(temporal: Client, channel: str, count: int) -> None:
    """Wait for Temporal's list, which shows a run a moment after it began."""
    async with asyncio.timeout(patient(10)):
        while (await temporal.count_workflows(f"CaseChannel = '{channel}'")).count < count:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.05)


async def exists(temporal: Client, thread: Thread) -> bool:
    try:
        await temporal.get_workflow_handle(conversation_workflow_id(thread)).describe()
    except RPCError:
        return False
    return True


async def test_mention_starts_its_conversation(temporal: Client, threads: KnownThreads) -> None:
    thread = new_thread("C_ELSE")
    call = said(thread)

    assert (
        await outcome(EventRouter(CONFIG, temporal, threads), addressed(thread, call))
        == "conversation"
    )

    handle = temporal.get_workflow_handle(conversation_workflow_id(thread))
    assert await accepted(handle) == [("incoming_message", call)]
    assert await started_with(handle, ConversationInput) == ConversationInput(thread=thread)
    described = await handle.describe()
    assert (described.workflow_type, described.task_queue) == (
        "ConversationWorkflow",
        "threadline",
    )
    assert described.typed_search_attributes[CHANNEL_ATTRIBUTE] == "C_ELSE"


async def test_question_in_somebodys_name_is_signalled_like_a_mention(
    temporal: Client, threads: KnownThreads
) -> None:
    thread = new_thread("C_ELSE")
    question = replace(said(thread), id="T1:JOB-1:run:1", addressed=True)
    router = EventRouter(CONFIG, temporal, threads)
    await router.ask(thread, question)
    await router.ask(thread, question)
    handle = temporal.get_workflow_handle(conversation_workflow_id(thread))
    assert await accepted(handle) == [("incoming_message", question)] * 2, (
        "its inbox takes one message of each id"
    )


async def test_followed_thread_gets_messages_deletions_and_stop_words(
    temporal: Client, threads: KnownThreads
) -> None:
    thread = new_thread("C_ELSE")
    threads.talks[thread.ts] = thread
    words = [
        said(thread, "2.0"),
        said(thread, "2.0", MessageKind.DELETION),
        said(thread, "3.0", MessageKind.STOP),
    ]
    router = EventRouter(CONFIG, temporal, threads)

    outcomes = [await outcome(router, overheard(thread, word)) for word in words]

    assert outcomes == ["followed_thread", "followed_thread", "stop"]
    handle = temporal.get_workflow_handle(conversation_workflow_id(thread))
    assert await accepted(handle) == [("incoming_message", word) for word in words]


async def test_messages_among_people_start_nothing(
    temporal: Client, threads: KnownThreads
) -> None:
    thread = new_thread("C_ELSE")
    router = EventRouter(CONFIG, temporal, threads)

    assert await outcome(router, overheard(thread, said(thread, "2.0"))) == "not_followed"
    assert await outcome(router, sign(thread, "2.0")) == "not_followed"

    assert not await exists(temporal, thread)
    assert not await exists(temporal, Thread(thread.team, thread.channel, "2.0"))


async def test_reply_is_kept_before_its_mention_is_stored(
    temporal: Client, threads: KnownThreads
) -> None:
    """No worker runs here: the database does not know the conversation."""
    thread = new_thread("C_ELSE")
    router = EventRouter(CONFIG, temporal, threads)
    await router.deliver(addressed(thread, said(thread)))
    more = said(thread, "2.0")
    stop = sign(thread, thread.ts)

    assert await outcome(router, overheard(thread, more)) == "followed_thread"
    assert await outcome(router, stop) == "stop"

    kept = await accepted(temporal.get_workflow_handle(conversation_workflow_id(thread)))
    assert [message for _, message in kept[1:]] == [more, stop.message]


async def test_conversation_that_ended_and_was_never_stored_is_not_followed(
    temporal: Client, threads: KnownThreads
) -> None:
    thread = new_thread("C_ELSE")
    router = EventRouter(CONFIG, temporal, threads)
    await router.deliver(addressed(thread, said(thread)))
    await temporal.get_workflow_handle(conversation_workflow_id(thread)).terminate()

    assert await outcome(router, overheard(thread, said(thread, "2.0"))) == "not_followed"


async def test_stop_sign_reaches_the_conversation_of_its_message(
    temporal: Client, threads: KnownThreads
) -> None:
    thread = new_thread("C_ELSE")
    threads.talks["7.0"] = thread
    stop = sign(thread, "7.0")

    assert await outcome(EventRouter(CONFIG, temporal, threads), stop) == "stop"

    handle = temporal.get_workflow_handle(conversation_workflow_id(thread))
    assert await accepted(handle) == [("incoming_message", stop.message)]


async def test_direct_stop_word_reaches_the_conversation_at_work(
    temporal: Client, threads: KnownThreads
) -> None:
    busy = new_thread("D_1")
    own = new_thread("D_1")
    threads.working["D_1"] = busy
    stop = said(own, own.ts, MessageKind.STOP)

    assert await outcome(EventRouter(CONFIG, temporal, threads), stop_word(own, stop)) == "stop"

    handle = temporal.get_workflow_handle(conversation_workflow_id(busy))
    assert await accepted(handle) == [("incoming_message", stop)]
    assert not await exists(temporal, own)


async def test_direct_stop_word_reaches_a_request_that_is_not_stored_yet(
    temporal: Client, threads: KnownThreads
) -> None:
    """No worker runs here: the database does not know the request."""
    known, asked, own = (new_thread("D_3") for _ in range(3))
    router = EventRouter(CONFIG, temporal, threads)
    for thread in (asked, known, new_thread("D_4")):
        await router.deliver(addressed(thread, said(thread)))
    threads.talks[known.ts] = known
    await until_listed(temporal, "D_3", 2)
    stop = said(own, own.ts, MessageKind.STOP)

    assert await outcome(router, stop_word(own, stop)) == "stop"

    kept = await accepted(temporal.get_workflow_handle(conversation_workflow_id(asked)))
    assert [message for _, message in kept] == [said(asked), stop]


@pytest.mark.parametrize("at_work", [True, False])
async def test_direct_stop_word_that_is_stored_begins_nothing_again(
    temporal: Client, threads: KnownThreads, *, at_work: bool
) -> None:
    """The word stopped work that has ended since; with `at_work`, other work runs now."""
    busy = new_thread("D_5")
    own = new_thread("D_5")
    threads.talks[own.ts] = busy
    threads.working.update({"D_5": busy} if at_work else {})

    assert (
        await outcome(
            EventRouter(CONFIG, temporal, threads),
            stop_word(own, said(own, own.ts, MessageKind.STOP)),
        )
        == "already_stored"
    )

    assert not await exists(temporal, own)
    assert not await exists(temporal, busy)


async def test_direct_stop_word_is_answered_when_nothing_is_at_work(
    temporal: Client, threads: KnownThreads
) -> None:
    own = new_thread("D_2")
    stop = replace(said(own), kind=MessageKind.STOP)

    assert (
        await outcome(EventRouter(CONFIG, temporal, threads), stop_word(own, stop))
        == "conversation"
    )

    [(_, kept)] = await accepted(temporal.get_workflow_handle(conversation_workflow_id(own)))
    assert kept == replace(stop, kind=MessageKind.MESSAGE)
    assert kept.addressed


@pytest.mark.usefixtures("real_limits")
@pytest.mark.parametrize("trouble", [failing, hanging])
async def test_event_is_not_accepted_while_the_database_does_not_place_it(
    temporal: Client, threads: KnownThreads, trouble: Callable[[KnownThreads], None]
) -> None:
    thread = new_thread("C_ELSE")
    threads.talks[thread.ts] = thread
    router = EventRouter(CONFIG, temporal, threads)
    trouble(threads)
    own = stop_word(thread, said(thread, "2.0", MessageKind.STOP))
    for route in (overheard(thread, said(thread, "2.0")), sign(thread, thread.ts), own):
        async with within_slacks_limit():
            with pytest.raises(NotAccepted, match="database lookup of"):
                await router.deliver(route)
    assert not await exists(temporal, thread)
    called = new_thread("C_ELSE")
    assert await outcome(router, addressed(called, said(called))) == "conversation", (
        "a mention needs no database"
    )
    threads.fails = threads.hangs = False

    assert await outcome(router, overheard(thread, said(thread, "2.0"))) == "followed_thread"


async def test_absent_temporal_is_an_error_for_the_bots_threads_alone(
    absent_temporal: Client, threads: KnownThreads
) -> None:
    known = new_thread("C_ELSE")
    unknown = new_thread("C_ELSE")
    threads.talks[known.ts] = known
    router = EventRouter(CONFIG, absent_temporal, threads)
    stop = stop_word(new_thread("D_1"), said(known, "2.0", MessageKind.STOP))
    for route in (
        addressed(known, said(known)),
        overheard(known, said(known, "2.0")),
        stop,
    ):
        async with within_slacks_limit():
            with pytest.raises(NotAccepted, match="Temporal did not accept"):
                await router.deliver(route)

    async with within_slacks_limit():
        assert await outcome(router, overheard(unknown, said(unknown, "2.0"))) == "not_followed"


async def test_temporal_is_not_asked_about_old_threads(
    temporal: Client, threads: KnownThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = new_thread("C_ELSE")
    at = f"{float(thread.ts) + STARTING_WINDOW + 1:.6f}"
    router = EventRouter(CONFIG, temporal, threads)
    # a look-up would fail and be logged
    monkeypatch.setattr(temporal, "get_workflow_handle", None)
    with capture_logs() as log:
        assert await outcome(router, overheard(thread, said(thread, at))) == "not_followed"
        assert await outcome(router, overheard(thread, said(thread, "no time"))) == "not_followed"
    assert log == []


class Guests:
    """Everybody is a guest."""

    def __init__(self) -> None:
        self.asked = 0

    async def fetch(self, user: str) -> User | None:
        self.asked += 1
        return User(team="T1", guest=True)


async def test_guest_neither_speaks_to_the_bot_nor_stops_it(
    temporal: Client, threads: KnownThreads
) -> None:
    thread = new_thread("C_ELSE")
    own = new_thread("C_ELSE")
    guests = Guests()
    router = EventRouter(CONFIG, temporal, threads, AuthorPolicy(UserDirectory(guests.fetch)))
    assert await outcome(router, overheard(thread, said(thread, "2.0"))) == "not_followed"
    assert guests.asked == 0, "people who talk among themselves are not looked up"

    threads.talks[thread.ts] = thread
    routes = (
        addressed(thread, said(thread)),
        overheard(thread, said(thread, "2.0")),
        sign(thread, thread.ts),
    )
    assert [await outcome(router, route) for route in routes] == ["guest"] * 3
    with pytest.raises(Permanent, match="guest"):
        await router.ask(own, said(own))
    assert not await exists(temporal, thread)
    assert not await exists(temporal, own)
    gone = overheard(thread, replace(said(thread, "2.0"), kind=MessageKind.DELETION))
    assert await outcome(router, gone) == "followed_thread"


async def find_user(user_id: str) -> User | None:
    """The senders as Slack describes them: people, apps, or unknown."""
    if user_id == "U_UNSAID":
        raise Transient("Slack did not say")
    return User(team="T1", bot=user_id == "U_ALERTS")


@pytest.mark.parametrize("open_to_all", [(), ("C_ELSE",)])
async def test_app_that_wrote_the_root_is_not_one_of_the_people_in_a_thread(
    temporal: Client, threads: KnownThreads, open_to_all: tuple[str, ...]
) -> None:
    router = EventRouter(
        CONFIG, temporal, threads, AuthorPolicy(UserDirectory(find_user), open_to_all)
    )
    roots = {"U_ALERTS": "", "U2": "U2", "U1": "U1", "": "", "U_UNSAID": "U_UNSAID"}
    for root_author_id, told in roots.items():
        thread = new_thread("C_ELSE")
        called = addressed(thread, replace(said(thread), root_author_id=root_author_id))
        assert await outcome(router, called) == "conversation"
        [(_, message)] = await accepted(
            temporal.get_workflow_handle(conversation_workflow_id(thread))
        )
        assert message.root_author_id == told
