"""Whose messages count: people of other companies, strangers and guests do so only in channels that are open to all."""

import asyncio
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

import structlog

from threadline.errors import Permanent, Transient
from threadline.slack.history import History, RawMessage
from threadline.slack.model import AuthorRefusal, Thread, User, refusal_of
from threadline.slack.mrkdwn import to_markdown
from threadline.slack.names import plain_tokens
from threadline.slack.text import app_team_of, mentions_in, without_headings
from threadline.slack.users import UserDirectory, display_name
from threadline.threads.model import IncomingMessage, MessageKind

LOOKUP_TIMEOUT = 1.0
"""Seconds that an event waits for Slack's answer. The request goes on, and the next delivery finds its answer."""
_MAX_LOOKUPS = 5
"""Users about whom Slack is asked at the same time."""

MAX_PRIOR_MESSAGES = 50
"""Messages from before the bot was called: the root and the last ones."""
_MAX_NAMED = 20
"""Users of one message whose mentions become names."""
_MAX_READ = 2_000
"""Messages that are read of a thread in which the bot was called that late."""
_SPOKEN = frozenset({"", "bot_message", "file_share", "thread_broadcast", "me_message"})
"""The subtypes in which somebody says something."""

_log = structlog.get_logger(__name__)


class AuthorPolicy:
    """One rule for messages, reactions, presses of buttons and a thread's history, by Slack's record of the author.

    A bot is whoever `users.info` calls one (`is_bot`). A person may post through an app, which the event then names.
    Bots do not count, unless they are allowed to speak.

    Args:
        users: Slack's records.
        open_channels: channels in which external people count like others.
        allowed_apps: ids of bots and apps whose messages count where our own workspace has installed them. Their
            reactions and presses do not. An app's id is the same in every workspace; a bot's is not.
        organisation: the Enterprise Grid of our workspace, which may have installed an app for all of its workspaces.
    """

    def __init__(
        self,
        users: UserDirectory,
        open_channels: Collection[str] = (),
        allowed_apps: Collection[str] = (),
        organisation: str = "",
    ) -> None:
        self._users = users
        self._open_channels = frozenset(open_channels)
        self._allowed_apps = frozenset(allowed_apps)
        self._organisation = organisation
        self._lookups = asyncio.Semaphore(_MAX_LOOKUPS)

    async def check(
        self, team: str, message: IncomingMessage, apps: Sequence[str] = (), app_team: str = ""
    ) -> IncomingMessage | AuthorRefusal:
        """The message of an event as it counts, or why it does not. A deletion passes, since it only takes something
        away. `apps`: the ids of the bot and the app through which the message was posted, and `app_team` the workspace
        whose installation of it that was. An app that may speak is the sender by the first of them, not by a user: it
        has no more rights than somebody from outside.

        The author of the thread's root is left out of it when that is an app, such as one that posts alerts: people who
        write there do not talk to it. While Slack does not say what wrote the root, it counts as a person. Raises
        `Permanent` or `Transient` when Slack did not say who the author is: nobody is accepted or refused by a guess.
        """
        if message.kind == MessageKind.DELETION:
            return message
        by_app = message.sender_id in apps
        user = None if by_app else await self._get_in_time(message.sender_id)
        refused = AuthorRefusal.BOT if by_app else self._refusal_of(user, team, message.channel)
        speaks = refused is AuthorRefusal.BOT and not self._allowed_apps.isdisjoint(apps)
        if speaks and message.channel in self._open_channels:
            refused = None
        elif speaks:
            refused = refusal_of(user, team) if user else None
            refused = refused or self._refusal_of_app(team, apps, app_team, named=user is not None)
        if refused:
            return refused
        message = _by_app(message, apps[0]) if speaks else message
        if message.root_author_id in ("", message.sender_id):
            return message
        try:
            root_author = await self._get_in_time(message.root_author_id)
        except (Permanent, Transient):
            return message
        return replace(message, root_author_id="") if root_author and root_author.bot else message

    async def refusal(self, team: str, channel: str, user_id: str) -> AuthorRefusal | None:
        """Why an event of this user does not count in a channel; None where it does. Raises as `check`."""
        return self._refusal_of(await self._get_in_time(user_id), team, channel)

    async def is_bot(self, user_id: str) -> bool:
        """Whether a user is a bot. Raises as `check`."""
        user = await self._get_in_time(user_id)
        return user is not None and user.bot

    async def allows(self, thread: Thread, user_id: str) -> bool:
        """Whether what somebody brings into a thread counts; it waits for Slack as long as a request takes. Raises
        `Permanent` or `Transient` when Slack did not say who they are."""
        if not user_id:
            return True
        return self._refusal_of(await self._users.get(user_id), thread.team, thread.channel) is None

    async def words_to_relay(self, text: str) -> str:
        """A person's words as Markdown for another thread, in which the users whom they mention are names."""
        users = {each: await self._users.get_known(each) for each in sorted(mentions_in(text))[:_MAX_NAMED]}
        names = {each: display_name(user, each) for each, user in users.items()}
        return to_markdown(plain_tokens(text, names))

    async def filter_messages(
        self, thread: Thread, messages: Sequence[RawMessage]
    ) -> tuple[list[RawMessage], dict[str, User | None]]:
        """Those messages of a thread's history that count, and the users who wrote in it, by their ids. A user about
        whom Slack does not answer is None, and does not count outside of the open channels."""
        ids = list(dict.fromkeys(user_id for each in messages if (user_id := _user_id(each))))
        users = dict(zip(ids, await asyncio.gather(*map(self._find, ids)), strict=True))
        return [each for each in messages if self._counts(thread, each, users)], users

    def _refusal_of(self, user: User | None, team: str, channel: str) -> AuthorRefusal | None:
        if user is not None and user.bot:
            return AuthorRefusal.BOT
        return None if channel in self._open_channels else refusal_of(user, team)

    def _refusal_of_app(self, team: str, apps: Sequence[str], app_team: str, *, named: bool) -> AuthorRefusal | None:
        """Why an allowed app does not count. `named`: Slack's record of its user names the workspace. Otherwise, where
        its message names none, its bot is to be allowed by its own id."""
        if app_team not in ("", team, self._organisation):
            return AuthorRefusal.OTHER_COMPANY
        is_known = named or app_team or any(each[:1] == "B" and each in self._allowed_apps for each in apps)
        return None if is_known else AuthorRefusal.STRANGER

    async def _get_in_time(self, user_id: str) -> User | None:
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT):
                return await self._users.get(user_id)
        except TimeoutError as exc:
            raise Transient(f"Slack did not identify {user_id} in time, so it will deliver the event again.") from exc

    async def _find(self, user_id: str) -> User | None:
        async with self._lookups:
            try:
                return await self._users.get(user_id)
            except (Permanent, Transient) as error:
                _log.info("user_lookup_failed", user=user_id, reason=str(error))
                return None

    def _counts(self, thread: Thread, message: RawMessage, users: Mapping[str, User | None]) -> bool:
        """Whether it is by an app of this workspace, or by a full member. What an app says is read, though it may not
        speak to the bot."""
        if thread.channel in self._open_channels:
            return True
        if user_id := _user_id(message):
            return refusal_of(users[user_id], thread.team) is None
        return app_team_of(message) in ("", thread.team, self._organisation)  # of some apps the message does not say it


def _by_app(message: IncomingMessage, app: str) -> IncomingMessage:
    """The message of an app that may speak: what it attached are its own words where it wrote no others."""
    if message.text.strip():
        return replace(message, sender_id=app)
    return replace(message, sender_id=app, text=without_headings(message.forwarded), forwarded="")


async def messages_before(
    history: History, authors: AuthorPolicy, thread: Thread, before: float
) -> tuple[list[RawMessage], dict[str, User | None]]:
    """What counts of what was said in a thread before a moment (seconds since 1970), and who wrote in it: the root,
    which Slack's history always has first, and the last messages, oldest first. Raises `Permanent` or `Transient` when
    Slack did not show the thread."""
    root, last, read = list[RawMessage](), deque[RawMessage](maxlen=MAX_PRIOR_MESSAGES - 1), 0
    async with aclosing(history.thread_messages(thread.channel, thread.ts, "0")) as messages:
        async for message in messages:
            read += 1
            if float(message["ts"]) >= before or read > _MAX_READ:
                break
            if str(message.get("subtype") or "") in _SPOKEN:
                (last if root else root).append(message)
    return await authors.filter_messages(thread, [*root, *last])


def _user_id(message: RawMessage) -> str:
    return str(message.get("user") or "")
