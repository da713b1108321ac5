"""The ways through a conversation, each played to its end with a scripted model, and what its history must hold."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from temporalio.client import WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from tests.replay.stage import chain
from tests.support.conversation_memory import AWAY, calls
from tests.support.conversation_workflow import BEN, Talking
from tests.support.temporal import real_time, skipping_time, until
from threadline.conversations.contract import ActRequest, Refusal, ThinkRequest
from threadline.conversations.model.conversation import ConversationLimits
from threadline.errors import Permanent
from threadline.models.model import ModelReply

Server = Callable[[], AbstractAsyncContextManager[WorkflowEnvironment]]

LOST = ApplicationError("The worker was lost.", type="WorkerShutdown", non_retryable=True)


@dataclass
class TalkStage:
    talk: Talking
    runs: list[WorkflowHistory] = field(default_factory=list)

    async def record(self) -> None:
        """Wait for the end of the conversation's run, and keep it with those it continues."""
        self.runs += await chain(self.talk.environment.client, self.talk.handle.id)

    async def quiet(self) -> None:
        """Let a day go by."""
        await self.talk.until_known("Idle since ")
        await self.talk.later(hours=25)
        await self.record()


Play = Callable[[TalkStage], Awaitable[None]]


@dataclass(frozen=True)
class TalkPath:
    play: Play
    holds: tuple[str, ...]
    limits: ConversationLimits
    server: Server

    @property
    def name(self) -> str:
        return self.play.__name__


TALKS: list[TalkPath] = []


def path(
    *holds: str, limits: ConversationLimits | None = None, server: Server = skipping_time
) -> Callable[[Play], Play]:
    def listed(play: Play) -> Play:
        TALKS.append(TalkPath(play, holds, limits or ConversationLimits(), server))
        return play

    return listed


@path("store_messages", "mark_messages eyes", "think", "act", "settle_turn answered", "post_answer", "result quiet")
async def talk_with_tools(stage: TalkStage) -> None:
    talk = stage.talk
    looks = calls("estimates.getProjectDetails:1", "estimates.listRoles:1", read_only=True, text="I look.")
    talk.desk.replies = [looks, calls("estimates.createWbsItems:1"), ModelReply("There are three.")]
    await talk.say("create three")
    await talk.until_said(1)
    await stage.quiet()


@path("settle_turn answered", "timer fired", "result quiet")
async def talk_question_answered(stage: TalkStage) -> None:
    talk = stage.talk
    talk.desk.replies = [ModelReply("Which project?"), ModelReply("Thanks.")]
    await talk.say("what does it cost?")
    await talk.until_known("Waiting for a person: Which project?")
    await talk.say("the second one")
    await talk.until_said(2)
    await stage.quiet()


@path("settle_turn silent", "show_status", "result quiet")
async def talk_between_others(stage: TalkStage) -> None:
    talk = stage.talk
    talk.desk.replies = [ModelReply("Hello."), ModelReply("NO_REPLY", silent=True)]
    await talk.say("hello")
    await talk.until_said(1)
    await talk.say("Anna, did you see the match?", BEN, addressed=False)
    await talk.until(lambda: 2 in talk.desk.settled, "the turn is settled")
    await stage.quiet()


@path("store_messages", "result ignored")
async def talk_for_nobody(stage: TalkStage) -> None:
    await stage.talk.say("does anybody know?", addressed=False)
    await stage.record()


@path("mark_messages repeat", "mark_messages hourglass", "post_word throttled", "result quiet")
async def talk_too_much(stage: TalkStage) -> None:
    talk = stage.talk
    verdicts = {"again": Refusal.DUPLICATE, "11": Refusal.THROTTLED_FIRST, "12": Refusal.THROTTLED}
    talk.desk.judge = lambda message: verdicts.get(message.text)
    await talk.say("hello")
    await talk.until_said(1)
    for text in verdicts:
        await talk.say(text)
    await talk.until(lambda: sum(len(marker.items) for marker in talk.desk.markers) == 4, "all are marked")
    await talk.until(lambda: talk.desk.words, "the writer is told")
    await stage.quiet()


@path("failed act WorkerShutdown", "settle_turn summarised")
async def talk_with_a_call_that_broke_off(stage: TalkStage) -> None:
    talk = stage.talk
    talk.desk.replies = [calls("ci.rerun:1"), ModelReply(), ModelReply()]
    talk.desk.tools = {"ci.rerun": LOST}
    await talk.say("run it again")
    await talk.until_said(1)
    await stage.quiet()


@path("failed think Permanent", "settle_turn failed", "post_answer")
async def talk_with_a_wrong_key(stage: TalkStage) -> None:
    talk = stage.talk
    talk.desk.replies = [Permanent("My key for the language model is not accepted.")]
    await talk.say("hello")
    await talk.until_said(1)
    await stage.quiet()


@path("failed think Transient", "post_word model_away", "timer fired", "settle_turn answered")
async def talk_with_a_model_that_comes_back(stage: TalkStage) -> None:
    talk = stage.talk
    talk.desk.replies = [*[AWAY] * 3, ModelReply("There I am.")]
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
    talk.desk.replies = [calls("create:1"), *[AWAY] * 5]
    await talk.say("create one")
    await talk.until_known("waiting for the model")
    await talk.later(minutes=2)
    await talk.until_said(1)
    await stage.quiet()


@path("failed think Transient", "settle_turn stopped")
async def talk_stopped_while_the_model_is_away(stage: TalkStage) -> None:
    talk = stage.talk
    talk.desk.replies = [AWAY, AWAY]
    await talk.say("create one")
    await talk.until_known("waiting for the model")
    await talk.stop()
    await talk.until_said(1)
    await stage.quiet()


@path("cancelled think", "timer fired", "settle_turn stopped")
async def talk_stopped_while_the_model_thinks(stage: TalkStage) -> None:
    talk, thinking = stage.talk, asyncio.Event()

    async def hang(_: ThinkRequest) -> ModelReply:
        thinking.set()
        await asyncio.Event().wait()
        raise AssertionError

    talk.desk.replies = [hang] * 5
    await talk.say("create one")
    await thinking.wait()
    await talk.stop()
    await talk.until_stored(2)
    await talk.later(seconds=31)
    await talk.until_said(1)
    await talk.until_known("Idle since ")
    await talk.handle.cancel()
    await stage.record()


@path("settle_turn stopped", "post_answer")
async def talk_stopped_between_two_calls(stage: TalkStage) -> None:
    talk = stage.talk

    async def create(_: ActRequest) -> str:
        await talk.stop()

        async def heard() -> bool:
            return len(talk.desk.rows) > 1 and (await talk.handle.query("state"))["pending"] == 0

        await until(heard, "the stop is stored")
        return "done"

    talk.desk.replies, talk.desk.tools = [calls("create:1", "create:2")], {"create": create}
    await talk.say("create two")
    await talk.until_said(1)
    await stage.quiet()


@path("cancel requested", "cancelled think", "settle_turn stopped", "result cancelled", server=real_time)
async def talk_cancelled(stage: TalkStage) -> None:
    talk, thinking = stage.talk, asyncio.Event()

    async def hang(_: ThinkRequest) -> ModelReply:
        thinking.set()
        await asyncio.Event().wait()
        raise AssertionError

    talk.desk.replies = [calls("create:1"), hang]
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
        await asyncio.Event().wait()

    talk.desk.hooks["settle_turn"] = [stay]
    await talk.say("one")
    await settled.wait()
    await talk.handle.terminate("by hand")
    await talk.say("two")
    await talk.until_said(2)
    await talk.until_known("Idle since ")
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
    talk.desk.replies = [reply for number in range(3) for reply in (calls(f"look:{number}"), ModelReply("Looked."))]
    for number in range(1, 4):
        await talk.say(f"look {number}")
        await talk.until_said(number)
    await talk.until_known("Idle since ")
    await talk.handle.cancel()
    await stage.record()
