"""AuthorPolicy: decides whose messages count. Messages of other companies' people, strangers and
guests count only in open channels.
"""

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
"""Seconds that an event waits for Slack's record of a user. The request goes on afterwards, and
the next delivery finds its result.
"""
_MAX_LOOKUPS = 5
"""Concurrent user lookups in Slack."""

MAX_PRIOR_MESSAGES = 50
"""Messages from before the bot was called: the root and the last ones."""
_MAX_NAMED = 20
"""Users of one message whose mentions are replaced by names."""
_MAX_READ = 2_000
"""Messages of a thread that are read when the bot is called late in it."""
_SPOKEN = frozenset({"", "bot_message", "file_share", "thread_broadcast", "me_message"})
"""Subtypes of messages that an author wrote."""

_log = structlog.get_logger(__name__)


class AuthorPolicy:
    """One rule for messages, reactions, button presses and a thread's history, by Slack's record
    of the author.

    A bot is a user that `users.info` calls one (`is_bot`). A person may post through an app, which
    the event then names. Bots do not count, unless they are allowed apps.

    Args:
        users: Slack's records of users.
        open_channels: channels in which external people count like others.
        allowed_apps: ids of bots and apps whose messages count where our own workspace has
            installed them. Their reactions and presses do not. An app's id is the same in every
            workspace; a bot's is not.
        organisation: the Enterprise Grid of our workspace, which may have installed an app for all
            of its workspaces.
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
        """Return an event's message as it counts, or the reason for its refusal.

        A deletion always passes, since it only removes something. The sender of an allowed app's
        message is the first of `apps`, not a user: it has the rights of an external person.
        `root_author_id` is cleared when an app wrote the root, such as one that posts alerts,
        because people who write there do not talk to it. While Slack does not identify the root's
        author, it counts as a person.

        Args:
            apps: the ids of the bot and the app through which the message was posted.
            app_team: the workspace whose installation of the app posted it.

        Raises:
            Permanent: Slack did not identify the author; a guess accepts or refuses no author.
            Transient: the same, and the lookup may succeed later.
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
        """Return the reason why a user's event does not count in a channel; None where it counts.
        Raises as `check`.
        """
        return self._refusal_of(await self._get_in_time(user_id), team, channel)

    async def is_bot(self, user_id: str) -> bool:
        """Return whether a user is a bot. Raises as `check`."""
        user = await self._get_in_time(user_id)
        return user is not None and user.bot

    async def allows(self, thread: Thread, user_id: str) -> bool:
        """Return whether a user's content in a thread counts, waiting for Slack as long as a
        request takes.

        Raises:
            Permanent: Slack did not identify the user.
            Transient: the same, and the lookup may succeed later.
        """
        if not user_id:
            return True
        return (
            self._refusal_of(await self._users.get(user_id), thread.team, thread.channel) is None
        )

    async def words_to_relay(self, text: str) -> str:
        """Return a person's text as Markdown for another thread, with mentions of users replaced
        by names.
        """
        users = {
            each: await self._users.get_known(each)
            for each in sorted(mentions_in(text))[:_MAX_NAMED]
        }
        names = {each: display_name(user, each) for each, user in users.items()}
        return to_markdown(plain_tokens(text, names))

    async def filter_messages(
        self, thread: Thread, messages: Sequence[RawMessage]
    ) -> tuple[list[RawMessage], dict[str, User | None]]:
        """Return the messages of a thread's history that count, and the users who wrote in it, by
        id. A user whom Slack does not identify is None, and counts only in open channels.
        """
        ids = list(dict.fromkeys(user_id for each in messages if (user_id := _user_id(each))))
        users = dict(zip(ids, await asyncio.gather(*map(self._find, ids)), strict=True))
        return [each for each in messages if self._counts(thread, each, users)], users

    def _refusal_of(self, user: User | None, team: str, channel: str) -> AuthorRefusal | None:
        if user is not None and user.bot:
            return AuthorRefusal.BOT
        return None if channel in self._open_channels else refusal_of(user, team)

    def _refusal_of_app(
        self, team: str, apps: Sequence[str], app_team: str, *, named: bool
    ) -> AuthorRefusal | None:
        """Return the reason why an allowed app does not count; None where it counts. `named`:
        Slack's record of its user names the workspace. Where neither that record nor the message
        names one, the app's bot must be allowed by its own id.
        """
        if app_team not in ("", team, self._organisation):
            return AuthorRefusal.OTHER_COMPANY
        is_known = (
            named
            or app_team
            or any(each[:1] == "B" and each in self._allowed_apps for each in apps)
        )
        return None if is_known else AuthorRefusal.STRANGER

    async def _get_in_time(self, user_id: str) -> User | None:
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT):
                return await self._users.get(user_id)
        except TimeoutError as exc:
            raise Transient(
                f"Slack did not identify {user_id} in time, so it will deliver the event again."
            ) from exc

    async def _find(self, user_id: str) -> User | None:
        async with self._lookups:
            try:
                return await self._users.get(user_id)
            except (Permanent, Transient) as error:
                _log.info("user_lookup_failed", user=user_id, reason=str(error))
                return None

    def _counts(
        self, thread: Thread, message: RawMessage, users: Mapping[str, User | None]
    ) -> bool:
        """Return whether the author is an app of this workspace or a full member. Messages of apps
        that are not allowed to call the bot are read as well.
        """
        if thread.channel in self._open_channels:
            return True
        if user_id := _user_id(message):
            return refusal_of(users[user_id], thread.team) is None
        # Messages of some apps name no workspace.
        return app_team_of(message) in ("", thread.team, self._organisation)


def _by_app(message: IncomingMessage, app: str) -> IncomingMessage:
    """Return the message with an allowed app as its sender. Its attachments become its text where
    it has no other.
    """
    if message.text.strip():
        return replace(message, sender_id=app)
    return replace(message, sender_id=app, text=without_headings(message.forwarded), forwarded="")


async def messages_before(
    history: History, authors: AuthorPolicy, thread: Thread, before: float
) -> tuple[list[RawMessage], dict[str, User | None]]:
    """Return the messages that count from before a moment, oldest first, and the users who wrote
    in the thread: the root, which Slack's history always lists first, and the last messages.

    Args:
        before: in seconds since 1970.

    Raises:
        Permanent: Slack did not show the thread.
        Transient: the same, and it may show it later.
    """
    root = list[RawMessage]()
    last = deque[RawMessage](maxlen=MAX_PRIOR_MESSAGES - 1)
    read = 0
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
