"""The ways through a conversation, each played to its end with a scripted model, and what its history must hold."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from temporalio.client import WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from tests.replay.stage import chain
from tests.support.conversation_scene import BEN, ConversationScene
from tests.support.scripted_model import AWAY, SILENT, calls
from tests.support.temporal import real_time, skipping_time
from threadline.conversations.contract import ThinkRequest
from threadline.conversations.model.conversation import ConversationLimits
from threadline.errors import Permanent
from threadline.models.model import ModelReply

Server = Callable[[], AbstractAsyncContextManager[WorkflowEnvironment]]

LOST = ApplicationError("The worker was lost.", type="WorkerShutdown", non_retryable=True)


@dataclass
class TalkStage:
    talk: ConversationScene
    runs: list[WorkflowHistory] = field(default_factory=list)

    async def record(self) -> None:
        """Wait for the end of the conversation's run, and keep it with those it continues."""
        self.runs += await chain(self.talk.environment.client, self.talk.handle.id)

    async def quiet(self) -> None:
        """Let a day go by."""
        await self.talk.until_idle()
        await self.talk.later(hours=25)
        await self.record()


Play = Callable[[TalkStage], Awaitable[None]]


@dataclass(frozen=True)
class TalkPath:
    play: Play
    holds: tuple[str, ...]
    limits: ConversationLimits
    server: Server
    decides: bool

    @property
    def name(self) -> str:
        return self.play.__name__


TALKS: list[TalkPath] = []


def path(
    *holds: str, limits: ConversationLimits | None = None, server: Server = skipping_time, decides: bool = False
) -> Callable[[Play], Play]:
    def listed(play: Play) -> Play:
        TALKS.append(TalkPath(play, holds, limits or ConversationLimits(), server, decides))
        return play

    return listed


@path("store_messages", "mark_messages eyes", "think", "act", "settle_turn answered", "post_answer", "result quiet")
async def talk_with_tools(stage: TalkStage) -> None:
    talk = stage.talk
    looks = calls("estimates.getProjectDetails:1", "estimates.listRoles:1", says="I look.")
    talk.model.replies = [looks, calls("estimates.createWbsItems:1"), ModelReply("There are three.")]
    await talk.say("create three")
    await talk.until_said(1)
    await stage.quiet()


@path("settle_turn answered", "timer fired", "result quiet")
async def talk_question_answered(stage: TalkStage) -> None:
    talk = stage.talk
    talk.model.replies = [ModelReply("Which project?"), ModelReply("Thanks.")]
    await talk.say("what does it cost?")
    await talk.until_known("Waiting for a person: Which project?")
    await talk.say("the second one")
    await talk.until_said(2)
    await stage.quiet()


@path("settle_turn silent", "show_status", "result quiet")
async def talk_between_others(stage: TalkStage) -> None:
    talk = stage.talk
    talk.model.replies = [ModelReply("Hello."), SILENT]
    await talk.say("hello")
    await talk.until_said(1)
    await talk.say("Anna, did you see the match?", BEN, addressed=False)
    await talk.until_settled(2)
    await stage.quiet()


@path("store_messages", "result ignored")
async def talk_for_nobody(stage: TalkStage) -> None:
    await stage.talk.say("does anybody know?", addressed=False)
    await stage.record()


@path("mark_messages repeat", "mark_messages hourglass", "post_word throttled", "result quiet")
async def talk_too_much(stage: TalkStage) -> None:
    talk = stage.talk
    await talk.say("0")
    await talk.until_said(1)
    for message in (talk.message("0", apart=1), *(talk.message(f"{number}", apart=1) for number in range(1, 11))):
        await talk.send(message)
    await talk.until(lambda: sum(map(len, talk.marked.values())) == 12, "all are marked")
    await talk.until(lambda: talk.words, "the author is told")
    await stage.quiet()


@path("failed act WorkerShutdown", "settle_turn summarised")
async def talk_with_a_call_that_broke_off(stage: TalkStage) -> None:
    talk = stage.talk
    talk.model.replies = [calls("ci.rerun:1"), ModelReply(), ModelReply()]

    async def lost() -> None:
        raise LOST

    talk.steps.before["act"] = [lost]
    await talk.say("run it again")
    await talk.until_said(1)
    await stage.quiet()


@path("failed think Permanent", "settle_turn failed", "post_answer")
async def talk_with_a_wrong_key(stage: TalkStage) -> None:
    talk = stage.talk
    talk.model.replies = [Permanent("My key for the language model is not accepted.")]
    await talk.say("hello")
    await talk.until_said(1)
    await stage.quiet()


@path("failed think Transient", "post_word model_away", "timer fired", "settle_turn answered")
async def talk_with_a_model_that_comes_back(stage: TalkStage) -> None:
    talk = stage.talk
    talk.model.replies = [*[AWAY] * 3, ModelReply("There I am.")]
    await talk.say("hello")
    await talk.until_known("waiting for the model")
    await talk.later(minutes=10)
    await talk.until_said(1)
    await stage.quiet()


@path(
    "failed think Transient",
    "post_word model_away",
    "settle_turn failed",
    limits=ConversationLimits(model_patience=100),
)
async def talk_with_a_model_that_stays_away(stage: TalkStage) -> None:
    talk = stage.talk
    talk.model.replies = [calls("create:1"), *[AWAY] * 5]
    await talk.say("create one")
    await talk.until_known("waiting for the model")
    await talk.later(minutes=2)
    await talk.until_said(1)
    await stage.quiet()


@path("failed think Transient", "settle_turn stopped")
async def talk_stopped_while_the_model_is_away(stage: TalkStage) -> None:
    talk = stage.talk
    talk.model.replies = [AWAY, AWAY]
    await talk.say("create one")
    await talk.until_known("waiting for the model")
    await talk.stop()
    await talk.until_said(1)
    await stage.quiet()


@path("cancelled think", "timer fired", "settle_turn stopped")
async def talk_stopped_while_the_model_thinks(stage: TalkStage) -> None:
    talk, thinking = stage.talk, asyncio.Event()

    async def hang() -> None:
        thinking.set()
        await talk.forever()

    talk.steps.before["think"] = [hang] * 5
    await talk.say("create one")
    await thinking.wait()
    await talk.stop()
    await talk.until_stored(2)
    await talk.later(seconds=31)
    await talk.until_said(1)
    await talk.until_idle()
    await talk.handle.cancel()
    await stage.record()


@path("settle_turn stopped", "post_answer")
async def talk_stopped_between_two_calls(stage: TalkStage) -> None:
    talk = stage.talk

    async def create(_: object) -> str:
        await talk.stop_heard()
        return "done"

    talk.model.replies, talk.tools["create"] = [calls("create:1", "create:2")], create
    await talk.say("create two")
    await talk.until_said(1)
    await stage.quiet()


@path("cancel requested", "cancelled think", "settle_turn stopped", "result cancelled", server=real_time)
async def talk_cancelled(stage: TalkStage) -> None:
    talk, thinking = stage.talk, asyncio.Event()

    async def hang(_: ThinkRequest) -> ModelReply:
        thinking.set()
        await talk.forever()
        raise AssertionError

    talk.model.replies = [calls("create:1"), hang]
    await talk.say("create one")
    await thinking.wait()
    await talk.say("and another")
    await talk.handle.cancel()
    await stage.record()


@path("post_answer", "settle_turn answered", "result cancelled", server=real_time)
async def talk_left_unsaid(stage: TalkStage) -> None:
    talk, settled = stage.talk, asyncio.Event()

    async def stay() -> None:
        settled.set()
        await talk.forever()

    talk.steps.after["settle_turn"] = [stay]
    await talk.say("one")
    await settled.wait()
    await talk.handle.terminate("by hand")
    await talk.say("two")
    await talk.until_said(2)
    await talk.until_idle()
    await talk.handle.cancel()
    await stage.record()


@path(
    "continued as new",
    "signal incoming_message",
    "settle_turn answered",
    "result cancelled",
    limits=ConversationLimits(history_events=25),
    server=real_time,
)
async def talk_continued_as_new(stage: TalkStage) -> None:
    talk = stage.talk
    talk.model.replies = [reply for number in range(3) for reply in (calls(f"look:{number}"), ModelReply("Looked."))]
    for number in range(1, 4):
        await talk.say(f"look {number}")
        await talk.until_said(number)
    await talk.until_idle()
    await talk.handle.cancel()
    await stage.record()
