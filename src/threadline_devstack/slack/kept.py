"""KeptWorkspace: the workspace on disk, so that a restarted sandbox has all earlier messages.

One SQLite file in THREADLINE_HOME. Each action is one transaction that ends before its event is
published, so that an event which the product has acknowledged is in the history after a crash of
this process. As with Temporal's dev server, a loss of power may lose the last actions, but never a
part of one.

Statuses, ephemeral messages and uncompleted uploads are not stored: Slack shows them only for a
moment.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from threadline.errors import Permanent
from threadline_devstack.slack.model import (
    SandboxChannel,
    SandboxFile,
    SandboxMessage,
    SandboxUser,
)

FORMAT = 1
"""Version of the tables, to be raised on changes: an older file is refused, with the remedy."""

_TABLES = """
CREATE TABLE users (id TEXT PRIMARY KEY, fields TEXT NOT NULL);
CREATE TABLE channels (id TEXT PRIMARY KEY, fields TEXT NOT NULL);
CREATE TABLE messages (
    channel TEXT NOT NULL, ts TEXT NOT NULL, fields TEXT NOT NULL, PRIMARY KEY (channel, ts)
) WITHOUT ROWID;
CREATE TABLE files (id TEXT PRIMARY KEY, fields TEXT NOT NULL, content BLOB NOT NULL);
"""
_PUT = {
    "users": (
        "INSERT INTO users VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET fields = excluded.fields"
    ),
    "channels": (
        "INSERT INTO channels VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET fields = "
        "excluded.fields"
    ),
    "messages": "INSERT OR REPLACE INTO messages VALUES (?, ?, ?)",
    "files": (
        "INSERT INTO files VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET fields = "
        "excluded.fields, content = excluded.content"
    ),
}
"""The lists show users, channels and files in the order of their creation, so an update keeps the
row's place.
"""


class KeptWorkspace:
    """The file of one workspace, open until `close`.

    Raises:
        Permanent: the file is damaged, or of another version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = sqlite3.connect(path, isolation_level=None)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = NORMAL")
            version = int(self._file.execute("PRAGMA user_version").fetchone()[0])
            if version == 0:
                self._file.executescript(
                    f"BEGIN; {_TABLES} PRAGMA user_version = {FORMAT}; COMMIT;"
                )
                version = FORMAT
        except sqlite3.Error as exc:
            raise self._unreadable(str(exc)) from exc
        if version != FORMAT:
            raise self._unreadable(
                f"it has the format {version}, and this version of Threadline reads {FORMAT}"
            )

    def close(self) -> None:
        self._file.close()

    def save(
        self,
        *,
        users: Iterable[SandboxUser] = (),
        channels: Iterable[SandboxChannel] = (),
        messages: Iterable[SandboxMessage] = (),
        files: Iterable[SandboxFile] = (),
        deleted: Iterable[SandboxMessage] = (),
    ) -> None:
        """Write the present state of these objects, in one transaction."""
        rows: dict[str, list[tuple[object, ...]]] = {
            "users": [(each.id, _json(asdict(each))) for each in users],
            "channels": [(each.id, _json(_channel_fields(each))) for each in channels],
            "messages": [
                (each.channel, each.ts, _json(_message_fields(each))) for each in messages
            ],
            "files": [(each.id, _json(_file_fields(each)), each.content) for each in files],
        }
        self._file.execute("BEGIN IMMEDIATE")
        try:
            for table, given in rows.items():
                self._file.executemany(_PUT[table], given)
            gone = [(each.channel, each.ts) for each in deleted]
            self._file.executemany("DELETE FROM messages WHERE channel = ? AND ts = ?", gone)
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")

    def users(self) -> dict[str, SandboxUser]:
        return {
            identity: SandboxUser(**given | {"enterprise_teams": tuple(given["enterprise_teams"])})
            for identity, given in self._rows("SELECT id, fields FROM users ORDER BY rowid")
        }

    def files(self, base_url: str) -> dict[str, SandboxFile]:
        """Return all files, with the sandbox's current address."""
        found = self._file.execute("SELECT id, fields, content FROM files ORDER BY rowid")
        return {
            identity: SandboxFile(**json.loads(given), content=content, base_url=base_url)
            for identity, given, content in found
        }

    def channels(self, files: Mapping[str, SandboxFile]) -> dict[str, SandboxChannel]:
        """Return all channels with their messages, in order."""
        channels = {
            identity: SandboxChannel(**given)
            for identity, given in self._rows("SELECT id, fields FROM channels ORDER BY rowid")
        }
        for channel, given in self._rows(
            "SELECT channel, fields FROM messages ORDER BY channel, ts"
        ):
            attached = [files[each] for each in given.pop("files")]
            message = SandboxMessage(**given, files=attached)
            place = channels[channel]
            place.messages[message.ts] = message
            message.root = place.messages.get(message.thread_ts) if message.thread_ts else None
            if message.root is not None:
                message.root.replies.append(message)
        return channels

    def _rows(self, query: str) -> list[tuple[str, dict[str, Any]]]:
        return [(identity, json.loads(given)) for identity, given in self._file.execute(query)]

    def _unreadable(self, reason: str) -> Permanent:
        return Permanent(
            f"The sandbox's Slack in {self._path} cannot be read: {reason}. Start over with "
            "`threadline up --fresh`, which removes Slack, Temporal and Postgres of this "
            "folder."
        )


def _json(given: Mapping[str, Any]) -> str:
    return json.dumps(given, separators=(",", ":"))


def _channel_fields(channel: SandboxChannel) -> dict[str, Any]:
    return {
        each.name: getattr(channel, each.name)
        for each in fields(channel)
        if each.name != "messages"
    }


def _message_fields(message: SandboxMessage) -> dict[str, Any]:
    left = ("root", "replies", "files")
    given = {
        each.name: getattr(message, each.name) for each in fields(message) if each.name not in left
    }
    return given | {"files": [file.id for file in message.files]}


def _file_fields(file: SandboxFile) -> dict[str, Any]:
    return {
        each.name: getattr(file, each.name)
        for each in fields(file)
        if each.name not in ("content", "base_url")
    }
