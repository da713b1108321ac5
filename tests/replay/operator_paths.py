"""The ways of a turn of the operator: it speaks by a tool, asks for the RFP, or goes on where another has failed."""

from tests.replay.conversation_paths import TalkStage, path
from tests.support.conversation_memory import calls
from threadline.conversations.model.conversation import ConversationMarks
from threadline.conversations.operator_contract import Begun
from threadline.models.model import ModelReply, OutcomeKind
from threadline.operator.model.protocol import ProtocolState
from threadline.operator.model.routing import Agent

_OPERATOR = Begun(
    ConversationMarks(),
    Agent.OPERATOR,
    ProtocolState(scope="rfp_abc123"),
    about="branch D, operator, rfp_abc123 (from the message)",
    correlation_id="T1:C1:1700000000.000100:1",
    max_turns=8,
)


@path("begin_turn", "prepare_turn", "analyse_request", "settle_turn spoken", "remember_turn", "result quiet")
async def operator_speaks(stage: TalkStage) -> None:
    talk = stage.talk
    talk.desk.ways[1] = _OPERATOR
    talk.desk.replies = [
        calls("opportunity.load:1", read_only=True),
        calls("opportunity.patch:1", "journal.append:1", "slack.post.summary:1"),
    ]
    await talk.say("the proposal for rfp_abc123 is submitted")
    await talk.until_said(1)
    await stage.quiet()


@path("begin_turn", "settle_turn asked", "settle_turn proposed", "result quiet")
async def operator_asks_then_proposes(stage: TalkStage) -> None:
    talk = stage.talk
    talk.desk.ways[1] = Begun(ConversationMarks(), Agent.OPERATOR, ProtocolState(), OutcomeKind.ASKED)
    talk.desk.ways[2] = _OPERATOR
    talk.desk.replies = [calls("opportunity.load:1", "propose.action:1")]
    await talk.say("patch opportunity: it is won")
    await talk.until(lambda: 1 in talk.desk.settled, "the turn is settled")
    await talk.say("rfp_abc123")
    await talk.until(lambda: 2 in talk.desk.settled, "the turn is settled")
    await stage.quiet()


@path("begin_turn", "settle_turn answered", "pass_on", "prepare_turn", "result quiet")
async def operator_goes_on(stage: TalkStage) -> None:
    talk = stage.talk
    talk.desk.ways[1] = Begun(ConversationMarks(), falls_through=True)
    talk.desk.replies = [ModelReply(""), ModelReply(""), ModelReply("It is with the client.")]
    await talk.say("the proposal")
    await talk.until_said(1)
    await stage.quiet()
