"""`conversations.*`; https://docs.slack.dev/reference/methods."""

from collections.abc import Mapping, Sequence

from threadline_devstack.slack.arguments import Arguments
from threadline_devstack.slack.identity import BOT_USER
from threadline_devstack.slack.model import Channel, Json, Message
from threadline_devstack.slack.paging import page
from threadline_devstack.slack.refusal import Refused
from threadline_devstack.slack.web_api import Method
from threadline_devstack.slack.workspace import Workspace


class ConversationMethods:
    """What the bot may read of channels and threads."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def table(self) -> Mapping[str, Method]:
        return {
            "conversations.history": self.history,
            "conversations.replies": self.replies,
            "conversations.info": self.info,
            "conversations.list": self.list_all,
            "users.conversations": self.list_mine,
            "conversations.members": self.members,
            "conversations.join": self.join,
            "conversations.open": self.open_im,
        }

    def history(self, given: Arguments) -> Json:
        """Newest first: roots, and replies that were also sent to the channel."""
        place = self._readable(given)
        messages = [message for message in reversed(place.messages.values()) if message.in_history]
        within = _within(messages, given)
        return _page_of(within, given, limit=100) | {"pin_count": 0}

    def replies(self, given: Arguments) -> Json:
        """Oldest first, the root before all, also when it is older than `oldest`; a reply's own `ts` gives it alone."""
        place = self._readable(given)
        root = place.messages.get(given.text("ts"))
        if root is None:
            raise Refused("thread_not_found")
        return _page_of([root, *_within(root.replies, given)], given, limit=1000)

    def info(self, given: Arguments) -> Json:
        return {"channel": self._workspace.channel(given.text("channel")).as_slack()}

    def list_mine(self, given: Arguments) -> Json:
        """Those that the bot is in."""
        return _listed([place for place in self._workspace.channels.values() if BOT_USER in place.members], given)

    def list_all(self, given: Arguments) -> Json:
        return _listed(list(self._workspace.channels.values()), given)

    def members(self, given: Arguments) -> Json:
        people = self._workspace.channel(given.text("channel")).members
        shown, cursor = page(given, people, people, limit=100, most=1000)
        return {"members": shown, "response_metadata": {"next_cursor": cursor}}

    def join(self, given: Arguments) -> Json:
        return {"channel": self._workspace.join(given.text("channel"), BOT_USER).as_slack()}

    def open_im(self, given: Arguments) -> Json:
        users = given.listed("users")
        if len(users) != 1:
            raise Refused("not_enough_users" if not users else "too_many_users")
        place = self._workspace.open_im(users[0])
        return {"channel": place.as_slack() if given.flag("return_im") else {"id": place.id}}

    def _readable(self, given: Arguments) -> Channel:
        place = self._workspace.channel(given.text("channel"))
        if BOT_USER not in place.members:
            raise Refused("not_in_channel")
        return place


def _listed(places: Sequence[Channel], given: Arguments) -> Json:
    kinds = given.listed("types") or ["public_channel"]
    asked = [
        place
        for place in places
        if ("im" if place.is_im else "public_channel") in kinds
        and not (given.flag("exclude_archived") and place.is_archived)
    ]
    shown, cursor = page(given, asked, [place.id for place in asked], limit=100, most=1000)
    return {"channels": [place.as_slack() for place in shown], "response_metadata": {"next_cursor": cursor}}


def _within(messages: Sequence[Message], given: Arguments) -> list[Message]:
    """Those between `oldest` and `latest`; the bounds themselves only with `inclusive`."""
    oldest, latest = _tick(given.text("oldest")), _tick(given.text("latest"))
    widen = 1 if given.flag("inclusive") else 0
    return [
        message
        for message in messages
        if (oldest is None or _ticks(message.ts) > oldest - widen)
        and (latest is None or _ticks(message.ts) < latest + widen)
    ]


def _page_of(messages: Sequence[Message], given: Arguments, *, limit: int) -> Json:
    metadata = given.flag("include_all_metadata")
    shown, cursor = page(given, messages, [message.ts for message in messages], limit=limit, most=1000)
    answer: Json = {
        "messages": [message.as_slack(include_metadata=metadata) for message in shown],
        "has_more": bool(cursor),
    }
    return answer | ({"response_metadata": {"next_cursor": cursor}} if cursor else {})


def _tick(bound: str) -> int | None:
    if not bound:
        return None
    try:
        return _ticks(bound)
    except ValueError:
        raise Refused("invalid_ts_oldest") from None


def _ticks(ts: str) -> int:
    """Microseconds: a float would lose the last digit of a timestamp."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * 1_000_000 + int(f"{fraction:0<6}"[:6] or 0)
