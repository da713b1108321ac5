"""Guests, strangers and people of other companies are refused, let in by channel, and never
guessed about.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient
from temporalio.client import Client
from temporalio.service import RPCError

from tests.gateway.conftest import ROUTING, SOCKET, Process, within_slacks_limit
from tests.gateway.slack_events import CONFIG, TEAM, edit
from tests.gateway.slack_events import said as slack_message
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.patience import patient
from tests.support.slack import Clock
from threadline import telemetry
from threadline.approvals.model import APPROVE, button_value
from threadline.cases.model import bug_workflow_id
from threadline.conversations.blocks import help_message
from threadline.conversations.help import ASK_EXAMPLE
from threadline.conversations.model.conversation import conversation_workflow_id
from threadline.errors import Permanent, Transient
from threadline.gateway.router import EventRouter, NotAccepted, ThreadLookup
from threadline.gateway.routes import Route, RouteTarget
from threadline.slack.client import SlackClient
from threadline.slack.model import AuthorRefusal, Thread, User
from threadline.slack.users import CACHE_SECONDS, UserDirectory
from threadline.threads.authors import AuthorPolicy
from threadline.threads.contract import Handled
from threadline.threads.model import CORE_QUEUE, IncomingMessage, MessageKind, SenderType
from threadline.wiring.gateway import check_user_lookup, run_gateway
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import SandboxUser as SandboxUser

pytestmark = pytest.mark.asyncio(loop_scope="session")

GUEST = SandboxUser("U0GUEST", "guest", "guest", is_restricted=True)
EXTERNAL = (
    GUEST,
    SandboxUser("U0GUEST1", "guest1", "guest", is_restricted=True, is_ultra_restricted=True),
    SandboxUser("U0STRANGER", "stranger", "stranger", is_stranger=True),
    SandboxUser("U0ELSEWHERE", "elsewhere", "elsewhere", team="T0ELSEWHERE"),
)


@dataclass
class Served:
    """A gateway that runs over the Slack sandbox."""

    sandbox: FaultySlack
    temporal: Client
    process: Process

    async def reported(self, user: str, text: str = "it breaks") -> bool:
        """Whether a report by this user, delivered as often as Slack does, has a workflow."""
        ts = self.sandbox.workspace.post(identity.REPORTS, user, text).ts
        await self.sandbox.settled()
        return await exists(self.temporal, ts)


async def exists(temporal: Client, ts: str) -> bool:
    handle = temporal.get_workflow_handle(
        bug_workflow_id(Thread(identity.TEAM, identity.REPORTS, ts))
    )
    try:
        await handle.describe()
    except RPCError:
        return False
    return True


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve(
    serving: Callable[..., Any],
    sandbox: FaultySlack,
    slack: AsyncWebClient,
    temporal: Client,
    threads: ThreadLookup,
) -> Serve:
    """Runs a gateway that looks people up in the sandbox."""
    for user in EXTERNAL:
        sandbox.workspace.add_user(user)

    @asynccontextmanager
    async def served(
        *open_channels: str, allowed_apps: Collection[str] = ()
    ) -> AsyncIterator[Served]:
        authors = AuthorPolicy(UserDirectory(SlackClient(slack).user), open_channels, allowed_apps)
        routing = replace(
            ROUTING, external_people=frozenset(open_channels), allowed_apps=frozenset(allowed_apps)
        )
        async with serving(
            SOCKET, EventRouter(routing, temporal, threads, authors), slack, temporal
        ) as process:
            yield Served(sandbox, temporal, process)

    return served


async def test_reports_of_external_people_are_refused_and_counted(serve: Serve) -> None:
    async with serve() as gateway:
        for user in EXTERNAL:
            assert not await gateway.reported(user.id)
        assert await gateway.reported(identity.REPORTER)
        assert await gateway.process.counts() == {
            "guest": 2,
            "stranger": 1,
            "other_company": 1,
            "report": 1,
        }


async def test_external_people_count_like_others_in_an_open_channel(serve: Serve) -> None:
    async with serve(identity.REPORTS) as gateway:
        for user in EXTERNAL:
            assert await gateway.reported(user.id)


def shared_channel(sandbox: FaultySlack, **how: Any) -> str:
    """A channel that is shared with another company, in which a colleague and a stranger are."""
    sandbox.workspace.add_user(SandboxUser("U0EVE", "eve", "eve", team=identity.PARTNER))
    people = [identity.BOT_USER, identity.REPORTER, "U0EVE"]
    channel = sandbox.workspace.create_channel(
        f"shared-{len(how)}", people, partner=identity.PARTNER, **how
    )
    return channel.id


SHARED: list[tuple[str, dict[str, Any]]] = [
    ("ours", {}),
    ("ours, without user_team", {"names_author_team": False}),
    ("theirs", {"host": identity.PARTNER}),
    ("theirs, without user_team", {"host": identity.PARTNER, "names_author_team": False}),
    ("ours, their context", {"context": identity.PARTNER}),
    (
        "theirs, their context",
        {"host": identity.PARTNER, "context": identity.PARTNER, "names_author_team": False},
    ),
]


@pytest.mark.parametrize("how", [row[1] for row in SHARED], ids=[row[0] for row in SHARED])
async def test_in_a_shared_channel_our_colleague_counts_and_a_stranger_does_not(
    serve: Serve, sandbox: FaultySlack, how: dict[str, Any]
) -> None:
    channel = shared_channel(sandbox, **how)
    call = f"<@{identity.BOT_USER}> list the open tickets"
    async with serve() as gateway:
        theirs = sandbox.say("U0EVE", channel, call)
        ours = sandbox.say(identity.REPORTER, channel, call)
        await sandbox.settled()
        for user in ("U0EVE", identity.REPORTER):
            sandbox.workspace.react(channel, ours, user, "octagonal_sign")
        await sandbox.settled()
        counts = await gateway.process.counts()
        started = [await is_conversation(gateway.temporal, channel, ts) for ts in (theirs, ours)]

    assert started == [False, True]
    assert (counts["conversation"], counts["other_company"], counts["stop"]) == (1, 2, 1)


async def is_conversation(temporal: Client, channel: str, ts: str) -> bool:
    """Whether a conversation of our workspace runs in this thread."""
    handle = temporal.get_workflow_handle(
        conversation_workflow_id(Thread(identity.TEAM, channel, ts))
    )
    try:
        await handle.describe()
    except RPCError:
        return False
    return True


async def test_colleague_of_a_grid_counts_where_they_belong_to_our_workspace(
    serve: Serve, sandbox: FaultySlack
) -> None:
    both = (identity.TEAM, "T0SISTER")
    other = ("T0SISTER",)
    sandbox.workspace.add_user(
        SandboxUser("U0BOTH", "both", "both", team="T0SISTER", enterprise_teams=both)
    )
    sandbox.workspace.add_user(
        SandboxUser("U0SISTER", "sister", "sister", team="T0SISTER", enterprise_teams=other)
    )
    async with serve() as gateway:
        assert await gateway.reported("U0BOTH")
        assert not await gateway.reported("U0SISTER")


async def test_user_whose_record_names_no_workspace_is_a_stranger() -> None:
    async def find(user_id: str) -> User:
        return User(name="Ann")

    assert (
        await AuthorPolicy(UserDirectory(find)).check("T1", said("U1")) == AuthorRefusal.STRANGER
    )


async def test_reporter_who_forwards_somebodys_never_mind_closes_nothing(
    serve: Serve, sandbox: FaultySlack
) -> None:
    async with serve() as gateway:
        bobs = sandbox.workspace.post(
            identity.GENERAL, identity.BYSTANDER, f"<@{identity.BOT_USER}|bot> never mind"
        )
        root = sandbox.say(identity.REPORTER, identity.REPORTS, "it breaks")
        sandbox.workspace.share(identity.REPORTS, identity.REPORTER, bobs, thread_ts=root)
        sandbox.workspace.share(identity.GENERAL, identity.REPORTER, bobs)
        await sandbox.settled()
        counts = await gateway.process.counts()

    # Bob's own message addresses the bot.
    assert (counts["case"], counts["conversation"], counts["other_channel"]) == (1, 1, 1)
    assert "close" not in counts


@pytest.mark.usefixtures("real_limits")
async def test_event_of_somebody_unidentified_is_not_acknowledged(
    serve: Serve, sandbox: FaultySlack
) -> None:
    async with serve() as gateway:
        sandbox.faults.fail_before("users.info", count=2)
        assert await gateway.reported(identity.REPORTER)
        counts = await gateway.process.counts()

    assert (counts["not_accepted"], counts["report"]) == (2, 1)
    assert [each.attempts for each in sandbox.deliveries.log] == [3]


async def test_bot_without_the_scope_to_ask_says_so_at_its_start() -> None:
    async def refuse(user_id: str) -> User | None:
        raise Permanent("The bot token lacks the scope users:read.")

    with pytest.raises(Permanent, match="users:read"):
        await check_user_lookup(UserDirectory(refuse), identity.BOT_USER)


class People:
    """Answers on request, and records the look-ups."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.called = asyncio.Event()
        self.answering = asyncio.Event()
        self.answering.set()
        self.fails = False
        self.guests: set[str] = set()

    async def fetch(self, user: str) -> User | None:
        self.asked.append(user)
        self.called.set()
        await self.answering.wait()
        if self.fails:
            raise Transient("Slack is away")
        return None if user == "U0NOBODY" else User(team="T1", guest=user in self.guests)


def said(
    user: str, kind: MessageKind = MessageKind.MESSAGE, channel: str = "C1"
) -> IncomingMessage:
    return IncomingMessage("id", kind, SenderType.DEVELOPER, user, "x", channel, "2.0")


async def test_person_is_looked_up_once_an_hour() -> None:
    people = People()
    clock = Clock()
    policy = AuthorPolicy(UserDirectory(people.fetch, clock))

    for _ in range(3):
        assert await policy.check("T1", said("U1")) == said("U1")
    clock.now += CACHE_SECONDS - 1
    await policy.check("T1", said("U1"))
    assert people.asked == ["U1"]

    people.guests.add("U1")
    clock.now += 2
    assert await policy.check("T1", said("U1")) == AuthorRefusal.GUEST
    assert people.asked == ["U1", "U1"]


async def test_burst_of_one_person_causes_one_look_up() -> None:
    people = People()
    people.answering.clear()
    policy = AuthorPolicy(UserDirectory(people.fetch))
    burst = asyncio.gather(*(policy.check("T1", said("U1")) for _ in range(50)))
    await people.called.wait()
    people.answering.set()

    assert await burst == [said("U1")] * 50
    assert people.asked == ["U1"]


@pytest.mark.usefixtures("real_limits")
async def test_late_answer_serves_the_next_delivery(
    temporal: Client, threads: ThreadLookup
) -> None:
    people = People()
    people.answering.clear()
    router = EventRouter(CONFIG, temporal, threads, AuthorPolicy(UserDirectory(people.fetch)))
    thread = Thread("T1", "C1", f"{CORE_QUEUE}-late")
    message = Route(RouteTarget.CASE, thread, said("U1"))

    async with within_slacks_limit():
        with pytest.raises(NotAccepted, match="did not identify U1"):
            await router.deliver(message)
    people.answering.set()

    assert (await router.deliver(message)).outcome == "case"
    assert people.asked == ["U1"]


async def test_failed_look_up_is_repeated_and_an_unknown_person_is_a_stranger() -> None:
    people = People()
    people.fails = True
    policy = AuthorPolicy(UserDirectory(people.fetch))
    with pytest.raises(Transient):
        await policy.check("T1", said("U1"))
    people.fails = False

    assert await policy.check("T1", said("U1")) == said("U1")
    assert people.asked == ["U1", "U1"]
    assert await policy.check("T1", said("U0NOBODY")) == AuthorRefusal.STRANGER


async def test_deletions_and_ignored_events_cause_no_look_up(
    temporal: Client, threads: ThreadLookup
) -> None:
    people = People()
    policy = AuthorPolicy(UserDirectory(people.fetch))

    assert await policy.check("T1", said("U1", MessageKind.DELETION)) == said(
        "U1", MessageKind.DELETION
    )
    unfurled = {
        "type": "event_callback",
        "team_id": TEAM,
        "event": edit(slack_message(), slack_message()),
    }
    assert await EventRouter(CONFIG, temporal, threads, policy).handle(unfurled) == Handled(
        "unfurl"
    )
    assert people.asked == []


@dataclass(frozen=True)
class Author:
    """A sender, with Slack's record of them; `apps`: the apps through which they post."""

    user: str
    record: User | None
    apps: tuple[str, ...] = ()
    app_team: str = ""


PERSON = User("T1")
BOT_RECORD = User("T1", bot=True)
OTHERS_BOT = User("T2", bot=True)
STRANGE_BOT = User("T1", bot=True, external=True)
FORM = ("B_FORM", "A_FORM")
ANY_APP = ("B9", "A_ALLOWED")
WHO_COUNTS: list[tuple[str, Author, str, AuthorRefusal | str]] = [
    ("a person", Author("U1", PERSON), "C1", "U1"),
    ("a person through an app", Author("U1", PERSON, ("B1", "A1")), "C1", "U1"),
    ("a person through an app that may speak", Author("U1", PERSON, FORM), "C1", "U1"),
    (
        "a guest through an app",
        Author("U1", User("T1", guest=True), ("B1", "A1")),
        "C1",
        AuthorRefusal.GUEST,
    ),
    (
        "a guest through an app that may speak",
        Author("U1", User("T1", guest=True), FORM),
        "C1",
        AuthorRefusal.GUEST,
    ),
    (
        "a stranger through an app that may speak",
        Author("U1", None, FORM),
        "C1",
        AuthorRefusal.STRANGER,
    ),
    ("a bot", Author("U1", BOT_RECORD, ("B1", "A1")), "C1", AuthorRefusal.BOT),
    ("a bot whose event names no app", Author("U1", BOT_RECORD), "C1", AuthorRefusal.BOT),
    (
        "a bot of another company",
        Author("U1", User("T2", bot=True), ("B1",)),
        "C1",
        AuthorRefusal.BOT,
    ),
    ("a bot in an open channel", Author("U1", BOT_RECORD, ("B1",)), "C_OPEN", AuthorRefusal.BOT),
    ("a guest in an open channel", Author("U1", User("T1", guest=True)), "C_OPEN", "U1"),
    ("a stranger in an open channel", Author("U1", None), "C_OPEN", "U1"),
    ("a bot that may speak", Author("U1", BOT_RECORD, FORM), "C1", "B_FORM"),
    ("a bot that may speak by its app", Author("U1", BOT_RECORD, ("B9", "A_ALLOWED")), "C1", "B9"),
    ("a webhook that may speak", Author("B_FORM", None, FORM), "C1", "B_FORM"),
    ("a webhook that may not", Author("B1", None, ("B1",)), "C1", AuthorRefusal.BOT),
    ("our webhook that may speak", Author("B_FORM", None, FORM, "T1"), "C1", "B_FORM"),
    ("our organisation's app that may speak", Author("B_FORM", None, FORM, "E1"), "C1", "B_FORM"),
    ("our installation of an allowed app", Author("B9", None, ANY_APP, "T1"), "C1", "B9"),
    (
        "another company's installation of it",
        Author("B9", None, ANY_APP, "T2"),
        "C1",
        AuthorRefusal.OTHER_COMPANY,
    ),
    (
        "an installation without a name",
        Author("B9", None, ANY_APP),
        "C1",
        AuthorRefusal.STRANGER,
    ),
    ("another company's in an open channel", Author("B9", None, ANY_APP, "T2"), "C_OPEN", "B9"),
    (
        "another company's bot",
        Author("U1", OTHERS_BOT, ANY_APP),
        "C1",
        AuthorRefusal.OTHER_COMPANY,
    ),
    (
        "their bot, named as ours",
        Author("U1", OTHERS_BOT, ANY_APP, "T1"),
        "C1",
        AuthorRefusal.OTHER_COMPANY,
    ),
    (
        "our bot, named as theirs",
        Author("U1", BOT_RECORD, ANY_APP, "T2"),
        "C1",
        AuthorRefusal.OTHER_COMPANY,
    ),
    ("a bot that is a stranger", Author("U1", STRANGE_BOT, ANY_APP), "C1", AuthorRefusal.STRANGER),
    ("our bot of an allowed app", Author("U1", BOT_RECORD, ANY_APP, "T1"), "C1", "B9"),
    ("a person through another company's app", Author("U1", PERSON, ANY_APP, "T2"), "C1", "U1"),
]


@pytest.mark.parametrize(
    ("author", "channel", "outcome"),
    [row[1:] for row in WHO_COUNTS],
    ids=[row[0] for row in WHO_COUNTS],
)
async def test_record_of_the_author_decides_whether_they_count(
    author: Author, channel: str, outcome: AuthorRefusal | str
) -> None:
    async def find(user_id: str) -> User | None:
        return author.record

    policy = AuthorPolicy(UserDirectory(find), {"C_OPEN"}, {"B_FORM", "A_ALLOWED"}, "E1")
    checked = await policy.check(
        "T1", said(author.user, channel=channel), author.apps, author.app_team
    )
    assert (checked.sender_id if isinstance(checked, IncomingMessage) else checked) == outcome


OTHER_BOT = SandboxUser("U0PAGER", "pager", "Pager", is_bot=True)


async def test_person_who_posts_through_an_app_counts_and_a_bot_does_not(
    serve: Serve, sandbox: FaultySlack
) -> None:
    sandbox.workspace.add_user(OTHER_BOT)
    app = {"bot_id": "B0RAYCAST", "app_id": "A0RAYCAST"}
    async with serve() as gateway:
        by_person = sandbox.say(identity.REPORTER, identity.REPORTS, "it breaks", **app)
        by_bot = sandbox.say(OTHER_BOT.id, identity.REPORTS, "it breaks", **app)
        by_webhook = sandbox.say("", identity.REPORTS, "it breaks", subtype="bot_message", **app)
        await sandbox.settled()
        found = [await exists(gateway.temporal, ts) for ts in (by_person, by_bot, by_webhook)]
        counts = await gateway.process.counts()

    assert found == [True, False, False]
    assert counts["bot_message"] == 2


async def test_reaction_of_another_bot_neither_stops_nor_rates(
    serve: Serve, sandbox: FaultySlack
) -> None:
    sandbox.workspace.add_user(OTHER_BOT)
    async with serve(identity.GENERAL) as gateway:  # also in channels that are open to everybody
        root = sandbox.say(identity.REPORTER, identity.GENERAL, f"<@{identity.BOT_USER}> hi")
        await sandbox.settled()
        sandbox.workspace.react(identity.GENERAL, root, OTHER_BOT.id, "octagonal_sign")
        await sandbox.settled()
        counts = await gateway.process.counts()
        assert (counts["bot_message"], counts.get("stop", 0)) == (1, 0)
        sandbox.workspace.react(identity.GENERAL, root, identity.REPORTER, "octagonal_sign")
        await sandbox.settled()
        assert (await gateway.process.counts())["stop"] == 1


async def test_press_of_a_bot_is_refused(
    serve: Serve, sandbox: FaultySlack, slack: AsyncWebClient
) -> None:
    sandbox.workspace.add_user(OTHER_BOT)
    button = {
        "type": "button",
        "action_id": APPROVE,
        "text": {"type": "plain_text", "text": "Approve"},
    }
    blocks = [
        {"type": "actions", "elements": [button | {"value": button_value("ACT-73", "5e" * 32)}]}
    ]
    async with serve(identity.GENERAL) as gateway:
        card = await slack.chat_postMessage(
            channel=identity.GENERAL, text="I propose this.", blocks=blocks
        )
        await sandbox.settled()
        assert await sandbox.click(OTHER_BOT.id, identity.GENERAL, str(card["ts"]), APPROVE)
        assert await gateway.process.counts() == {"own_message": 1, "bot_message": 1}
        assert await sandbox.click(identity.REPORTER, identity.GENERAL, str(card["ts"]), APPROVE)
        assert await gateway.process.counts() == {
            "own_message": 1,
            "bot_message": 1,
            "button_press": 1,
        }


@pytest.mark.parametrize("user", [each.id for each in EXTERNAL])
async def test_example_of_a_help_is_asked_for_people_who_count_only(
    serve: Serve, sandbox: FaultySlack, slack: AsyncWebClient, user: str
) -> None:
    message = help_message("Press an example:", ("Which bugs are open?",))
    async with serve() as gateway:
        shown = await slack.chat_postMessage(
            channel=identity.GENERAL, text=message.text, blocks=list(message.blocks)
        )
        ts = str(shown["ts"])
        handle = gateway.temporal.get_workflow_handle(
            conversation_workflow_id(Thread(identity.TEAM, identity.GENERAL, ts))
        )
        assert await sandbox.click(user, identity.GENERAL, ts, f"{ASK_EXAMPLE}:1")
        with pytest.raises(RPCError):
            await handle.describe()
        assert await sandbox.click(identity.REPORTER, identity.GENERAL, ts, f"{ASK_EXAMPLE}:1")
        await handle.describe()


async def test_app_that_may_speak_is_answered_where_it_addresses_the_bot(
    serve: Serve, sandbox: FaultySlack
) -> None:
    sandbox.workspace.add_user(OTHER_BOT)
    form = {"bot_id": "B0FORM", "app_id": "A0FORM", "subtype": "bot_message"}
    async with serve(allowed_apps={"A0FORM"}) as gateway:
        report = sandbox.say("", identity.REPORTS, "it breaks", **form)
        call = sandbox.say("", identity.GENERAL, f"<@{identity.BOT_USER}> summarise this", **form)
        await sandbox.settled()
        sandbox.say("", identity.GENERAL, "and more", thread=call, **form)
        await sandbox.settled()
        counts = await gateway.process.counts()
        assert await exists(gateway.temporal, report)

    assert counts == {"report": 1, "conversation": 1, "bot_message": 1}


@pytest.mark.parametrize("user", ["", "U0EVESBOT"])
async def test_allowed_app_counts_by_our_own_installation_of_it_alone(
    serve: Serve, sandbox: FaultySlack, user: str
) -> None:
    channel = shared_channel(sandbox)
    sandbox.workspace.add_user(
        SandboxUser("U0EVESBOT", "zap", "zap", team=identity.PARTNER, is_bot=True)
    )
    app = {"app_id": "A0ZAPIER", "subtype": "bot_message"}
    call = f"<@{identity.BOT_USER}> list the open tickets"
    async with serve(allowed_apps={"A0ZAPIER"}) as gateway:
        theirs = sandbox.say(user, channel, call, bot_id="B0EVE", team=identity.PARTNER, **app)
        ours = sandbox.say("", channel, call, bot_id="B0OURS", **app)
        await sandbox.settled()
        counts = await gateway.process.counts()
        started = [await is_conversation(gateway.temporal, channel, ts) for ts in (theirs, ours)]

    assert started == [False, True]
    assert (counts["conversation"], counts["other_company"]) == (1, 1)


async def test_gateway_as_wired_refuses_a_guest(
    sandbox: FaultySlack, temporal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is away, which costs such a gateway only the look-up of developers' replies."""
    sandbox.workspace.add_user(GUEST)
    variables = {
        "SLACK_BOT_TOKEN": identity.BOT_TOKEN,
        "SLACK_APP_TOKEN": identity.APP_TOKEN,
        "SLACK_API_URL": sandbox.api_url,
        "THREADLINE_REPORTS_CHANNEL": identity.REPORTS,
        "THREADLINE_SUMMARIES_CHANNEL": identity.SUMMARIES,
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "TEMPORAL_ADDRESS": temporal.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": temporal.namespace,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        telemetry, "configure_logging", lambda _: None
    )  # the test process keeps its own logs
    stop = asyncio.Event()
    connected = sandbox.sockets.count
    process = asyncio.create_task(run_gateway(None, stop))
    async with asyncio.timeout(patient(30)):
        while sandbox.sockets.count == connected and not process.done():  # noqa: ASYNC110 - the other side is Slack
            await asyncio.sleep(0.02)
    refused = sandbox.workspace.post(identity.REPORTS, GUEST.id, "it breaks").ts
    taken = sandbox.workspace.post(identity.REPORTS, identity.REPORTER, "it breaks").ts
    await sandbox.settled()
    found = [await exists(temporal, ts) for ts in (refused, taken)]
    stop.set()
    await process

    assert found == [False, True]
