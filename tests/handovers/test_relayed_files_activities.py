"""Files of a reply, and of the asker, are shown to the other side once; other files are named with
their links.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, cast

import pytest

from tests.handovers.scene import ASKER, PERSON, HandoverScene, Starts, correction
from tests.handovers.test_answer_activities import arrives, edited, received, remark, shown
from tests.handovers.test_restored_posts_activities import restore
from tests.support.conversation_activities import Make
from tests.support.decision_activities import engine_of
from threadline.conversations.model.handover import handover_workflow_id
from threadline.errors import Mendable, Transient
from threadline.handovers import files as relayed_files
from threadline.handovers.activities import HandoverThreads
from threadline.handovers.model import HANDOVER
from threadline.slack.files import MAX_BYTES, fetch
from threadline.slack.model import FileRef
from threadline.threads import outbox
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.model import IncomingMessage, MessageKind, ThreadOwner
from threadline_devstack.slack.faults import DOWNLOAD
from threadline_devstack.slack.identity import BOT_USER, ESCALATIONS, GENERAL, TEAM
from threadline_devstack.slack.model import SandboxFile, SandboxMessage

BEGIN = "files.getUploadURLExternal"
COMPLETE = "files.completeUploadExternal"


def attach(
    scene: HandoverScene, name: str = "error.log", content: bytes = b"it broke", user: str = PERSON
) -> FileRef:
    """A file that somebody has uploaded in Slack."""
    file = scene.talk.slack.workspace.add_file(name, user, content)
    return FileRef(file.id, name, file.mimetype, len(content))


def source(scene: HandoverScene, file: FileRef) -> SandboxFile:
    return scene.talk.slack.workspace.files[file.id]


def link(scene: HandoverScene, file: FileRef) -> str:
    return str(source(scene, file).as_slack()["permalink"])


def display_name(scene: HandoverScene, user: str) -> str:
    return scene.talk.slack.workspace.user(user).real_name


def carriers(scene: HandoverScene, channel: str = GENERAL) -> list[SandboxMessage]:
    """The bot's messages that show files."""
    return [each for each in scene.talk.posted(channel) if each.files]


def seen(scene: HandoverScene, channel: str = GENERAL) -> list[tuple[str, bytes]]:
    """Title and bytes of the files that people see."""
    files = [file for message in carriers(scene, channel) for file in message.files]
    return [(file.title, file.content) for file in files if not file.deleted]


async def replies(scene: HandoverScene, *files: FileRef, text: str = "reply: see the log") -> None:
    """The person replies with files, and the reply is sent."""
    await arrives(scene, replace(remark(scene, text), files=files))


async def asks(
    scene: HandoverScene, *files: FileRef, text: str = "see the log", turn: int = 2
) -> None:
    """The asker writes with files while a person has the thread."""
    await scene.hears(turn, scene.talk.message(text, files=files))


async def test_file_of_a_reply_is_shown_to_the_asker_after_the_hold(taken: HandoverScene) -> None:
    taken.hold = 60.0
    await shown(taken, replace(remark(taken, "reply: see the log"), files=(attach(taken),)))
    (preview,) = taken.previews()
    assert "error.log" in str(preview.blocks)
    await taken.send_replies()
    assert seen(taken) == []
    await taken.talk.rows("UPDATE handover_answers SET send_at = now() RETURNING 1")
    await taken.send_replies()
    assert seen(taken) == [("error.log", b"it broke")]
    (carrier,) = carriers(taken)
    assert (carrier.thread_ts, carrier.user) == (taken.ref.thread.ts, BOT_USER)
    assert carrier.text == f"{display_name(taken, PERSON)} attached this file."
    assert taken.said()[-2] == f"<@{PERSON}> answers\nsee the log"


async def test_file_of_an_undone_reply_is_never_shown(taken: HandoverScene) -> None:
    said = replace(remark(taken, "reply: see the log"), files=(attach(taken),))
    await shown(taken, said)
    await taken.undone(said.id)
    await taken.send_replies()
    assert seen(taken) == []


async def test_file_of_an_internal_message_is_not_relayed(taken: HandoverScene) -> None:
    await replies(taken, attach(taken), text="does anybody understand this log?")
    assert seen(taken) == []


async def test_file_of_the_asker_is_shown_under_the_card(taken: HandoverScene) -> None:
    await asks(taken, attach(taken, "shot.png", b"\x89PNG", ASKER))
    assert seen(taken, ESCALATIONS) == [("shot.png", b"\x89PNG")]
    (carrier,) = carriers(taken, ESCALATIONS)
    assert carrier.thread_ts == await taken.card_ts()
    assert carrier.text == f"{display_name(taken, ASKER)} attached this file."


@pytest.fixture
async def asked_with_file(make_talk: Make) -> HandoverScene:
    """The question that was handed over has a file; the card is shown."""
    scene = HandoverScene(engine_of(make_talk()))
    await scene.escalated(attach(scene, "shot.png", b"\x89PNG", ASKER))
    state = await scene.talk.run(scene.activities.open_handover, scene.ref)
    assert state.asked_with_files
    return scene


async def show_question_files(scene: HandoverScene) -> None:
    await scene.talk.run(scene.activities.show_question_files, scene.ref)


async def test_files_of_the_question_are_shown_under_the_card_once(
    asked_with_file: HandoverScene,
) -> None:
    await show_question_files(asked_with_file)
    await show_question_files(asked_with_file)
    assert seen(asked_with_file, ESCALATIONS) == [("shot.png", b"\x89PNG")]
    (carrier,) = carriers(asked_with_file, ESCALATIONS)
    assert carrier.thread_ts == await asked_with_file.card_ts()


async def test_question_without_files_starts_no_upload(waiting: HandoverScene) -> None:
    assert not (
        await waiting.talk.run(waiting.activities.open_handover, waiting.ref)
    ).asked_with_files


async def test_file_of_the_question_that_cannot_be_shown_is_named_once_and_its_author_notified(
    asked_with_file: HandoverScene,
) -> None:
    too_large(asked_with_file, asked_with_file.question.files[0])
    await show_question_files(asked_with_file)
    await show_question_files(asked_with_file)
    assert seen(asked_with_file, ESCALATIONS) == []
    (named,) = [each for each in asked_with_file.whole(ESCALATIONS) if "shot.png" in each]
    assert link(asked_with_file, asked_with_file.question.files[0]) in named
    (told,) = [each for each in asked_with_file.said() if "shot.png" in each]
    assert "larger than 10 MiB" in told


async def test_deleted_question_takes_its_files_along(asked_with_file: HandoverScene) -> None:
    await show_question_files(asked_with_file)
    deleted = correction(asked_with_file.question, MessageKind.DELETION)
    for turn in (await asked_with_file.talk.said(deleted)).turns_to_show_again:
        await asked_with_file.relay(turn)
    assert seen(asked_with_file, ESCALATIONS) == []


async def test_files_of_a_question_that_is_closed_are_not_shown(
    asked_with_file: HandoverScene,
) -> None:
    await asked_with_file.closed()
    await show_question_files(asked_with_file)
    assert seen(asked_with_file, ESCALATIONS) == []


async def test_reply_of_files_alone_is_sent(taken: HandoverScene) -> None:
    await replies(taken, attach(taken), attach(taken, "more.log", b"and again"), text="reply:")
    assert seen(taken) == [("error.log", b"it broke"), ("more.log", b"and again")]


async def test_file_that_the_event_names_only_by_its_id_is_shown(taken: HandoverScene) -> None:
    """Slack Connect sends `file_access: check_file_info`, and no other field of a file."""
    await replies(taken, FileRef(attach(taken).id))
    assert seen(taken) == [("error.log", b"it broke")]


async def test_files_of_one_name_are_all_shown(taken: HandoverScene) -> None:
    """Slack calls every pasted picture `image.png`."""
    await replies(taken, attach(taken, "image.png", b"1"), attach(taken, "image.png", b"2"))
    assert seen(taken) == [("image.png", b"1"), ("image.png", b"2")]


@pytest.mark.parametrize("method", [COMPLETE, BEGIN, "chat.postMessage", "files.info", DOWNLOAD])
async def test_file_is_shown_once_over_several_attempts(taken: HandoverScene, method: str) -> None:
    await shown(
        taken,
        replace(
            remark(taken, "reply: see the log"), files=(attach(taken), attach(taken, "b.log"))
        ),
    )
    taken.talk.slack.faults.fail_after(method)
    with pytest.raises(Transient):
        await taken.send_replies()
    for _ in range(2):
        await taken.send_replies()
    assert [title for title, _ in seen(taken)] == ["error.log", "b.log"]


async def test_file_of_the_asker_is_shown_once_over_several_attempts(
    taken: HandoverScene,
) -> None:
    await taken.talk.said(taken.talk.message("see the log", files=(attach(taken, user=ASKER),)))
    await taken.talk.begin(2)
    taken.talk.slack.faults.fail_after(COMPLETE)
    with pytest.raises(Transient):
        await taken.relay(2)
    for _ in range(2):
        await taken.relay(2)
    assert len(seen(taken, ESCALATIONS)) == 1


def too_large(scene: HandoverScene, file: FileRef) -> None:
    source(scene, file).announced = MAX_BYTES + 1


def hidden(scene: HandoverScene, file: FileRef) -> None:
    scene.talk.slack.faults.refuse("files.info", "file_not_found", 2)


def external(scene: HandoverScene, file: FileRef) -> None:
    source(scene, file).external_url = "https://drive.example.com/contract"


def unreadable(scene: HandoverScene, file: FileRef) -> None:
    scene.talk.slack.faults.login_page()


def not_writable(scene: HandoverScene, file: FileRef) -> None:
    scene.talk.slack.faults.refuse(BEGIN, "missing_scope")


REASONS = [
    (too_large, "larger than 10 MiB"),
    (hidden, "in a channel without me"),
    (external, "kept outside Slack"),
    (unreadable, "does not let me read it"),
    (not_writable, "may not copy files"),
]
Spoil = Callable[[HandoverScene, FileRef], None]


@pytest.mark.parametrize(("spoil", "reason"), REASONS)
async def test_file_of_a_reply_that_cannot_be_shown_is_named_and_its_author_notified(
    taken: HandoverScene, spoil: Spoil, reason: str
) -> None:
    bad = attach(taken, "big.log")
    good = attach(taken)
    spoil(taken, bad)
    await replies(taken, bad, good)
    assert seen(taken) == [("error.log", b"it broke")]
    (answer,) = [each for each in taken.whole() if "answers" in each]
    assert "see the log" in answer
    assert "big.log" in answer
    assert (link(taken, bad) in answer) is (spoil is not hidden), "a hidden file has no known link"
    (told,) = [
        each for each in taken.said(ESCALATIONS) if "big.log" in each and f"<@{PERSON}>" in each
    ]
    assert reason in told
    (row,) = await taken.talk.rows("SELECT reply_state FROM handover_answers")
    assert row == {"reply_state": "sent"}


async def test_file_of_the_asker_that_cannot_be_shown_is_named_and_they_are_notified(
    taken: HandoverScene,
) -> None:
    bad = attach(taken, "big.log", user=ASKER)
    too_large(taken, bad)
    await asks(taken, bad)
    await taken.relay(2)
    assert seen(taken, ESCALATIONS) == []
    (relayed,) = [each for each in taken.whole(ESCALATIONS) if "wrote" in each]
    assert "big.log" in relayed
    assert link(taken, bad) in relayed
    (told,) = [each for each in taken.said() if "big.log" in each]
    assert f"<@{ASKER}>" in told
    assert "larger than 10 MiB" in told


async def test_file_that_slack_does_not_deliver_holds_up_later_replies_for_a_while_only(
    taken: HandoverScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shown(taken, replace(remark(taken, "reply: see the log"), files=(attach(taken),)))
    await shown(taken, remark(taken, "reply: and that is all"))
    taken.talk.slack.faults.fail_after(DOWNLOAD, 2)
    with pytest.raises(Transient):
        await taken.send_replies()
    monkeypatch.setattr(relayed_files, "PATIENCE", 0.0)
    await taken.send_replies()
    assert seen(taken) == []
    answers = [each for each in taken.whole() if "answers" in each]
    assert "error.log" in answers[0]
    assert "and that is all" in answers[1]
    assert any("error.log" in each and f"<@{PERSON}>" in each for each in taken.said(ESCALATIONS))


async def test_only_ten_files_of_a_message_are_shown(taken: HandoverScene) -> None:
    await replies(taken, *(attach(taken, f"{number}.log") for number in range(12)))
    assert [title for title, _ in seen(taken)] == [f"{number}.log" for number in range(10)]
    (answer,) = [each for each in taken.whole() if "answers" in each]
    assert "10.log" in answer
    assert "11.log" in answer


async def test_deleted_reply_takes_its_files_along(taken: HandoverScene) -> None:
    said = replace(remark(taken, "reply: see the log"), files=(attach(taken),))
    await arrives(taken, said)
    await arrives(taken, edited(said, "look at the log"))
    assert seen(taken) == [("error.log", b"it broke")], (
        "Slack names no files with an edit of the words"
    )
    await arrives(taken, replace(correction(said, MessageKind.DELETION, after=2), files=()))
    assert seen(taken) == []


async def test_deleted_message_of_the_asker_takes_its_files_along(taken: HandoverScene) -> None:
    said = taken.talk.message("see the log", files=(attach(taken, user=ASKER),))
    await taken.hears(2, said)
    for turn in (
        await taken.talk.said(correction(said, MessageKind.DELETION))
    ).turns_to_show_again:
        await taken.relay(turn)
    assert seen(taken, ESCALATIONS) == []


async def test_reply_that_is_deleted_while_its_file_is_on_its_way_is_taken_back(
    taken: HandoverScene,
) -> None:
    said = replace(remark(taken, "reply: see the log"), files=(attach(taken),))
    await shown(taken, said)
    taken.talk.slack.faults.fail_after(DOWNLOAD)
    with pytest.raises(Transient):
        await taken.send_replies()
    assert any("see the log" in each for each in taken.said())
    await received(
        taken, correction(said, MessageKind.DELETION)
    )  # the workflow comes to it after the activity
    await taken.send_replies()
    await taken.show_replies()
    assert seen(taken) == []
    assert not any("see the log" in each for each in taken.whole())


async def test_reply_that_becomes_due_meanwhile_waits_for_the_presses(
    taken: HandoverScene,
) -> None:
    """A press of Undo waits in the workflow while files are sent, also by a retry."""
    first = remark(taken, "reply: see the log")
    second = remark(taken, "reply: you fool")
    await shown(taken, replace(first, files=(attach(taken),)))
    taken.talk.slack.faults.fail_after(DOWNLOAD)
    with pytest.raises(Transient):
        await taken.send_replies()
    await shown(taken, second)
    state = await taken.send_replies()
    assert not any("you fool" in each for each in taken.said())
    assert state.send_in == 0
    await taken.undone(second.id)
    await taken.send_replies()
    assert not any("you fool" in each for each in taken.said())


async def test_files_are_not_shown_again_after_a_restore(taken: HandoverScene) -> None:
    said = replace(remark(taken, "reply: see the log"), files=(attach(taken),))
    asked = taken.talk.message("see mine", files=(attach(taken, "mine.log", b"mine", ASKER),))
    await taken.hears(2, asked)
    await arrives(taken, said)
    before = taken.said(), taken.said(ESCALATIONS)
    await restore(taken)
    await taken.relay(2)
    await arrives(taken, said)
    assert (taken.said(), taken.said(ESCALATIONS)) == before


@pytest.mark.parametrize("method", ["files.info", BEGIN, COMPLETE])
async def test_reply_waits_with_its_file_while_slack_refuses_the_token(
    taken: HandoverScene, method: str
) -> None:
    await shown(taken, replace(remark(taken, "reply: see the log"), files=(attach(taken),)))
    taken.talk.slack.faults.refuse(method, "invalid_auth", 2)
    with pytest.raises(Mendable):
        await taken.send_replies()
    taken.talk.slack.faults.clear()
    await taken.send_replies()
    assert seen(taken) == [("error.log", b"it broke")]
    assert not any("only named" in each for each in taken.said(ESCALATIONS))


async def test_deleted_reply_waits_for_the_removal_of_its_file_while_slack_refuses_the_token(
    taken: HandoverScene,
) -> None:
    said = replace(remark(taken, "reply: see the log"), files=(attach(taken),))
    await arrives(taken, said)
    await received(taken, replace(correction(said, MessageKind.DELETION), files=()))
    starts = list(cast("Starts", taken.workflows).started)
    taken.talk.slack.faults.refuse("files.delete", "token_revoked")
    with pytest.raises(Mendable):
        await taken.show_replies()
    cast("Starts", taken.workflows).started[:] = starts
    await taken.show_replies()
    assert seen(taken) == []


async def test_file_of_the_asker_waits_while_slack_refuses_the_token(taken: HandoverScene) -> None:
    await taken.talk.said(taken.talk.message("see the log", files=(attach(taken, user=ASKER),)))
    await taken.talk.begin(2)
    taken.talk.slack.faults.refuse("files.info", "invalid_auth", 2)
    with pytest.raises(Mendable):
        await taken.relay(2)
    taken.talk.slack.faults.clear()
    await taken.relay(2)
    assert len(seen(taken, ESCALATIONS)) == 1


@pytest.mark.parametrize("by_asker", [False, True])
async def test_unshown_file_is_named_once_slack_takes_the_token_again(
    taken: HandoverScene, by_asker: bool
) -> None:
    bad = attach(taken, "big.log")
    too_large(taken, bad)
    if by_asker:
        await taken.talk.said(taken.talk.message("see the log", files=(bad,)))
        await taken.talk.begin(2)
    else:
        await shown(taken, replace(remark(taken, "reply: see the log"), files=(bad,)))
    channel = ESCALATIONS if by_asker else GENERAL
    taken.talk.slack.faults.refuse("chat.update", "invalid_auth")
    with pytest.raises(Mendable):
        await (taken.relay(2) if by_asker else taken.send_replies())
    await (taken.relay(2) if by_asker else taken.send_replies())
    assert any("Not shown here" in each for each in taken.whole(channel))


def without_files(said: IncomingMessage, text: str, after: float = 1) -> IncomingMessage:
    """The message after an edit that removed its files."""
    return replace(correction(said, MessageKind.EDIT, text, after), files=(), files_removed=True)


@pytest.mark.parametrize("text", ["reply: see the log", "reply: look at it", "see the log"])
async def test_file_that_is_taken_out_of_a_sent_reply_disappears(
    taken: HandoverScene, text: str
) -> None:
    said = replace(remark(taken, "reply: see the log"), files=(attach(taken),))
    await arrives(taken, said)
    await arrives(taken, without_files(said, text))
    assert seen(taken) == []
    (answer,) = [each for each in taken.said() if "answers" in each]
    shown_text = "look at it" if "look" in text else "see the log"
    assert answer == f"<@{PERSON}> answers\n{shown_text}"
    warned = any("does not begin with `reply:`" in each for each in taken.said(ESCALATIONS))
    assert warned is (text == "see the log")


async def test_file_that_is_taken_out_of_a_bare_reply_disappears(taken: HandoverScene) -> None:
    said = replace(remark(taken, "reply:"), files=(attach(taken),))
    await arrives(taken, said)
    await arrives(taken, without_files(said, "reply:"))
    assert seen(taken) == []
    (answer,) = [each for each in taken.said() if "answers" in each]
    assert answer == f"<@{PERSON}> answers\n(removed by its author)"
    (note,) = await taken.notes()
    assert note.endswith("answered: (removed by its author)")
    assert not any("does not begin with `reply:`" in each for each in taken.said(ESCALATIONS))


async def test_file_that_is_taken_out_of_a_held_reply_is_never_shown(taken: HandoverScene) -> None:
    said = replace(remark(taken, "reply: see the log"), files=(attach(taken),))
    await shown(taken, said, without_files(said, "reply: see the log"))
    await taken.send_replies()
    assert seen(taken) == []
    assert carriers(taken) == []


async def test_one_of_two_files_that_is_taken_out_disappears(taken: HandoverScene) -> None:
    first = attach(taken, "a.log")
    second = attach(taken, "b.log", b"b")
    said = replace(remark(taken, "reply: see the logs"), files=(first, second))
    await arrives(taken, said)
    await arrives(taken, replace(without_files(said, said.text), files=(second,)))
    assert seen(taken) == [("b.log", b"b")]


async def test_file_that_the_asker_takes_out_disappears(taken: HandoverScene) -> None:
    said = taken.talk.message("see the log", files=(attach(taken, user=ASKER),))
    await taken.hears(2, said)
    for turn in (await taken.talk.said(without_files(said, said.text))).turns_to_show_again:
        await taken.relay(turn)
    assert seen(taken, ESCALATIONS) == []


async def test_removal_of_a_file_that_arrives_before_its_message_counts(
    taken: HandoverScene,
) -> None:
    said = replace(remark(taken, "reply: see the log"), files=(attach(taken),))
    await arrives(taken, without_files(said, said.text), said)
    assert carriers(taken) == []


async def test_stored_files_are_known_to_the_catch_up(taken: HandoverScene) -> None:
    said = replace(remark(taken, "reply: see the log"), files=(attach(taken),))
    await arrives(taken, said)
    owner = ThreadOwner(handover_workflow_id(taken.ref.thread, taken.ref.turn), HANDOVER)
    card = CatchUpThread(TEAM, ESCALATIONS, await taken.card_ts(), "", owner, "", Decimal(0))
    async with taken.talk.database.begin() as tx:
        found = await HandoverThreads().find_messages(tx, card, [said.id])
    assert [file["id"] for file in found[said.id].files] == [said.files[0].id]


async def try_in_vain(scene: HandoverScene, file: FileRef, *, stored: bool) -> IncomingMessage:
    """A reply whose words are posted; it is unknown whether its file is shown."""
    said = replace(remark(scene, "reply: see the log"), files=(file,))
    await shown(scene, said)
    faults = scene.talk.slack.faults
    (faults.fail_after if stored else faults.fail_before)(COMPLETE)
    with pytest.raises(Transient):
        await scene.send_replies()
    return said


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_file_in_doubt_that_is_taken_out_disappears(
    taken: HandoverScene, is_deleted: bool
) -> None:
    said = await try_in_vain(taken, attach(taken), stored=True)
    deletion = replace(correction(said, MessageKind.DELETION), files=())
    await received(taken, deletion if is_deleted else without_files(said, said.text))
    await taken.send_replies()
    await taken.show_replies()
    assert seen(taken) == []


async def test_file_in_doubt_that_is_taken_out_may_still_arrive(
    taken: HandoverScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = await try_in_vain(taken, attach(taken), stored=False)
    await received(taken, without_files(said, said.text))
    with pytest.raises(Transient):
        await taken.send_replies()
    monkeypatch.setattr(outbox, "RESEND_AFTER", 0.0)
    await taken.send_replies()
    assert carriers(taken) == []
    assert await taken.talk.rows("SELECT key FROM posts WHERE ts IS NULL") == []


async def test_file_in_doubt_is_not_called_unshown_while_slack_refuses_the_search(
    taken: HandoverScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await try_in_vain(taken, attach(taken), stored=True)
    monkeypatch.setattr(outbox, "RESEND_AFTER", 0.0)
    taken.talk.slack.faults.refuse("conversations.replies", "missing_scope")
    with pytest.raises(Mendable):
        await taken.send_replies()
    await taken.send_replies()
    assert seen(taken) == [("error.log", b"it broke")]
    assert not any("Not shown here" in each for each in taken.whole())


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_reply_that_changes_while_its_file_waits_is_sent_as_it_reads_now(
    taken: HandoverScene, is_deleted: bool
) -> None:
    """The press that announces the change ends before the reply does."""
    said = replace(remark(taken, "reply: see the log"), files=(attach(taken),))
    await shown(taken, said)
    taken.talk.slack.faults.refuse("files.info", "invalid_auth")
    with pytest.raises(Mendable):
        await taken.send_replies()
    assert len(await taken.notes()) == 1, "the agent reads the words already"
    deletion = replace(correction(said, MessageKind.DELETION), files=())
    await shown(taken, deletion if is_deleted else edited(said, "look at the log"))
    await taken.send_replies()
    (answer,) = [each for each in taken.said() if "answers" in each]
    (note,) = await taken.notes()
    expected = "(deleted by its author)" if is_deleted else "look at the log"
    assert expected in answer
    assert expected in note
    assert len(seen(taken)) == (0 if is_deleted else 1)


async def test_withdrawn_reply_whose_words_are_in_doubt_is_taken_back(
    taken: HandoverScene,
) -> None:
    said = remark(taken, "reply: you fool")
    await shown(taken, said)
    taken.talk.slack.faults.fail_after("chat.postMessage")
    with pytest.raises(Transient):
        await taken.send_replies()
    await received(taken, correction(said, MessageKind.DELETION))
    await taken.send_replies()
    await taken.show_replies()
    assert not any("you fool" in each for each in taken.whole())
    assert any("(deleted by its author)" in each for each in taken.said())
    (preview,) = taken.previews()
    assert "Not sent" not in str(preview.blocks)


@pytest.mark.parametrize("name", ["log.", "a..", "no suffix", "archive.tar.gz"])
async def test_upload_in_doubt_is_found_under_any_name(taken: HandoverScene, name: str) -> None:
    await try_in_vain(taken, attach(taken, name), stored=True)
    await taken.send_replies()
    assert len(seen(taken)) == 1


async def test_upload_of_a_person_is_not_taken_for_the_bots(
    taken: HandoverScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = attach(taken)
    said = await try_in_vain(taken, file, stored=False)
    theirs = attach(taken, f"error-{file.id}.log", b"mine", ASKER)
    workspace = taken.talk.slack.workspace
    workspace.post(GENERAL, ASKER, "I saved it", thread_ts=taken.ref.thread.ts, files=(theirs.id,))
    monkeypatch.setattr(outbox, "RESEND_AFTER", 0.0)
    await taken.send_replies()
    assert seen(taken) == [("error.log", b"it broke")]
    await arrives(taken, replace(correction(said, MessageKind.DELETION), files=()))
    assert not source(taken, theirs).deleted


@pytest.mark.parametrize("name", ["a", "is", "[x](https://evil.example.com)", "`code`"])
@pytest.mark.parametrize("spoil", [too_large, hidden])
async def test_name_of_an_unshown_file_garbles_no_sentence_and_makes_no_link(
    taken: HandoverScene, name: str, spoil: Spoil
) -> None:
    bad = attach(taken, name)
    bad = replace(bad, name=name)
    spoil(taken, bad)
    await replies(taken, bad)
    (told,) = [each for each in taken.said(ESCALATIONS) if "only named" in each]
    assert any(reason in told for reason in relayed_files.UNSHOWN.values())
    assert bad.id not in told
    whole = str(
        [each.blocks for channel in (GENERAL, ESCALATIONS) for each in taken.talk.posted(channel)]
    )
    assert not re.search(r"(?<!`)\[x\]\(", whole)


async def test_file_in_doubt_holds_up_later_replies_for_a_while_only(
    taken: HandoverScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await try_in_vain(taken, attach(taken), stored=False)
    await shown(taken, remark(taken, "reply: and that is all"))
    taken.talk.slack.faults.fail_before("conversations.replies", 3)
    with pytest.raises(Transient):
        await taken.send_replies()
    monkeypatch.setattr(relayed_files, "MAX_DOUBT", 0.0)
    for _ in range(2):
        await taken.send_replies()
    assert any("and that is all" in each for each in taken.whole() if "answers" in each)
    assert any("error.log" in each for each in taken.whole() if "Not shown here" in each)


def delete_during_download(
    monkeypatch: pytest.MonkeyPatch, delete: Callable[[], Awaitable[object]]
) -> None:
    """The author deletes the message while the first file is fetched."""
    calls = list[object]()

    async def fetch_and_delete(*args: Any, **more: Any) -> bytes:
        content = await fetch(*args, **more)
        calls.append(args)
        if len(calls) == 1:
            await delete()
        return content

    monkeypatch.setattr(relayed_files, "fetch", fetch_and_delete)


async def test_later_files_of_a_reply_that_is_deleted_meanwhile_are_never_shown(
    taken: HandoverScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = replace(
        remark(taken, "reply: see the logs"),
        files=(attach(taken, "a.log"), attach(taken, "b.log")),
    )
    await shown(taken, said)
    deletion = replace(correction(said, MessageKind.DELETION), files=())
    delete_during_download(monkeypatch, partial(received, taken, deletion))
    await taken.send_replies()
    assert [title for title, _ in seen(taken)] == ["a.log"]
    await taken.show_replies()
    assert seen(taken) == []


async def test_later_files_of_a_message_of_the_asker_that_is_deleted_meanwhile_are_never_shown(
    taken: HandoverScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = attach(taken, "a.log", user=ASKER), attach(taken, "b.log", user=ASKER)
    said = taken.talk.message("see the logs", files=files)
    await taken.talk.said(said)
    await taken.talk.begin(2)
    delete_during_download(
        monkeypatch, partial(taken.talk.said, correction(said, MessageKind.DELETION))
    )
    await taken.relay(2)
    assert len(carriers(taken, ESCALATIONS)) == 1
    assert seen(taken, ESCALATIONS) == []
