"""The third scene of `threadline demo`: people ask about requests for proposals (RFPs), and have them changed.

Each chapter looks into Postgres for what was claimed in Slack.
"""

import base64

from threadline.operator.model.routing import Agent
from threadline.operator.model.scope import Branch
from threadline.rfps.model import EntryKind, RfpStatus
from threadline_devstack.slack.identity import DEVELOPER, ON_CALL, REPORTER, SECOND_DEVELOPER
from threadline_devstack.stories.case_story import Chapter
from threadline_devstack.stories.operator_scene import OperatorScene, require
from threadline_devstack.stories.scene import words_of

SUBMITTED = "Update the status to proposal submitted for rfp_abc123"
CAPABILITIES = "What can you do?"
UPLOAD = "Upload this file as a new opportunity"
LINK = "link rfp_xyz789"
STATUS = "What's the status?"
ENTRY = "the client has invited us to present on Thursday."
UNKNOWN = "What's the status of rfp_abc124?"
FILE_NAME = "harbour-monitoring.txt"
FILE = """\
Request for proposals: Harbour monitoring

The port of Eastbay asks for proposals for a system that watches water levels, wind and berths. Proposals are due on
2027-03-31. They describe the sensors, the software, the people who will do the work, and what it costs in each year.
"""


async def status_updated(scene: OperatorScene) -> None:
    before = await scene.state("rfp_abc123")
    root = await scene.mention(REPORTER, SUBMITTED)
    await scene.until_bot_says(root, "proposal submitted", "rfp_abc123")
    state = await scene.state("rfp_abc123")
    require(state.document["status"] == RfpStatus.PROPOSAL_SUBMITTED, f"the status is {state.document['status']}")
    require(state.version == before.version + 1, f"the state went from version {before.version} to {state.version}")
    kinds = [(entry.rfp_id, entry.kind, entry.author.user_id) for entry in await scene.written(root, 1)]
    require(kinds == [("rfp_abc123", EntryKind.DECISION, REPORTER)], f"the journal has {kinds} of this turn")
    result = (await scene.until_over(root)).result or {}
    tools = ["opportunity.load", "opportunity.patch", "journal.append", "slack.post.summary"]
    require(result["tools"] == tools, f"these tools were called: {result['tools']}")
    await scene.said_once(root)


async def capabilities(scene: OperatorScene) -> None:
    root = await scene.mention(DEVELOPER, CAPABILITIES)
    await scene.until_bot_says(root, "I can")
    plan = await scene.until_over(root)
    way = (plan.route.branch, plan.route.agent, plan.route.scope.rfp_id)
    require(way == (Branch.A, Agent.COPILOT, ""), f"it went by {plan.route.about}")
    require(not await scene.written(root, 1), "a question about the bot was written into a journal")
    await scene.said_once(root)


async def uploaded_file(scene: OperatorScene) -> None:
    content = base64.b64encode(FILE.encode()).decode()
    uploaded = await scene.slack.post("files", user=REPORTER, name=FILE_NAME, content_base64=content)
    root = await scene.mention(REPORTER, UPLOAD, files=[uploaded["file"]["id"]])
    await scene.until_bot_says(root, FILE_NAME, "rfp_")
    rfp_id = await scene.bound(root)
    require(rfp_id, "the thread is not about the new RFP")
    state = await scene.state(rfp_id)
    require(state.document["status"] == RfpStatus.NEW, f"the new RFP is {state.document['status']}")
    result = (await scene.until_over(root)).result or {}
    tools = ["slack.get.thread", "rfp.create.from.slack.file"]
    require(result["tools"] == tools, f"these tools were called: {result['tools']}")
    await scene.said_once(root)


async def bound_thread(scene: OperatorScene) -> None:
    root = await scene.mention(SECOND_DEVELOPER, LINK)
    linked = await scene.until_bot_says(root, "is now bound to", "rfp_xyz789")
    require(await scene.bound(root) == "rfp_xyz789", "the thread is not bound")
    before = await scene.state("rfp_xyz789")
    await scene.reply(SECOND_DEVELOPER, root, STATUS)
    answer = await scene.until_bot_says(root, "Customer portal", after=linked["ts"])
    written = await scene.written(root, 2)
    kinds = [(entry.rfp_id, entry.kind) for entry in written]
    require(kinds == [("rfp_xyz789", EntryKind.SAID)], f"the journal has {kinds} of this turn")
    require(written[0].text.split()[:4] == words_of(answer).split()[:4], "the journal has other words than Slack")
    require(await scene.state("rfp_xyz789") == before, "a question has changed the state")
    await scene.said_once(root, 2)


async def which_rfp(scene: OperatorScene) -> None:
    root = await scene.mention(ON_CALL, f"add to journal: {ENTRY}")
    asked = await scene.until_bot_says(root, "Which RFP is this about?")
    require(not await scene.written(root, 1), "something was written before the RFP was known")
    await scene.reply(ON_CALL, root, "rfp_tix456")
    await scene.until_bot_says(root, "journal", "rfp_tix456", after=asked["ts"])
    written = [(entry.rfp_id, entry.text) for entry in await scene.written(root, 2)]
    require(written == [("rfp_tix456", ENTRY)], f"this was written: {written}")
    await scene.said_once(root, 2)


async def unknown_rfp(scene: OperatorScene) -> None:
    root = await scene.mention(DEVELOPER, UNKNOWN)
    await scene.until_bot_says(root, "There is no RFP rfp_abc124", "rfp_abc123", "Nothing was done")
    result = (await scene.until_over(root)).result or {}
    require(result["steps"] == 0 and not result["tools"], f"a model was asked, or a tool called: {result}")
    await scene.said_once(root)


OPERATOR_CHAPTERS = (
    Chapter("“Update the status”: the state is patched, the journal says so, and then the thread", status_updated),
    Chapter("“What can you do?” goes to the conversational agent", capabilities),
    Chapter("“Upload this file as a new opportunity”: the file in the thread becomes an RFP", uploaded_file),
    Chapter("A thread is bound to an RFP, and a question about it is answered from its state", bound_thread),
    Chapter("A change without an RFP is asked back about, and the answer goes on with it", which_rfp),
    Chapter("An RFP that does not exist is refused with the nearest id", unknown_rfp),
)
