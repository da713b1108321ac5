"""`assistant.threads.*`; https://docs.slack.dev/reference/methods."""

from collections.abc import Mapping

from threadline_devstack.slack.arguments import Arguments
from threadline_devstack.slack.identity import BOT_USER
from threadline_devstack.slack.model import Json
from threadline_devstack.slack.refusal import Refused
from threadline_devstack.slack.web_api import Method
from threadline_devstack.slack.workspace import Workspace

_MOST_MESSAGES = 10


class AssistantMethods:
    """What the bot shows of its work."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def table(self) -> Mapping[str, Method]:
        return {"assistant.threads.setStatus": self.set_status}

    def set_status(self, given: Arguments) -> Json:
        """`loading_messages` are checked and not shown: the page has room for one line."""
        if "status" not in given:
            raise Refused("invalid_arguments")
        if len(given.structure("loading_messages", "invalid_arguments") or ()) > _MOST_MESSAGES:
            raise Refused("invalid_arguments")
        place = self._workspace.channel(given.text("channel_id"))
        if BOT_USER not in place.members:
            raise Refused("channel_not_found")
        root = place.messages.get(given.text("thread_ts"))
        if root is None or root.thread_ts:
            raise Refused("invalid_thread_ts")
        self._workspace.show_status(place.id, root.ts, given.text("status"))
        return {}
