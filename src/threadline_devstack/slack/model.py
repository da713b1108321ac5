"""The objects of the workspace, with their JSON in Slack: users, channels, messages, files, and
refusals.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from html import escape
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from threadline.errors import Permanent
from threadline_devstack.slack.identity import (
    APP_ID,
    BOT_ID,
    BOT_NAME,
    BOT_USER,
    ENTERPRISE,
    SLACKBOT,
    TEAM,
)

Json = dict[str, Any]
CANVAS = "application/vnd.slack-docs"
_LARGEST_SNIPPET = 1_000_000
_PREVIEW_LINES = 5
_PREVIEW_LENGTH = 500


class SlackRefusal(Permanent):
    """An error of Slack. `error` is Slack's name, such as `channel_not_found`; `details` are more
    fields of the answer.

    The names are those of each method's page under https://docs.slack.dev/reference/methods.
    """

    def __init__(self, error: str, **details: Any) -> None:
        super().__init__(
            f"Slack would refuse this with {error!r}; see docs.slack.dev/reference/methods "
            "for what it wants"
        )
        self.error = error
        self.details = details


@dataclass
class SandboxUser:
    id: str
    name: str
    real_name: str
    is_bot: bool = False
    deleted: bool = False
    is_restricted: bool = False
    is_ultra_restricted: bool = False
    is_stranger: bool = False
    team: str = TEAM
    time_zone: str = "Etc/UTC"
    enterprise_teams: tuple[str, ...] = ()
    """In an Enterprise Grid: the workspaces to which the user belongs."""

    def as_slack(self) -> Json:
        ahead = datetime.now(ZoneInfo(self.time_zone)).utcoffset() or timedelta()
        return {
            "id": self.id,
            "team_id": self.team,
            "name": self.name,
            "real_name": self.real_name,
            "deleted": self.deleted,
            "is_bot": self.is_bot,
            "is_app_user": False,
            "is_admin": False,
            "is_owner": False,
            "is_restricted": self.is_restricted,
            "is_ultra_restricted": self.is_ultra_restricted,
            **({"is_stranger": True} if self.is_stranger else {}),
            **({"enterprise_user": self._enterprise_user()} if self.enterprise_teams else {}),
            "tz": self.time_zone,
            "tz_offset": round(ahead.total_seconds()),
            "profile": {
                "real_name": self.real_name,
                "display_name": self.real_name,
                "email": f"{self.name}@sandbox.invalid",
                **({"bot_id": BOT_ID, "api_app_id": APP_ID} if self.id == BOT_USER else {}),
            },
        }

    def _enterprise_user(self) -> Json:
        """Return the user's place in an Enterprise Grid; see
        https://docs.slack.dev/reference/objects/user-object.
        """
        names = {"id": self.id, "enterprise_id": ENTERPRISE, "enterprise_name": "Sandbox Grid"}
        return names | {"is_admin": False, "is_owner": False, "teams": list(self.enterprise_teams)}


@dataclass
class SandboxFile:
    id: str
    name: str
    user: str
    content: bytes
    mimetype: str
    created: int
    base_url: str
    title: str = ""
    shares: dict[str, list[str]] = field(default_factory=dict)
    """The `ts` of the messages that show it, by their channel."""
    announced: int | None = None
    """The size in the file's JSON; None for the real one."""
    external_url: str = ""
    """The address of a file that a person has only linked to, such as a document of another
    provider.
    """
    deleted: bool = False
    """Messages continue to show that there was a file."""
    is_checked: bool = False
    """Messages contain only its id, as in channels that companies share."""

    @property
    def is_canvas(self) -> bool:
        return self.mimetype == CANVAS

    def in_message(self) -> Json:
        """Return the file as messages show it."""
        if self.is_checked and not self.deleted:
            told: Json = {
                "id": self.id,
                "created": 0,
                "timestamp": 0,
                "user": self.user,
                "mode": "file_access",
            }
            return told | {"file_access": "check_file_info"}
        return self.as_slack()

    def as_slack(self) -> Json:
        """Return the file as `files.info` shows it; see
        https://docs.slack.dev/reference/objects/file-object.
        """
        if self.deleted:
            return {"id": self.id, "mode": "tombstone"}
        direct, open_to_all = _parted(self.shares)
        path = f"{self.base_url}/files-pri/{TEAM}-{self.id}"
        name = quote(self.name)
        return {
            "id": self.id,
            "name": self.name,
            "title": self.title or self.name,
            "mimetype": self.mimetype,
            "filetype": self._filetype(),
            "user": self.user,
            "user_team": TEAM,
            "created": self.created,
            "timestamp": self.created,
            "size": len(self.content) if self.announced is None else self.announced,
            "mode": self._mode(),
            "is_external": bool(self.external_url),
            "is_public": bool(open_to_all),
            "channels": sorted(open_to_all),
            "groups": [],
            "ims": sorted(direct),
            "shares": {
                kind: shown
                for kind, shown in (("public", open_to_all), ("private", direct))
                if shown
            },
            "url_private": self.external_url or f"{path}/{name}",
            "url_private_download": self.external_url or f"{path}/download/{name}",
            "permalink": f"{self.base_url}/files/{self.user}/{self.id}/{name}",
            "file_access": "visible",
        } | self._preview()

    def _filetype(self) -> str:
        if self.is_canvas:
            return "quip"
        return self.name.rpartition(".")[2] if "." in self.name else "text"

    def _is_snippet(self) -> bool:
        """Return whether Slack shows the file as text:
        https://docs.slack.dev/reference/objects/file-object.
        """
        is_text = self.mimetype.startswith("text/") and self.mimetype != "text/html"
        return is_text and not self.external_url and len(self.content) < _LARGEST_SNIPPET

    def _mode(self) -> str:
        if self.external_url:
            return "external"
        if self.is_canvas:
            return "quip"
        return "snippet" if self._is_snippet() else "hosted"

    def _preview(self) -> Json:
        """Return the first lines of a snippet, with the numbers of shown and of further lines."""
        if not self._is_snippet():
            return {}
        text = self.content.decode("utf-8", "replace")
        lines = text.split("\n")
        shown = "\n".join(lines[:_PREVIEW_LINES])[:_PREVIEW_LENGTH]
        return {
            "editable": True,
            "preview": shown,
            "preview_highlight": f'<div class="CodeMirror"><pre>{escape(shown)}</pre></div>',
            "preview_is_truncated": shown != text,
            "lines": len(lines),
            "lines_more": max(0, len(lines) - _PREVIEW_LINES),
        }


def _parted(shares: dict[str, list[str]]) -> tuple[Json, Json]:
    """Return the messages that show a file, in direct messages and in channels, in the form of
    `files.info`.
    """
    told = {channel: [{"ts": ts} for ts in moments] for channel, moments in shares.items()}
    direct = {channel: each for channel, each in told.items() if channel.startswith("D")}
    return direct, {channel: each for channel, each in told.items() if channel not in direct}


@dataclass
class SandboxMessage:
    channel: str
    ts: str
    user: str
    text: str
    thread_ts: str = ""
    """The root's `ts` on a reply; empty on a root."""
    subtype: str = ""
    bot_id: str = ""
    app_id: str = ""
    """The app that posted it, if it is another than ours."""
    username: str = ""
    blocks: list[Json] = field(default_factory=list)
    attachments: list[Json] = field(default_factory=list)
    metadata: Json | None = None
    files: list[SandboxFile] = field(default_factory=list)
    edited_ts: str = ""
    reactions: dict[str, list[str]] = field(default_factory=dict)
    client_msg_id: str = ""
    team: str = TEAM
    """The author's workspace."""
    names_author_team: bool = False
    """Whether Slack adds `user_team` and `source_team`: only in channels that companies share, and
    not always there.
    """
    root: "SandboxMessage | None" = field(default=None, repr=False)
    replies: list["SandboxMessage"] = field(default_factory=list, repr=False)

    @property
    def in_history(self) -> bool:
        """Whether the channel itself shows it: roots, and replies that were also sent to the
        channel.
        """
        return not self.thread_ts or self.subtype == "thread_broadcast"

    def as_slack(self, *, include_metadata: bool = False) -> Json:
        """Return the message as `conversations.*` show it;
        https://docs.slack.dev/reference/events/message.
        """
        shown: Json = {"type": "message", "text": self.text, "ts": self.ts, "team": self.team}
        shown |= {"user": self.user} if self.user else {}
        optional: Json = {
            "subtype": self.subtype,
            "client_msg_id": self.client_msg_id,
            "blocks": self.blocks,
            "attachments": self.attachments,
            "files": [file.in_message() for file in self.files],
            "edited": {"user": self.user, "ts": self.edited_ts} if self.edited_ts else None,
            "reactions": [
                {"name": name, "users": list(users), "count": len(users)}
                for name, users in self.reactions.items()
            ],
            "metadata": self.metadata if include_metadata else None,
            "username": self.username,
            "user_team": self.team if self.names_author_team else "",
            "source_team": self.team if self.names_author_team else "",
        }
        shown |= {name: value for name, value in optional.items() if value}
        return shown | self._bot() | self._thread()

    def _bot(self) -> Json:
        if self.bot_id != BOT_ID:
            other = {"id": self.bot_id, "app_id": self.app_id, "team_id": self.team}
            named = {"bot_id": self.bot_id, "app_id": self.app_id}
            shown: Json = {name: value for name, value in named.items() if value}
            return shown | ({"bot_profile": other} if self.app_id else {})
        profile = {
            "id": self.bot_id,
            "app_id": APP_ID,
            "name": BOT_NAME,
            "deleted": False,
            "team_id": TEAM,
        }
        return {"bot_id": self.bot_id, "app_id": APP_ID, "bot_profile": profile}

    def _thread(self) -> Json:
        if self.root is not None:
            return {"thread_ts": self.thread_ts, "parent_user_id": self.root.user}
        if not self.replies and self.subtype != "tombstone":
            return {}
        users = list(dict.fromkeys(reply.user for reply in self.replies))
        return {
            "thread_ts": self.ts,
            "reply_count": len(self.replies),
            "reply_users_count": len(users),
            "reply_users": users,
            "latest_reply": self.replies[-1].ts if self.replies else "0000000000.000000",
            "is_locked": False,
            "subscribed": False,
            **(
                {"parent_user_id": SLACKBOT, "hidden": True} if self.subtype == "tombstone" else {}
            ),
        }


@dataclass
class SandboxChannel:
    id: str
    name: str
    created: int
    members: list[str] = field(default_factory=list)
    is_archived: bool = False
    is_im: bool = False
    is_private: bool = False
    topic: str = ""
    host: str = TEAM
    """The workspace that owns the channel."""
    partner: str = ""
    """The workspace of another company with which the channel is shared by Slack Connect."""
    names_author_team: bool = True
    """Whether Slack adds `user_team` to messages in a shared channel."""
    context: str = TEAM
    """The workspace through which the app gets the events of a shared channel: Slack chooses one
    of those that have installed the app.
    """
    messages: dict[str, SandboxMessage] = field(default_factory=dict)
    """Messages by `ts`, in rising order."""
    last_tick: int = 0
    """The newest timestamp in use, in microseconds: `ts` is an id, so each must be unique."""

    @property
    def is_shared(self) -> bool:
        return bool(self.partner)

    def _shared(self) -> Json:
        """Return the fields of a shared channel; see
        https://docs.slack.dev/reference/objects/conversation-object.
        """
        teams = [TEAM, self.partner]
        return {
            "conversation_host_id": self.host,
            "shared_team_ids": teams,
            "connected_team_ids": [self.partner],
        }

    @property
    def kind(self) -> str:
        return "im" if self.is_im else "channel"

    def as_slack(self) -> Json:
        common: Json = {
            "id": self.id,
            "created": self.created,
            "is_archived": self.is_archived,
            "is_im": self.is_im,
        }
        if self.is_im:
            return common | {"user": next((user for user in self.members if user != BOT_USER), "")}
        return common | {
            "name": self.name,
            "name_normalized": self.name,
            "is_channel": True,
            "is_group": False,
            "is_mpim": False,
            "is_private": self.is_private,
            "is_general": self.name == "general",
            "is_shared": self.is_shared,
            "is_ext_shared": self.is_shared,
            **(self._shared() if self.is_shared else {}),
            "is_member": BOT_USER in self.members,
            "context_team_id": TEAM,
            "topic": {"value": self.topic, "creator": "", "last_set": 0},
            "purpose": {"value": "", "creator": "", "last_set": 0},
            "num_members": len(self.members),
        }
