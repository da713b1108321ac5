"""The methods of the Web API, one function each: https://docs.slack.dev/reference/methods.

A function gets the workspace and the call's arguments, and returns the fields of the answer beside
`ok`, or raises `SlackRefusal`. The caller is always the bot.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from threadline_devstack.slack import socket_mode
from threadline_devstack.slack.blocks import check_blocks, check_text
from threadline_devstack.slack.identity import BOT_ID, BOT_NAME, BOT_USER, TEAM, TEAM_NAME
from threadline_devstack.slack.model import Json, SandboxChannel, SandboxMessage, SlackRefusal
from threadline_devstack.slack.web_api import CallArguments, page
from threadline_devstack.slack.workspace import SlackWorkspace

_MOST_LOADING_MESSAGES = 10


def auth_test(slack: SlackWorkspace, given: CallArguments) -> Json:
    who = {"user": BOT_NAME, "user_id": BOT_USER, "bot_id": BOT_ID, "is_enterprise_install": False}
    return {"url": f"{given.base_url}/", "team": TEAM_NAME, "team_id": TEAM} | who


def open_connection(slack: SlackWorkspace, given: CallArguments) -> Json:
    return {"url": socket_mode.link(given.base_url)}


def user_info(slack: SlackWorkspace, given: CallArguments) -> Json:
    return {"user": slack.user(given.text("user")).as_slack()}


def user_group_members(slack: SlackWorkspace, given: CallArguments) -> Json:
    """List a user group's members:
    https://docs.slack.dev/reference/methods/usergroups.users.list
    """
    group = given.text("usergroup")
    if group not in slack.user_groups:
        raise SlackRefusal("no_such_subteam")
    return {"users": list(slack.user_groups[group])}


# Messages and reactions


def post_message(slack: SlackWorkspace, given: CallArguments) -> Json:
    channel = given.text("channel")
    place = slack.open_channel(slack.open_im(channel).id if channel in slack.users else channel)
    _require_member(place)
    message = slack.post(
        place.id,
        BOT_USER,
        given.text("text"),
        thread_ts=given.text("thread_ts"),
        broadcast=given.flag("reply_broadcast"),
        bot_id=BOT_ID,
        username=given.text("username"),
        subtype="bot_message" if given.text("username") else "",
        **_content(given),
    )
    return {
        "channel": place.id,
        "ts": message.ts,
        "message": message.as_slack(include_metadata=True),
    }


def update_message(slack: SlackWorkspace, given: CallArguments) -> Json:
    place = slack.open_channel(given.text("channel"))
    changes = _content(given)
    if "metadata" not in given:
        del changes["metadata"]
    message = slack.edit(place.id, given.text("ts"), given.text("text"), by=BOT_USER, **changes)
    shown = message.as_slack(include_metadata=True)
    return {"channel": place.id, "ts": message.ts, "text": message.text, "message": shown}


def post_ephemeral(slack: SlackWorkspace, given: CallArguments) -> Json:
    blocks = _content(given)["blocks"]
    channel = given.text("channel")
    user = given.text("user")
    text = given.text("text")
    return {
        "message_ts": slack.post_ephemeral(channel, user, text, blocks, given.text("thread_ts"))
    }


def add_reaction(slack: SlackWorkspace, given: CallArguments) -> Json:
    message, name = _reacted(slack, given)
    slack.react(message.channel, message.ts, BOT_USER, name)
    return {}


def remove_reaction(slack: SlackWorkspace, given: CallArguments) -> Json:
    message, name = _reacted(slack, given)
    slack.unreact(message.channel, message.ts, BOT_USER, name)
    return {}


def set_status(slack: SlackWorkspace, given: CallArguments) -> Json:
    """Show a status. `loading_messages` are checked but not shown: the page has room for one
    line.
    """
    many = (
        len(given.structure("loading_messages", "invalid_arguments") or ())
        > _MOST_LOADING_MESSAGES
    )
    if many or "status" not in given:
        raise SlackRefusal("invalid_arguments")
    place = slack.channel(given.text("channel_id"))
    if BOT_USER not in place.members:
        raise SlackRefusal("channel_not_found")
    root = place.messages.get(given.text("thread_ts"))
    if root is None or root.thread_ts:
        raise SlackRefusal("invalid_thread_ts")
    slack.show_status(place.id, root.ts, given.text("status"))
    return {}


def open_view(slack: SlackWorkspace, given: CallArguments) -> Json:
    view = given.structure("view", "invalid_arguments")
    return {"view": slack.open_view(given.text("trigger_id"), view).as_slack()}


# Channels and threads


def history(slack: SlackWorkspace, given: CallArguments) -> Json:
    """Return messages, newest first: roots, and replies that were also sent to the channel."""
    place = _require_member(slack.channel(given.text("channel")))
    roots = [message for message in reversed(place.messages.values()) if message.in_history]
    messages = [message for message in roots if slack.in_history(message)]
    return _messages(_within(messages, given), given, limit=100) | {"pin_count": 0}


def replies(slack: SlackWorkspace, given: CallArguments) -> Json:
    """Return a thread, oldest first. The root is always first, also when it is older than
    `oldest`; a reply's own `ts` returns only that reply.
    """
    place = _require_member(slack.channel(given.text("channel")))
    root = place.messages.get(given.text("ts"))
    if root is None:
        raise SlackRefusal("thread_not_found")
    shown = [each for each in (root, *_within(root.replies, given)) if slack.in_history(each)]
    if not shown:
        raise SlackRefusal("thread_not_found")
    return _messages(shown, given, limit=1000)


def channel_info(slack: SlackWorkspace, given: CallArguments) -> Json:
    return {"channel": slack.channel(given.text("channel")).as_slack()}


def members(slack: SlackWorkspace, given: CallArguments) -> Json:
    people = slack.channel(given.text("channel")).members
    shown, cursor = page(given, people, people, limit=100)
    return {"members": shown, "response_metadata": {"next_cursor": cursor}}


def own_channels(slack: SlackWorkspace, given: CallArguments) -> Json:
    """Return the channels of the bot."""
    kinds = given.listed("types") or ["public_channel"]
    asked = [
        place
        for place in slack.channels.values()
        if BOT_USER in place.members
        and ("im" if place.is_im else "public_channel") in kinds
        and not (given.flag("exclude_archived") and place.is_archived)
    ]
    shown, cursor = page(given, asked, [place.id for place in asked], limit=100)
    return {
        "channels": [place.as_slack() for place in shown],
        "response_metadata": {"next_cursor": cursor},
    }


# Files: an upload is announced, sent to its own address, and completed


def file_info(slack: SlackWorkspace, given: CallArguments) -> Json:
    return {"file": slack.file(given.text("file")).as_slack(), "comments": []}


def get_upload_url(slack: SlackWorkspace, given: CallArguments) -> Json:
    name = given.text("filename")
    length = given.number("length", 0)
    if not name or length < 1:
        raise SlackRefusal("invalid_arguments")
    ticket = uuid4().hex
    file = slack.add_file(name, BOT_USER, b"")
    slack.uploads[ticket] = file
    return {"upload_url": f"{given.base_url}/upload/v1/{ticket}", "file_id": file.id}


def complete_upload(slack: SlackWorkspace, given: CallArguments) -> Json:
    wanted = given.structure("files", "invalid_arguments")
    if not isinstance(wanted, list) or not wanted:
        raise SlackRefusal("invalid_arguments")
    files = [slack.file(str(item.get("id", ""))) for item in wanted if isinstance(item, dict)]
    for file, item in zip(files, wanted, strict=True):
        if not file.content:
            raise SlackRefusal("file_not_found")
        slack.complete_file(file, str(item.get("title") or file.name))
    slack.uploads = {ticket: file for ticket, file in slack.uploads.items() if file not in files}
    if channel := given.text("channel_id") or given.text("channels"):
        place = _require_member(slack.open_channel(channel))
        comment = given.text("initial_comment")
        check_text(comment)
        ids = [file.id for file in files]
        slack.post(
            place.id,
            BOT_USER,
            comment,
            thread_ts=given.text("thread_ts"),
            files=ids,
            bot_id=BOT_ID,
        )
    return {"files": [file.as_slack() for file in files]}


def delete_file(slack: SlackWorkspace, given: CallArguments) -> Json:
    """Delete a file. A bot deletes only its own files:
    https://docs.slack.dev/reference/methods/files.delete
    """
    file = slack.file(given.text("file"))
    if file.user != BOT_USER:
        raise SlackRefusal("cant_delete_file")
    slack.delete_file(file)
    return {}


Method = Callable[[SlackWorkspace, CallArguments], Json]
METHODS: Mapping[str, Method] = {
    "apps.connections.open": open_connection,
    "assistant.threads.setStatus": set_status,
    "auth.test": auth_test,
    "chat.postEphemeral": post_ephemeral,
    "chat.postMessage": post_message,
    "chat.update": update_message,
    "conversations.history": history,
    "conversations.info": channel_info,
    "conversations.members": members,
    "conversations.replies": replies,
    "files.completeUploadExternal": complete_upload,
    "files.delete": delete_file,
    "files.getUploadURLExternal": get_upload_url,
    "files.info": file_info,
    "reactions.add": add_reaction,
    "reactions.remove": remove_reaction,
    "usergroups.users.list": user_group_members,
    "users.conversations": own_channels,
    "users.info": user_info,
    "views.open": open_view,
}


def _require_member(place: SandboxChannel) -> SandboxChannel:
    if BOT_USER not in place.members:
        raise SlackRefusal("not_in_channel")
    return place


def _reacted(slack: SlackWorkspace, given: CallArguments) -> tuple[SandboxMessage, str]:
    place = _require_member(slack.channel(given.text("channel")))
    name = given.text("name").strip(":")
    message = slack.message(place.id, given.text("timestamp"))
    if not name:
        raise SlackRefusal("invalid_name")
    return message, name


def _content(given: CallArguments) -> dict[str, Any]:
    """Return blocks, attachments and metadata of a post, checked."""
    text = given.text("text")
    blocks = given.structure("blocks", "invalid_blocks_format") or []
    if given.text("markdown_text"):
        if text or blocks:
            raise SlackRefusal("markdown_text_conflict")
        blocks = [{"type": "markdown", "text": given.text("markdown_text")}]
    attachments = given.structure("attachments", "invalid_attachments") or []
    if not (text or blocks or attachments):
        raise SlackRefusal("no_text")
    check_text(text)
    return {
        "blocks": check_blocks(blocks),
        "attachments": attachments,
        "metadata": _metadata(given),
    }


def _metadata(given: CallArguments) -> Json | None:
    """Return a post's metadata, a type and a flat payload, checked:
    https://docs.slack.dev/messaging/message-metadata
    """
    metadata = given.structure("metadata", "invalid_metadata_format")
    if metadata is None:
        return None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("event_payload"), dict):
        raise SlackRefusal("invalid_metadata_format")
    if not isinstance(metadata.get("event_type"), str) or not metadata["event_type"]:
        raise SlackRefusal("invalid_metadata_format")
    return {"event_type": metadata["event_type"], "event_payload": metadata["event_payload"]}


def _within(messages: Sequence[SandboxMessage], given: CallArguments) -> list[SandboxMessage]:
    """Return the messages between `oldest` and `latest`; the bounds themselves only with
    `inclusive`.
    """
    try:
        oldest, latest = (
            _ticks(given.text(bound)) if given.text(bound) else None
            for bound in ("oldest", "latest")
        )
    except ValueError:
        raise SlackRefusal("invalid_ts_oldest") from None
    widen = 1 if given.flag("inclusive") else 0
    return [
        message
        for message in messages
        if (oldest is None or _ticks(message.ts) > oldest - widen)
        and (latest is None or _ticks(message.ts) < latest + widen)
    ]


def _messages(messages: Sequence[SandboxMessage], given: CallArguments, *, limit: int) -> Json:
    shown, cursor = page(given, messages, [message.ts for message in messages], limit=limit)
    metadata = given.flag("include_all_metadata")
    answer: Json = {
        "messages": [message.as_slack(include_metadata=metadata) for message in shown],
        "has_more": bool(cursor),
    }
    return answer | ({"response_metadata": {"next_cursor": cursor}} if cursor else {})


def _ticks(ts: str) -> int:
    """Return microseconds: a float would lose the last digit of a timestamp."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * 1_000_000 + int(f"{fraction:0<6}"[:6] or 0)
