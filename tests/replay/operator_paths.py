"""The ways of a turn of the operator: it speaks by a tool, asks for the RFP, or goes on where another has failed."""

from tests.replay.conversation_paths import TalkStage, path
from tests.support.scripted_model import calls
from threadline.models.model import ModelReply


@path("begin_turn", "prepare_turn", "analyse_request", "settle_turn spoken", "remember_turn", "result quiet")
async def operator_speaks(stage: TalkStage) -> None:
    talk = stage.talk
    rfp_id = await talk.rfp()
    changes = calls("opportunity.patch:1", "journal.append:1", rfp_id=rfp_id, text="It is submitted.").calls
    said = calls("slack.post.summary:1", text="It is submitted.").calls
    talk.model.replies = [calls("opportunity.load:1", rfp_id=rfp_id), ModelReply(calls=changes + said)]
    await talk.say(f"the proposal for {rfp_id} is submitted")
    await talk.until_said(1)
    await stage.quiet()


@path("begin_turn", "settle_turn asked", "settle_turn proposed", "result quiet")
async def operator_asks_then_proposes(stage: TalkStage) -> None:
    talk = stage.talk
    rfp_id = await talk.rfp()
    talk.model.replies = [calls("opportunity.load:1", "propose.action:1", rfp_id=rfp_id)]
    await talk.say("patch opportunity: it is won")
    await talk.until_said(1)
    await talk.say(rfp_id)
    await talk.until_settled(2)
    await stage.quiet()


@path("begin_turn", "settle_turn answered", "pass_on", "prepare_turn", "result quiet")
async def operator_goes_on(stage: TalkStage) -> None:
    talk = stage.talk
    talk.model.replies = [ModelReply(""), ModelReply(""), ModelReply("It is with the client.")]
    await talk.say("the proposal")
    await talk.until_said(1)
    await stage.quiet()
