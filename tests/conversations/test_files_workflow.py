"""Text files and snippets that people attach are fetched once, shown as data, and removed with
their message.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.conversation_scene import APART, BEN, ConversationScene, conversation
from tests.support.scripted_model import Reply, calls
from threadline.conversations.files import KEPT, read_text
from threadline.conversations.store.files import FileText
from threadline.db.engine import Database
from threadline.gateway.routes import Route, RoutingConfig, route
from threadline.models.model import ModelReply, Prompt
from threadline.slack.file_kinds import CANVAS
from threadline.threads.model import IncomingMessage
from threadline_devstack.slack.identity import BOT_ID, BOT_USER, GENERAL, REPORTER, TEAM
from threadline_devstack.slack.model import SandboxFile, SandboxMessage

ROUTING = RoutingConfig(bot_user_id=BOT_USER, bot_id=BOT_ID, team=TEAM)
CALL = f"<@{BOT_USER}>"
LOG = b"2026-03-02 10:00:00 ERROR checkout failed: code 4711\nsecond line\n"
NOT_UNICODE = "it is not Unicode text (UTF-8)"
Alter = Callable[[ConversationScene, SandboxFile], Any]


def _routed(event: dict[str, Any]) -> IncomingMessage:
    """The message as the gateway makes it of Slack's event."""
    found = route(
        {"team_id": TEAM, "event": event | {"channel": GENERAL, "channel_type": "channel"}},
        ROUTING,
    )
    assert isinstance(found, Route), found
    return found.message


def attach(
    scene: ConversationScene,
    *files: SandboxFile,
    text: str = f"{CALL} what does it say?",
    user: str = REPORTER,
) -> tuple[SandboxMessage, IncomingMessage]:
    scene.clock.now += APART
    ids = [each.id for each in files]
    posted = scene.slack.workspace.post(GENERAL, user, text, thread_ts=scene.thread.ts, files=ids)
    return posted, _routed(posted.as_slack())


def add(
    scene: ConversationScene,
    content: bytes = LOG,
    name: str = "app.log",
    mimetype: str = "text/plain",
) -> SandboxFile:
    return scene.slack.workspace.add_file(name, REPORTER, content, mimetype)


@asynccontextmanager
async def asking(
    database: Database, *replies: Reply, decides: bool = False
) -> AsyncIterator[ConversationScene]:
    async with conversation(database, *replies, decides=decides) as scene:
        yield scene


async def test_model_reads_a_snippet_as_data(database: Database) -> None:
    async with asking(database) as scene:
        file = add(scene)
        _, message = attach(scene, file)
        await scene.send(message)
        await scene.until_said(1)
        [(_, shown)] = await scene.prompts()
        quoted = "".join(f"\n> {line}" for line in LOG.decode().splitlines())
        assert shown == f"what does it say?\n[File app.log ({file.id})]{quoted}"
        assert scene.names("fetch_files") == ["fetch_files"]


async def test_message_without_text_files_fetches_nothing(database: Database) -> None:
    async with asking(database) as scene:
        await scene.ask("hello, what is new?")
        _, message = attach(scene, add(scene, b"\x89PNG", "shot.png", "image/png"))
        await scene.send(message)
        await scene.until_said(2)
        assert "not readable here: shot.png" in (await scene.prompts())[-1][1]
        assert not scene.names("fetch_files")


async def test_decision_is_made_with_the_file(database: Database) -> None:
    async with asking(database, decides=True) as scene:
        _, message = attach(scene, add(scene))
        asked: list[Prompt] = []
        ask = scene.model.ask

        async def note(prompt: Prompt, *, attempt: int = 1) -> Any:
            asked.append(prompt)
            return await ask(prompt, attempt=attempt)

        scene.model.ask = note  # type: ignore[method-assign]  # the scripted model, listened to
        await scene.send(message)
        await scene.until_said(1)
        assert "> 2026-03-02 10:00:00 ERROR checkout failed: code 4711" in str(asked[0])


def _delete(scene: ConversationScene, file: SandboxFile) -> None:
    file.deleted = True


def _keep_outside(scene: ConversationScene, file: SandboxFile) -> None:
    file.external_url = "https://drive.example.com/app.log"


def _announce_much(scene: ConversationScene, file: SandboxFile) -> None:
    file.announced = 11 * 1024 * 1024


def _refuse(error: str) -> Alter:
    return lambda scene, file: scene.slack.faults.refuse("files.info", error, 9)


def _fail(scene: ConversationScene, file: SandboxFile) -> None:
    scene.slack.faults.fail_before("files.download", 9)


def _put_off(scene: ConversationScene, file: SandboxFile) -> None:
    scene.slack.faults.rate_limit("files.download", 9, retry_after=600)


def _fill_with_bytes(scene: ConversationScene, file: SandboxFile) -> None:
    file.content = bytes(range(256)) * 4


def _sign_in(scene: ConversationScene, file: SandboxFile) -> None:
    scene.slack.faults.login_page(9)


@pytest.mark.parametrize(
    ("alter", "trouble"),
    [
        (_delete, "it was deleted, or it is in a channel without the bot"),
        (_keep_outside, "it is kept outside Slack"),
        (_announce_much, "it is larger than 10 MiB"),
        (_refuse("file_not_found"), "it was deleted, or it is in a channel without the bot"),
        (_refuse("access_denied"), "Slack does not let the bot read it"),
        (
            _refuse("missing_scope"),
            "the bot lacks Slack's permission to read files, and the admin has been told",
        ),
        (_fail, "Slack did not deliver it"),
        (_put_off, "Slack did not deliver it"),
        (_sign_in, "Slack does not let the bot read it"),
        (_fill_with_bytes, NOT_UNICODE),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
async def test_unreadable_file_is_named_with_its_preview(
    database: Database, alter: Alter, trouble: str
) -> None:
    async with asking(database) as scene:
        file = add(scene)
        _, message = attach(scene, file)
        alter(scene, file)
        await scene.send(message)
        await scene.until_said(1)
        [(_, shown)] = await scene.prompts()
        heading = (
            f"[File app.log ({file.id}) could not be read: {trouble}; Slack's preview of it:]"
        )
        assert shown.splitlines()[1:3] == [
            heading,
            "> 2026-03-02 10:00:00 ERROR checkout failed: code 4711",
        ]


async def test_file_known_only_by_its_id_is_looked_up(
    database: Database,
) -> None:
    async with asking(database) as scene:
        file = add(scene)
        file.is_checked = True
        _, message = attach(scene, file)
        assert [(each.id, each.name, each.preview) for each in message.files] == [
            (file.id, "", "")
        ]
        await scene.send(message)
        await scene.until_said(1)
        assert f"({file.id})]\n> 2026-03-02" in (await scene.prompts())[0][1]


async def test_file_is_fetched_once_although_its_worker_is_lost(database: Database) -> None:
    async with asking(database) as scene:
        file = add(scene)
        _, message = attach(scene, file)

        async def lose() -> None:
            raise RuntimeError("the worker was lost before it answered")

        scene.steps.after["fetch_files"] = [lose]
        scene.slack.faults.slow("files.download", 0.0)
        await scene.send(message)
        await scene.until_said(1)
        assert scene.names("fetch_files") == ["fetch_files"] * 2
        assert not scene.slack.faults.ordered("files.download")
        [(count,)] = await scene.rows(
            "SELECT count(*) FROM conversation_files WHERE content <> ''"
        )
        assert count == 1
        assert "code 4711" in (await scene.prompts())[0][1]


async def test_file_that_comes_while_the_model_works_is_read_in_the_same_turn(
    database: Database,
) -> None:
    async with asking(database) as scene:

        async def add_log(_: object) -> ModelReply:
            await scene.send(attach(scene, add(scene), text=f"{CALL} and this")[1])
            await scene.until_stored(2)
            return calls("look")

        scene.model.replies = [add_log]
        await scene.ask("what is wrong?")
        assert "code 4711" in (await scene.prompts())[-1][1]


async def test_deleted_message_takes_the_text_of_its_file_along(database: Database) -> None:
    async with asking(database) as scene:
        posted, message = attach(scene, add(scene))
        await scene.send(message)
        await scene.until_said(1)
        gone = {
            "type": "message",
            "subtype": "message_deleted",
            "deleted_ts": posted.ts,
            "ts": f"{scene.clock.now:.6f}",
        }
        await scene.send(_routed(gone | {"previous_message": posted.as_slack()}))
        await scene.until_stored(2)
        await _is_nowhere(scene, "4711")


async def test_file_that_an_edit_removes_takes_its_text_along(database: Database) -> None:
    async with asking(database) as scene:
        kept = add(scene, b"the other file", "b.txt")
        posted, message = attach(scene, add(scene), kept)
        before = posted.as_slack()
        await scene.send(message)
        await scene.until_said(1)
        scene.slack.workspace.delete_file(posted.files[0])
        changed = {"type": "message", "subtype": "message_changed", "ts": f"{scene.clock.now:.6f}"}
        await scene.send(
            _routed(changed | {"message": posted.as_slack(), "previous_message": before})
        )
        await scene.until_stored(2)
        await _is_nowhere(scene, "4711")
        [(_, shown)] = await scene.prompts()
        assert shown.splitlines() == [
            "what does it say?",
            f"[File b.txt ({kept.id})]",
            "> the other file",
        ]


async def test_text_that_is_fetched_while_its_message_is_deleted_is_not_kept(
    database: Database,
) -> None:
    async with asking(database) as scene:
        posted, message = attach(scene, add(scene))

        async def delete() -> None:
            gone = {
                "type": "message",
                "subtype": "message_deleted",
                "deleted_ts": posted.ts,
                "ts": "1.0",
            }
            await scene.send(_routed(gone | {"previous_message": posted.as_slack()}))
            await scene.until_stored(2)

        scene.steps.before["fetch_files"] = [delete]
        await scene.send(message)
        await scene.until_settled(1)
        await _is_nowhere(scene, "4711")


async def _is_nowhere(scene: ConversationScene, words: str) -> None:
    for table in (
        "conversation_files",
        "conversation_messages",
        "transcript_entries",
        "decisions",
    ):
        rows = await scene.rows(f"SELECT CAST(t AS text) AS row FROM {table} t")  # noqa: S608 - names of tables
        assert not [each.row for each in rows if words in each.row], table


async def test_secret_in_a_file_is_stored_nowhere(database: Database) -> None:
    async with asking(database) as scene:
        secret = "ghp_" + "a1B2c3D4e5F6" * 3
        _, message = attach(scene, add(scene, f"token = {secret}\n".encode()))
        await scene.send(message)
        await scene.until_said(1)
        await _is_nowhere(scene, secret)
        assert "[redacted: GitHub token]" in (await scene.prompts())[0][1]


async def test_file_between_people_is_read_with_their_words(database: Database) -> None:
    async with asking(database) as scene:
        await scene.ask("any news")
        await scene.say("Anna, did you see the match?", BEN, addressed=False)
        await scene.until_settled(2)
        file = add(scene)
        _, message = attach(scene, file, text=f"look, <@{REPORTER}>", user=BEN)
        await scene.send(message)
        await scene.until_settled(3)
        assert "code 4711" in (await scene.prompts())[-1][1]


@pytest.mark.parametrize(
    ("content", "mimetype", "text"),
    [
        ("é\r\nb".encode(), "text/plain", "é\nb"),
        ("é".encode("utf-16"), "text/plain", "é"),
        (b"\xef\xbb\xbfa", "text/csv", "a"),
        (b"\x1b[31mred\x1b[0m", "text/plain", "\x1b[31mred\x1b[0m"),
        (b"<h1>Plan</h1><p>First<p>Then <b>more</b>", CANVAS, "# Plan\n\nFirst\n\nThen more"),
        (b"<b>bold</b>", "text/html", "<b>bold</b>"),
    ],
)
def test_text_is_decoded(content: bytes, mimetype: str, text: str) -> None:
    assert read_text(content, mimetype) == FileText(text)


@pytest.mark.parametrize(
    ("content", "trouble"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"\x00\x01\x02", NOT_UNICODE),
        (b"caf\xe9", NOT_UNICODE),
    ],
)
def test_file_without_readable_text_is_named_as_such(content: bytes, trouble: str) -> None:
    assert read_text(content, "text/plain") == FileText(trouble=trouble)


@pytest.mark.parametrize("at", range(17_980, 18_030, 7))
@pytest.mark.parametrize("from_end", [False, True])
def test_secret_at_a_cut_leaves_no_trace(at: int, *, from_end: bool) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    begin = 60_000 - at // 3 if from_end else at
    text = "x" * (begin - 1) + f" {secret} " + "y" * (60_000 - begin)
    kept = read_text(text.encode(), "text/plain").content
    assert len(kept) < KEPT + 200
    assert not any(secret[start : start + 12] in kept for start in range(0, len(secret) - 12, 4))
