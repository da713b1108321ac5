"""The workspace: actions of people and the bot, each stored, then published as Slack's event."""

import itertools
import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from threadline_devstack.slack import events, identity
from threadline_devstack.slack.events import rich_text
from threadline_devstack.slack.identity import BOT_ID, BOT_USER, SLACKBOT, TEAM
from threadline_devstack.slack.kept import KeptWorkspace
from threadline_devstack.slack.model import (
    Json,
    SandboxChannel,
    SandboxFile,
    SandboxMessage,
    SandboxUser,
    SlackRefusal,
)
from threadline_devstack.slack.views import TRIGGER_SECONDS, SandboxView, Trigger, check_view

Listener = Callable[[Json], None]
STATUS_SECONDS = 120.0
"""Seconds after which Slack removes a status without a following reply."""
PEOPLE = (
    SandboxUser(identity.REPORTER, "reporter", "reporter"),
    SandboxUser(identity.DEVELOPER, "developer", "developer"),
    SandboxUser(identity.SECOND_DEVELOPER, "second-developer", "second developer"),
    SandboxUser(identity.BYSTANDER, "bystander", "bystander"),
    SandboxUser(identity.ON_CALL, "on-call", "on-call"),
)
CHANNELS = (
    (identity.REPORTS, "bug-reports", "Report a bug here; the bot answers in the thread"),
    (identity.SUMMARIES, "bug-summaries", "What the bot found; developers answer in the threads"),
    (identity.ESCALATIONS, "bug-escalations", "Cases that need a human"),
    (identity.GENERAL, "general", "Talk to the bot by mentioning it"),
)


class SlackWorkspace:
    """One team. Each method raises `SlackRefusal` with Slack's error name, or changes the state
    and calls the listeners.

    A listener gets Slack's inner event (https://docs.slack.dev/reference/events) at once and must
    not block. `clock` returns seconds since 1970. `kept` is the workspace on disk: without it, all
    data ends with the process.
    """

    def __init__(
        self, clock: Callable[[], float], base_url: str, kept: KeptWorkspace | None = None
    ) -> None:
        self.users: dict[str, SandboxUser] = kept.users() if kept else {}
        self.user_groups: dict[str, tuple[str, ...]] = {}
        """The members of each user group, by its id."""
        self.files: dict[str, SandboxFile] = kept.files(base_url) if kept else {}
        self.channels: dict[str, SandboxChannel] = kept.channels(self.files) if kept else {}
        self._kept = kept
        self.hidden_before = ""
        """A `ts`: history shows no older messages, as under a retention policy or on a plan with a
        limit; empty for no limit.
        """
        self.ephemerals: list[Json] = []
        self.listeners: list[Listener] = []
        self.uploads: dict[str, SandboxFile] = {}
        """Announced and uncompleted uploads, by the ticket in their address."""
        self.triggers: dict[str, Trigger] = {}
        self.views: dict[str, SandboxView] = {}
        """Open modals, by their ids."""
        self._statuses: dict[tuple[str, str], tuple[str, float]] = {}
        """Status text and its end, by channel and thread."""
        self.base_url = base_url
        self._clock = clock
        # Ids continue to rise after a restart, also if the clock was set back.
        numbers = [
            int(digits)
            for each in (*self.files, *self.channels)
            if (digits := each[1:]).isdecimal()
        ]
        self._serial = itertools.count(
            max([int(clock()) * 10, *(number + 1 for number in numbers)])
        )

    # People and places

    def user(self, user: str) -> SandboxUser:
        if user not in self.users:
            raise SlackRefusal("user_not_found")
        return self.users[user]

    def channel(self, channel: str) -> SandboxChannel:
        """Return the channel by id, or by name with or without `#`."""
        found = self.channels.get(channel) or next(
            (
                each
                for each in self.channels.values()
                if each.name and each.name == channel.lstrip("#")
            ),
            None,
        )
        if found is None:
            raise SlackRefusal("channel_not_found")
        return found

    def message(self, channel: str, ts: str) -> SandboxMessage:
        found = self.channel(channel).messages.get(ts)
        if found is None:
            raise SlackRefusal("message_not_found")
        return found

    def add_user(self, user: SandboxUser) -> SandboxUser:
        self.users[user.id] = user
        self._keep(users=[user])
        self._publish({"type": "team_join", "user": user.as_slack(), "event_ts": self._moment()})
        return user

    def create_channel(
        self, name: str, members: Sequence[str], channel_id: str = "", **more: Any
    ) -> SandboxChannel:
        """Create a channel.

        Args:
            name: unique in the workspace.
            members: ids of users.
            channel_id: empty for a new one.
            more: `host`, `partner` and the like of a channel that is shared by Slack Connect.
        """
        if any(channel.name == name for channel in self.channels.values()):
            raise SlackRefusal("name_taken")
        channel = SandboxChannel(
            channel_id or self._id("C"), name, int(self._clock()), list(members), **more
        )
        self.channels[channel.id] = channel
        self._keep(channels=[channel])
        self._publish(
            {"type": "channel_created", "channel": channel.as_slack(), "event_ts": self._moment()}
        )
        return channel

    def open_im(self, user: str) -> SandboxChannel:
        self.user(user)
        for channel in self.channels.values():
            if channel.is_im and user in channel.members:
                return channel
        channel = SandboxChannel(
            self._id("D"), "", int(self._clock()), [user, BOT_USER], is_im=True
        )
        self.channels[channel.id] = channel
        self._keep(channels=[channel])
        return channel

    def archive(self, channel: str) -> None:
        place = self.channel(channel)
        if place.is_archived:
            raise SlackRefusal("already_archived")
        place.is_archived = True
        self._keep(channels=[place])
        self._publish(
            {
                "type": "channel_archive",
                "channel": place.id,
                "user": SLACKBOT,
                "event_ts": self._moment(),
            }
        )

    def join(self, channel: str, user: str) -> SandboxChannel:
        place = self.open_channel(channel)
        self.user(user)
        if user not in place.members:
            place.members.append(user)
            self._keep(channels=[place])
            self._say_membership(place, user, "member_joined_channel", "channel_join", "joined")
            if user == BOT_USER and (mention := events.inviting_mention(place, self._moment())):
                self._publish(mention)
        return place

    def leave(self, channel: str, user: str) -> SandboxChannel:
        """Remove a user from a channel. A removed bot gets no further events, and `not_in_channel`
        for its calls.
        """
        place = self.channel(channel)
        if user not in place.members:
            raise SlackRefusal("not_in_channel")
        self._say_membership(place, user, "member_left_channel", "channel_leave", "left")
        place.members.remove(user)
        self._keep(channels=[place])
        return place

    def open_channel(self, channel: str) -> SandboxChannel:
        """Return the channel; refuse an archived one."""
        place = self.channel(channel)
        if place.is_archived:
            raise SlackRefusal("is_archived")
        return place

    # Messages

    def post(
        self,
        channel: str,
        user: str,
        text: str,
        *,
        thread_ts: str = "",
        files: Sequence[str] = (),
        **more: Any,
    ) -> SandboxMessage:
        """Post a message by `user`, who need not be a member (the page shows every channel to
        every person).

        Args:
            channel: id or name.
            user: its author's id; empty for a webhook, which has only a `bot_id`.
            text: in Slack's stored form: `<@U…>` for mentions, `& < >` escaped.
            thread_ts: the root to answer.
            files: ids of uploaded files.
            more: `broadcast` (bool), and blocks, attachments, metadata, bot_id, app_id, username,
                subtype of the message, and of a webhook the `team` that installed it. A person who
                posts through an app has their own id and the app's `bot_id`.
        """
        place = self.open_channel(channel)
        installed = str(more.pop("team", TEAM))
        home = self.user(user).team if user else installed
        broadcast = bool(more.pop("broadcast", False)) and bool(thread_ts)
        root = self._root(place, thread_ts) if thread_ts else None
        attached = [self.file(file) for file in files]
        ts = self._next_ts(place)
        message = SandboxMessage(
            place.id,
            ts,
            user,
            text,
            thread_ts=root.ts if root else "",
            root=root,
            files=attached,
            **more,
        )
        message.team = home
        message.names_author_team = place.is_shared and place.names_author_team
        if not message.subtype and files:
            message.subtype = "file_share"
        elif not message.subtype and broadcast:
            message.subtype = "thread_broadcast"
        if not message.bot_id and message.subtype in ("", "file_share", "thread_broadcast"):
            message.client_msg_id = self._id("msg-")
            message.blocks = message.blocks or rich_text(text, self._id("rt"))
        for file in attached:
            file.shares.setdefault(place.id, []).append(ts)
        place.messages[ts] = message
        if root is not None:
            root.replies.append(message)
        self._keep(channels=[place], messages=[message], files=attached)
        self._publish(events.posted(place, message))
        if root is not None and message.user == BOT_USER and self.status(place.id, root.ts):
            self.show_status(place.id, root.ts, "")
        return message

    def share(
        self,
        channel: str,
        user: str,
        source: SandboxMessage,
        comment: str = "",
        *,
        thread_ts: str = "",
        **more: Any,
    ) -> SandboxMessage:
        """Forward a message as `user`, with or without a comment. `more`: as for `post`."""
        place = self.channel(source.channel)
        attachment = events.shared(source, place, self.user(source.user), self.base_url)
        return self.post(
            channel, user, comment, thread_ts=thread_ts, attachments=[attachment], **more
        )

    def show_status(self, channel: str, thread_ts: str, words: str) -> None:
        """Show the bot's status in a thread; its next reply there removes it.

        https://docs.slack.dev/reference/methods/assistant.threads.setStatus. Slack sends no event;
        the page gets one.
        """
        self._statuses[channel, thread_ts] = (words, self._clock() + STATUS_SECONDS)
        self._publish(self._shown_status(channel, thread_ts))

    def statuses(self) -> list[Json]:
        """Return the statuses that are visible now."""
        return [self._shown_status(*place) for place in self._statuses if self.status(*place)]

    def edit(
        self, channel: str, ts: str, text: str, *, by: str = "", **more: Any
    ) -> SandboxMessage:
        """Change a message; `by` is the acting user, who must be its author (default: the author).

        An edit by a person shows `edited` and new blocks; `more` replaces blocks, attachments or
        metadata.
        """
        message = self._own(channel, ts, by, "cant_update_message")
        before = replace(message)
        message.text = text
        message.edited_ts = self._next_ts(self.channel(channel))
        if not message.bot_id:
            message.blocks = rich_text(text, self._id("rt"))
        for name, value in more.items():
            setattr(message, name, value)
        self._keep(channels=[self.channel(channel)], messages=[message])
        self._publish_change(message, before)
        return message

    def unfurl(self, channel: str, ts: str, attachments: list[Json]) -> SandboxMessage:
        """Add previews, as Slack itself does: `message_changed` fires, while the text stays and
        `edited` does not appear.
        """
        message = self.message(channel, ts)
        before = replace(message)
        message.attachments = attachments
        self._keep(messages=[message])
        self._publish_change(message, before)
        return message

    def delete(self, channel: str, ts: str, *, by: str = "") -> None:
        """Delete a message. A root with replies stays as a tombstone, and `message_changed` fires
        instead of `message_deleted`.
        """
        message = self._own(channel, ts, by, "cant_delete_message")
        place = self.channel(channel)
        before = replace(message)
        if message.replies:
            message.text = "This message was deleted."
            message.user = SLACKBOT
            message.subtype = "tombstone"
            message.bot_id = message.username = message.edited_ts = ""
            message.blocks = []
            message.files = []
            message.attachments = []
            message.metadata = None
            message.reactions = {}
            self._keep(messages=[message])
            self._publish_change(message, before)
            return
        del place.messages[ts]
        if message.root is not None:
            message.root.replies.remove(message)
        moment = self._next_ts(place)
        self._keep(channels=[place], deleted=[before])
        self._publish(events.deleted(place, before, moment))

    def forget(self, channel: str, *, before: str = "") -> None:
        """Drop a channel's messages, as by a retention policy: without an event, and without a
        tombstone.

        Args:
            channel: id or name.
            before: only messages older than this `ts`; all of them when empty.
        """
        place = self.channel(channel)
        gone = {ts for ts in place.messages if not before or float(ts) < float(before)}
        self._keep(deleted=[place.messages[ts] for ts in gone])
        for message in place.messages.values():
            message.replies = [reply for reply in message.replies if reply.ts not in gone]
        place.messages = {ts: message for ts, message in place.messages.items() if ts not in gone}

    def in_history(self, message: SandboxMessage) -> bool:
        """Return whether Slack's history shows the message now."""
        return not self.hidden_before or float(message.ts) >= float(self.hidden_before)

    def post_ephemeral(
        self, channel: str, to: str, text: str, blocks: list[Json], thread_ts: str = ""
    ) -> str:
        """Post a message that only `to` sees: no history has it, and the app gets no event. Return
        its `ts`.
        """
        place = self.open_channel(channel)
        if to not in place.members:
            raise SlackRefusal("user_not_in_channel")
        ts = self._next_ts(place)
        shown = SandboxMessage(
            place.id, ts, BOT_USER, text, bot_id=BOT_ID, blocks=blocks
        ).as_slack()
        event = shown | {
            "channel": place.id,
            "is_ephemeral": True,
            "ephemeral_to": to,
            "event_ts": ts,
        }
        event |= {"thread_ts": thread_ts} if thread_ts else {}
        self.ephemerals.append(event)
        self._publish(event)
        return ts

    # Reactions and files

    def react(self, channel: str, ts: str, user: str, name: str) -> str:
        """Add a reaction. Return the time in its event."""
        message = self.message(channel, ts)
        if user in message.reactions.get(name, ()):
            raise SlackRefusal("already_reacted")
        message.reactions.setdefault(name, []).append(user)
        moment = self._next_ts(self.channel(channel))
        self._keep(channels=[self.channel(channel)], messages=[message])
        self._publish(events.reaction("reaction_added", message, user, name, moment))
        return moment

    def unreact(self, channel: str, ts: str, user: str, name: str) -> None:
        message = self.message(channel, ts)
        if user not in message.reactions.get(name, ()):
            raise SlackRefusal("no_reaction")
        message.reactions[name].remove(user)
        if not message.reactions[name]:
            del message.reactions[name]
        moment = self._next_ts(self.channel(channel))
        self._keep(channels=[self.channel(channel)], messages=[message])
        self._publish(events.reaction("reaction_removed", message, user, name, moment))

    def file(self, file: str) -> SandboxFile:
        if file not in self.files:
            raise SlackRefusal("file_not_found")
        if self.files[file].deleted:
            raise SlackRefusal("file_deleted")
        return self.files[file]

    def add_file(self, name: str, user: str, content: bytes, mimetype: str = "") -> SandboxFile:
        """Add a file that no channel shows yet; path parts of `name` are removed."""
        plain = name.replace("\\", "/").rpartition("/")[2] or "file"
        kind = mimetype or mimetypes.guess_type(plain)[0] or "application/octet-stream"
        file = SandboxFile(
            self._id("F"), plain, user, content, kind, int(self._clock()), self.base_url
        )
        self.files[file.id] = file
        self._keep(files=[file])
        return file

    def complete_file(self, file: SandboxFile, title: str) -> None:
        """Complete an announced upload."""
        file.title = title
        self._keep(files=[file])

    def delete_file(self, file: SandboxFile) -> None:
        """Delete a file: its bytes are gone, and each message that shows it shows a tombstone in
        its place.
        """
        shown = [
            self.channels[channel].messages.get(ts)
            for channel, each in file.shares.items()
            for ts in each
        ]
        messages = [message for message in shown if message is not None]
        before = [
            replace(message, files=[replace(each) for each in message.files])
            for message in messages
        ]
        file.deleted = True
        file.content = b""
        self._keep(messages=messages, files=[file])
        for message, old in zip(messages, before, strict=True):
            self._publish_change(message, old)

    # Modals

    def add_trigger(self, trigger_id: str, user: str) -> str:
        """Record a press, with whose trigger the app may open a modal within three seconds."""
        self.triggers[trigger_id] = Trigger(user, self._clock() + TRIGGER_SECONDS)
        return trigger_id

    def open_view(self, trigger_id: str, view: Any) -> SandboxView:
        trigger = self.triggers.get(trigger_id)
        if trigger is None:
            raise SlackRefusal("invalid_trigger_id")
        if trigger.used:
            raise SlackRefusal("exchanged_trigger_id")
        if self._clock() > trigger.expires:
            raise SlackRefusal("expired_trigger_id")
        shown = SandboxView(self._id("V"), trigger.user, check_view(view), self._moment())
        trigger.used = True
        self.views[shown.id] = shown
        self._publish_view("view_opened", shown)
        return shown

    def view_of(self, user: str) -> SandboxView | None:
        """Return the modal that a person sees: the one that was opened last."""
        return next((view for view in reversed(self.views.values()) if view.user == user), None)

    def close_view(self, view_id: str, user: str) -> SandboxView:
        """Close a modal that a person sends or leaves."""
        view = self.views.get(view_id)
        if view is None or view.user != user:
            raise SlackRefusal("not_found")
        del self.views[view_id]
        self._publish_view("view_closed", view)
        return view

    # Inside

    def _publish_view(self, kind: str, view: SandboxView) -> None:
        """Publish an event for the page; Slack sends none to apps."""
        self._publish(
            {"type": kind, "user": view.user, "view": view.as_slack(), "event_ts": self._moment()}
        )

    def status(self, channel: str, thread_ts: str) -> str:
        """Return the status that is visible under a thread now; empty for none."""
        words, until = self._statuses.get((channel, thread_ts), ("", 0.0))
        return words if self._clock() < until else ""

    def _shown_status(self, channel: str, thread_ts: str) -> Json:
        shown = {
            "channel": channel,
            "thread_ts": thread_ts,
            "status": self.status(channel, thread_ts),
        }
        return {
            "type": "status",
            **shown,
            "seconds": STATUS_SECONDS,
            "event_ts": f"{self._clock():.6f}",
        }

    def _keep(self, **changed: Any) -> None:
        """Write an action's changes to disk (see `KeptWorkspace.save`), before their event is
        published.
        """
        if self._kept:
            self._kept.save(**changed)

    def _publish(self, event: Json) -> None:
        for listener in self.listeners:
            listener(event)

    def _publish_change(self, message: SandboxMessage, before: SandboxMessage) -> None:
        place = self.channels[message.channel]
        self._publish(
            events.changed(place, message, before, message.edited_ts or self._next_ts(place))
        )

    def _say_membership(
        self, place: SandboxChannel, user: str, event: str, subtype: str, verb: str
    ) -> None:
        self._publish(events.membership(event, place, user, self._moment()))
        self.post(place.id, user, f"<@{user}> has {verb} the channel", subtype=subtype)

    def _own(self, channel: str, ts: str, by: str, refusal: str) -> SandboxMessage:
        message = self.message(channel, ts)
        if by and by != message.user:
            raise SlackRefusal(refusal)
        return message

    def _root(self, place: SandboxChannel, ts: str) -> SandboxMessage:
        root = place.messages.get(ts)
        if root is None:
            raise SlackRefusal("thread_not_found")
        if root.thread_ts:
            raise SlackRefusal("cannot_reply_to_message")
        return root

    def _next_ts(self, place: SandboxChannel) -> str:
        place.last_tick = max(int(self._clock() * 1_000_000), place.last_tick + 1)
        return f"{place.last_tick // 1_000_000}.{place.last_tick % 1_000_000:06d}"

    def _moment(self) -> str:
        return f"{self._clock():.6f}"

    def _id(self, prefix: str) -> str:
        return f"{prefix}{next(self._serial)}"


def populate(workspace: SlackWorkspace) -> None:
    """Add the bot, the people and their channels if missing, before there are listeners."""
    bot = SandboxUser(BOT_USER, identity.BOT_NAME, "Threadline", is_bot=True)
    slackbot = SandboxUser(SLACKBOT, "slackbot", "Slackbot", is_bot=True)
    for user in (bot, slackbot, *PEOPLE):
        if user.id not in workspace.users:
            workspace.add_user(user)
    members = [BOT_USER, *(person.id for person in PEOPLE)]
    for channel_id, name, topic in CHANNELS:
        if channel_id not in workspace.channels:
            workspace.create_channel(name, members, channel_id, topic=topic)
