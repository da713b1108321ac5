"""People write, delete and stop while a call of the model is prepared or in flight."""

import asyncio

import pytest

from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from threadline.conversations.model.conversation import ConversationOutcome, OutcomeKind
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import DELETED, TranscriptStore
from threadline.errors import Permanent, Transient
from threadline.models.client import OpenAIModel
from threadline.models.model import Completion, Message, ModelReply, Role
from threadline.slack.model import User
from threadline.slack.users import UserDirectory
from threadline.threads.model import IncomingMessage
from threadline_devstack.slack.identity import BYSTANDER

__all__ = ["make_talk", "talk"]


def asked(talk: ConversationActivityScene) -> list[str]:
    """The messages of people in the model's last call."""
    return [str(each["content"]) for each in talk.sent() if each.get("role") == "user"]


async def test_message_sent_while_the_model_is_away_is_in_the_next_call(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("what do we have here, please?")
    talk.model.fail_next(1, status=503)
    with pytest.raises(Transient):
        await talk.think()
    await talk.said("List the lamps.")
    second = await talk.think(step=2)
    assert asked(talk) == ["what do we have here, please?", "List the lamps."]
    assert second.reply.calls
    begun_anew = await talk.think(step=1)
    assert (begun_anew.step, begun_anew.reply) == (2, second.reply), "no reply is paid for twice"
    await talk.act(second.reply.calls[0], step=begun_anew.step)
    assert [key[:4] for key, _ in await talk.transcript() if not key.startswith("u:")] == [
        "c:1",
        "a:1:",
        "t:1:",
    ]


@pytest.mark.parametrize("over", ["settled", "gone on"])
async def test_reply_that_comes_after_its_step_is_counted_and_not_stored(
    talk: ConversationActivityScene, monkeypatch: pytest.MonkeyPatch, over: str
) -> None:
    asking = asyncio.Event()
    answering = asyncio.Event()

    async def late(*_: object, **__: object) -> Completion:
        asking.set()
        await answering.wait()
        return Completion(ModelReply("I have made it."))

    await talk.said("Create a lamp.")
    with monkeypatch.context() as patched:
        patched.setattr(OpenAIModel, "ask", late)
        thinking = asyncio.create_task(talk.think())
        await asking.wait()
        if over == "settled":
            await talk.settle(
                ConversationOutcome(OutcomeKind.STOPPED, "I have stopped, as you asked.")
            )
        else:
            async with talk.database.begin() as tx:
                await MessageStore(tx).take_up(talk.thread, 1, 2)
        answering.set()
        await thinking
    assert not [key for key, _ in await talk.transcript() if key.startswith(("a:", "n:"))]
    assert len(await talk.rows("SELECT id FROM model_calls")) == 1


async def test_model_is_not_called_for_a_settled_turn(talk: ConversationActivityScene) -> None:
    await talk.said("Create a lamp.")
    await talk.settle(ConversationOutcome(OutcomeKind.STOPPED, "I have stopped, as you asked."))
    before = await talk.transcript()
    with pytest.raises(Permanent, match="has already ended"):
        await talk.think()
    assert (await talk.transcript(), len(talk.model.log)) == (before, 0)


async def test_message_deleted_while_names_are_looked_up_is_not_stored(
    talk: ConversationActivityScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = talk.message("my password is in here")
    deleted: list[IncomingMessage] = []

    async def get_known(_: UserDirectory, user_id: str) -> User | None:
        if not deleted:
            deleted.append(talk.deletion(secret))
            async with talk.database.begin() as tx:
                await MessageStore(tx).store(talk.thread, deleted)
        return None

    await talk.said(secret, talk.message("and what is that?", sender_id=BYSTANDER))
    monkeypatch.setattr(UserDirectory, "get_known", get_known)
    await talk.think()
    assert "password" not in str(talk.sent())
    texts = {key: message.content for key, message in await talk.transcript()}
    assert deleted
    assert texts[f"u:{secret.id}"] == DELETED
    assert "password" not in str(texts)


async def test_deletion_during_a_turn_sends_no_more_of_the_past(
    talk: ConversationActivityScene,
) -> None:
    first = talk.message("it all began with a secret")
    await talk.said(first)
    await talk.answer()
    old = [
        (f"t:1:9:{number}", Message(Role.USER, f"old remark {number}.")) for number in range(30)
    ]
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).append(talk.thread, 1, 9, old)
        last = (await TranscriptStore(tx).read(talk.thread)).messages[-1].position
        await TranscriptStore(tx).replace_with_summary(
            talk.thread, "They spoke of a secret.", last
        )
    await talk.said("List the lamps.")
    thought = await talk.think(2)
    assert "They spoke of a secret." in str(talk.sent())
    await talk.act(thought.reply.calls[0], 2)
    await talk.said(talk.deletion(first))
    await talk.think(2, 2)
    assert asked(talk) == ["List the lamps."]
    assert "secret" not in str(talk.sent())
