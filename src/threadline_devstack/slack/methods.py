"""`auth.*`, `users.*`, `team.*`, `bots.*`, `files.*` and the like; https://docs.slack.dev/reference/methods."""

from collections.abc import Mapping
from uuid import uuid4

from threadline_devstack.slack import socket_mode
from threadline_devstack.slack.arguments import Arguments
from threadline_devstack.slack.blocks import check_text
from threadline_devstack.slack.identity import APP_ID, BOT_ID, BOT_NAME, BOT_USER, TEAM, TEAM_DOMAIN, TEAM_NAME
from threadline_devstack.slack.model import File, Json
from threadline_devstack.slack.paging import page
from threadline_devstack.slack.refusal import Refused
from threadline_devstack.slack.web_api import Method
from threadline_devstack.slack.workspace import Workspace


class WorkspaceMethods:
    """Who is here, and files; a file that comes in is announced, sent to an address of its own, and completed."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._uploads: dict[str, File] = {}
        """Announced and not completed, by the ticket in their address."""

    def table(self) -> Mapping[str, Method]:
        return {
            "auth.test": self.auth_test,
            "apps.connections.open": self.open_connection,
            "team.info": self.team_info,
            "bots.info": self.bot_info,
            "users.info": self.user_info,
            "users.list": self.list_users,
            "usergroups.list": self.list_usergroups,
            "files.info": self.file_info,
            "files.getUploadURLExternal": self.get_upload_url,
            "files.completeUploadExternal": self.complete_upload,
        }

    def auth_test(self, given: Arguments) -> Json:
        who = {"user": BOT_NAME, "user_id": BOT_USER, "bot_id": BOT_ID, "is_enterprise_install": False}
        return {"url": f"{given.base_url}/", "team": TEAM_NAME, "team_id": TEAM} | who

    def open_connection(self, given: Arguments) -> Json:
        return {"url": socket_mode.link(given.base_url)}

    def team_info(self, given: Arguments) -> Json:
        team = {"id": TEAM, "name": TEAM_NAME, "domain": TEAM_DOMAIN, "email_domain": "", "icon": {}}
        return {"team": team | {"url": f"{given.base_url}/"}}

    def bot_info(self, given: Arguments) -> Json:
        if given.text("bot") not in ("", BOT_ID):
            raise Refused("bot_not_found")
        bot = {"id": BOT_ID, "app_id": APP_ID, "user_id": BOT_USER, "name": BOT_NAME}
        return {"bot": bot | {"deleted": False, "updated": 0, "icons": {}}}

    def user_info(self, given: Arguments) -> Json:
        return {"user": self._workspace.user(given.text("user")).as_slack()}

    def list_users(self, given: Arguments) -> Json:
        people = list(self._workspace.users.values())
        shown, cursor = page(given, people, [person.id for person in people], limit=1000, most=1000)
        members = [person.as_slack() for person in shown]
        return {"members": members, "cache_ts": 0, "response_metadata": {"next_cursor": cursor}}

    def list_usergroups(self, given: Arguments) -> Json:
        with_users = given.flag("include_users")
        groups = self._workspace.usergroups
        return {
            "usergroups": [{k: v for k, v in group.items() if with_users or k != "users"} for group in groups],
        }

    def file_info(self, given: Arguments) -> Json:
        return {"file": self._workspace.file(given.text("file")).as_slack(), "comments": []}

    def get_upload_url(self, given: Arguments) -> Json:
        name, length = given.text("filename"), given.number("length", 0)
        if not name or length < 1:
            raise Refused("invalid_arguments")
        file = self._workspace.add_file(name, BOT_USER, b"")
        ticket = uuid4().hex
        self._uploads[ticket] = file
        return {"upload_url": f"{given.base_url}/upload/v1/{ticket}", "file_id": file.id}

    def receive(self, ticket: str, content: bytes) -> int:
        """The bytes of an upload, stored. Returns their number; `Refused` for an address that is not waiting."""
        file = self._uploads.get(ticket)
        if file is None:
            raise Refused("upload_not_found")
        file.content = content
        return len(content)

    def complete_upload(self, given: Arguments) -> Json:
        wanted = given.structure("files", "invalid_arguments")
        if not isinstance(wanted, list) or not wanted:
            raise Refused("invalid_arguments")
        files = [self._workspace.file(str(item.get("id", ""))) for item in wanted if isinstance(item, dict)]
        for file, item in zip(files, wanted, strict=True):
            if not file.content:
                raise Refused("file_not_found")
            file.title = str(item.get("title") or file.name)
        self._uploads = {ticket: file for ticket, file in self._uploads.items() if file not in files}
        self._share(given, files)
        return {"files": [file.as_slack() for file in files]}

    def _share(self, given: Arguments, files: list[File]) -> None:
        channel = given.text("channel_id") or given.text("channels")
        if not channel:
            return
        place = self._workspace.open_channel(channel)
        if BOT_USER not in place.members:
            raise Refused("not_in_channel")
        comment = given.text("initial_comment")
        check_text(comment)
        ids = [file.id for file in files]
        self._workspace.post(place.id, BOT_USER, comment, thread_ts=given.text("thread_ts"), files=ids, bot_id=BOT_ID)
