"""`/control/…`: JSON by which people act in the workspace, and tests order its misbehaviour and read its state."""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from threadline_devstack.slack.delivery import Deliveries
from threadline_devstack.slack.faults import Faults
from threadline_devstack.slack.identity import BOT_USER, TEAM
from threadline_devstack.slack.interactions import Interactions
from threadline_devstack.slack.model import Json, User
from threadline_devstack.slack.refusal import Refused
from threadline_devstack.slack.socket_mode import Sockets
from threadline_devstack.slack.workspace import Workspace

Action = Callable[[Json], Awaitable[Json]]


class Control:
    """Answers `{"ok": true, …}`; 400 with `{"ok": false, "error": …}` for what cannot be done."""

    def __init__(
        self, workspace: Workspace, deliveries: Deliveries, sockets: Sockets, faults: Faults, interactions: Interactions
    ) -> None:
        self._workspace, self._deliveries, self._sockets = workspace, deliveries, sockets
        self._faults, self._interactions = faults, interactions

    def routes(self) -> list[Route]:
        actions: dict[str, Action] = {
            "messages": self.post,
            "messages/edit": self.edit,
            "messages/delete": self.delete,
            "messages/unfurl": self.unfurl,
            "reactions": self.react,
            "reactions/remove": self.unreact,
            "files": self.upload,
            "clicks": self.click,
            "channels": self.create_channel,
            "channels/archive": self.archive,
            "channels/join": self.join,
            "channels/leave": self.leave,
            "channels/direct": self.open_direct,
            "users": self.create_user,
            "faults": self.order_fault,
            "faults/clear": self.clear_faults,
            "sockets/disconnect": self.disconnect,
            "sockets/cut": self.cut,
            "request-url": self.set_request_url,
            "request-url/verify": self.verify_request_url,
        }
        posts = [Route(f"/control/{path}", _answering(action), methods=["POST"]) for path, action in actions.items()]
        return [
            *posts,
            Route("/control/state", self.state, methods=["GET"]),
            Route("/control/deliveries", self.log, methods=["GET"]),
        ]

    async def state(self, request: Request) -> Response:
        """Everything: users, channels with their messages (reactions and metadata among them), ephemeral messages,
        and what the bot says it is doing."""
        channels = [
            place.as_slack()
            | {"members": place.members}
            | {"messages": [message.as_slack(include_metadata=True) for message in place.messages.values()]}
            for place in self._workspace.channels.values()
        ]
        people = [user.as_slack() for user in self._workspace.users.values()]
        extra = {"ephemerals": self._workspace.ephemerals, "sockets": self._sockets.count}
        extra |= {"statuses": self._workspace.statuses.all()}
        return JSONResponse({"team": TEAM, "bot_user": BOT_USER, "users": people, "channels": channels} | extra)

    async def log(self, request: Request) -> Response:
        return JSONResponse({"deliveries": [asdict(delivery) for delivery in self._deliveries.log]})

    async def post(self, given: Json) -> Json:
        """`{channel, user, text, thread_ts?, broadcast?, files?: [file id], bot_id?, username?, subtype?}`."""
        optional = {name: given[name] for name in ("bot_id", "username", "subtype", "broadcast") if name in given}
        message = self._workspace.post(
            given["channel"],
            given["user"],
            given.get("text", ""),
            thread_ts=given.get("thread_ts", ""),
            files=given.get("files", ()),
            **optional,
        )
        return {"channel": message.channel, "ts": message.ts, "message": message.as_slack()}

    async def edit(self, given: Json) -> Json:
        """`{channel, ts, text, user?}`."""
        message = self._workspace.edit(given["channel"], given["ts"], given["text"], by=given.get("user", ""))
        return {"message": message.as_slack()}

    async def delete(self, given: Json) -> Json:
        """`{channel, ts, user?}`."""
        self._workspace.delete(given["channel"], given["ts"], by=given.get("user", ""))
        return {}

    async def unfurl(self, given: Json) -> Json:
        """`{channel, ts, attachments}`."""
        message = self._workspace.unfurl(given["channel"], given["ts"], given["attachments"])
        return {"message": message.as_slack()}

    async def react(self, given: Json) -> Json:
        """`{channel, ts, user, name}`; so also for `reactions/remove`."""
        self._workspace.react(given["channel"], given["ts"], given["user"], given["name"])
        return {}

    async def unreact(self, given: Json) -> Json:
        self._workspace.unreact(given["channel"], given["ts"], given["user"], given["name"])
        return {}

    async def upload(self, given: Json) -> Json:
        """`{user, name, content_base64, mimetype?, announced?}`: a file that a message may then show by its id.

        `announced`: a size in bytes that Slack tells of it instead of its own.
        """
        try:
            content = base64.b64decode(given["content_base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise Refused("invalid_content_base64") from None
        user = self._workspace.user(given["user"])
        file = self._workspace.add_file(given["name"], user.id, content, given.get("mimetype", ""))
        file.announced = int(given["announced"]) if "announced" in given else None
        return {"file": file.as_slack()}

    async def click(self, given: Json) -> Json:
        """`{user, channel, ts, action_id}`; the answer says whether the app acknowledged it in time."""
        payload = self._interactions.click(given["user"], given["channel"], given["ts"], given["action_id"])
        return {"acknowledged": await self._deliveries.interact(payload) is not None}

    async def create_channel(self, given: Json) -> Json:
        """`{name, id?, members?}`; without `members` everyone is in it, the bot too."""
        members = given.get("members", list(self._workspace.users))
        return {"channel": self._workspace.create_channel(given["name"], members, given.get("id", "")).as_slack()}

    async def archive(self, given: Json) -> Json:
        self._workspace.archive(given["channel"])
        return {}

    async def join(self, given: Json) -> Json:
        """`{channel, user}`; so also for `channels/leave`, which removes the bot when `user` is the bot."""
        return {"channel": self._workspace.join(given["channel"], given["user"]).as_slack()}

    async def leave(self, given: Json) -> Json:
        return {"channel": self._workspace.leave(given["channel"], given["user"]).as_slack()}

    async def open_direct(self, given: Json) -> Json:
        """`{user}`: the channel in which this person and the bot write to each other."""
        return {"channel": self._workspace.open_im(given["user"]).as_slack()}

    async def create_user(self, given: Json) -> Json:
        """`{id, name, real_name?, is_bot?, is_restricted?, is_ultra_restricted?, is_stranger?, team?}`."""
        flags = ("is_bot", "is_restricted", "is_ultra_restricted", "is_stranger")
        kind: dict[str, Any] = {name: bool(given.get(name)) for name in flags}
        user = User(
            given["id"], given["name"], given.get("real_name") or given["name"], **kind, team=given.get("team", TEAM)
        )
        return {"user": self._workspace.add_user(user).as_slack()}

    async def order_fault(self, given: Json) -> Json:
        """`{fault, count?, seconds?, method?, copies?, items?, error?}`; `fault` names a method of `Faults`."""
        count, seconds = int(given.get("count", 1)), float(given.get("seconds", 1.0))
        orders: dict[str, Callable[[], None]] = {
            "duplicate": lambda: self._faults.duplicate(count, int(given.get("copies", 2))),
            "drop": lambda: self._faults.drop(count),
            "delay": lambda: self._faults.delay(seconds, count),
            "reorder": lambda: self._faults.reorder(count),
            "rate_limit": lambda: self._faults.rate_limit(given["method"], count, seconds),
            "fail_before": lambda: self._faults.fail_before(given["method"], count),
            "fail_after": lambda: self._faults.fail_after(given["method"], count),
            "refuse": lambda: self._faults.refuse(given["method"], given["error"], count),
            "slow": lambda: self._faults.slow(given["method"], seconds, count),
            "login_page": lambda: self._faults.login_page(count),
            "short": lambda: self._faults.short(given["method"], int(given["items"]), count),
        }
        order = orders.get(given["fault"])
        if order is None:
            raise Refused("unknown_fault", known=sorted(orders))
        order()
        return {}

    async def clear_faults(self, given: Json) -> Json:
        self._faults.clear()
        return {}

    async def disconnect(self, given: Json) -> Json:
        """`{reason?}`: every connection is told to reconnect."""
        return {"told": await self._sockets.disconnect(given.get("reason", "refresh_requested"))}

    async def cut(self, given: Json) -> Json:
        return {"cut": await self._sockets.cut()}

    async def set_request_url(self, given: Json) -> Json:
        """`{url}`: where events go from now on; empty for Socket Mode."""
        self._deliveries.request_url = given["url"]
        return {}

    async def verify_request_url(self, given: Json) -> Json:
        return {"verified": await self._deliveries.verify_url()}


def _answering(action: Action) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            given: Any = json.loads(await request.body() or b"{}")
            return JSONResponse({"ok": True} | await action(given))
        except Refused as refused:
            return JSONResponse({"ok": False, "error": refused.error} | refused.details, status_code=400)
        except KeyError as missing:
            return JSONResponse({"ok": False, "error": f"missing argument {missing}"}, status_code=400)
        except (TypeError, ValueError) as wrong:
            return JSONResponse({"ok": False, "error": f"unreadable arguments: {wrong}"}, status_code=400)

    return endpoint
