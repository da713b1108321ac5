"""The story that `threadline demo` plays and the journey tests assert: one case, from a vague report to its end."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from threadline.cases.model import CaseStatus, Reason
from threadline.errors import Permanent
from threadline.threads.model import SenderType
from threadline_devstack.fix_check import Proof, prove
from threadline_devstack.slack.identity import BYSTANDER, DEVELOPER, REPORTER, REPORTS, SECOND_DEVELOPER, SUMMARIES
from threadline_devstack.stories.case_scene import Scene
from threadline_devstack.stories.scene import Watching

Place = TypeVar("Place", bound=Watching)

VAGUE = "Something is broken since yesterday."
ANSWER = "It is the cart: its total is too high when I use the discount code SAVE10."
SECOND_THOUGHT = "I had twelve notebooks in it. With nine notebooks the total is right."
THIRD_PARTY = "It works for me, did you reload the page?"
DEVELOPERS_VIEW = "I can reproduce it: it takes both a code and a bulk price."
FIX_REQUEST = "Please fix it and open a pull request."
VERDICT = "The fix is merged and verified: it works."
AGAIN = "It is back: fifteen notebooks and SAVE10, and the total is too high."
NEVER_MIND = "never mind"


@dataclass(frozen=True)
class Chapter(Generic[Place]):
    """One step of the story; `play` raises `NotSeen` when something in it does not happen."""

    title: str
    play: Callable[[Place], Awaitable[None]]


async def vague_report(scene: Scene) -> None:
    await scene.write_report(VAGUE)
    await scene.until("the report has an :eyes: reaction", lambda: _has_reaction(scene, "eyes"))
    await scene.until_bot_says(scene.bug_id)
    await scene.until_status(CaseStatus.AWAITING_REPORTER, "the agent asks the reporter")
    await scene.until_bot_says("which part of the product", "?")


async def answer_and_second_thought(scene: Scene) -> None:
    await scene.hold_agent()
    await scene.reply(REPORTER, ANSWER)
    await scene.agent_waits()
    await scene.reply(REPORTER, SECOND_THOUGHT)
    await scene.until_stored(SECOND_THOUGHT, "reporter")
    await scene.release_agent()
    await scene.until_status(CaseStatus.PENDING_VERIFICATION, "findings are posted for the developers")
    await scene.until_bot_says("SAVE10", "notebooks", "cart.py", channel=SUMMARIES)


async def third_party(scene: Scene) -> None:
    before = (await scene.case(), await _said_by_people(scene))
    await scene.reply(BYSTANDER, THIRD_PARTY)
    await scene.until_delivered()
    if (await scene.case(), await _said_by_people(scene)) != before:
        raise Permanent("a third party's reply has changed the case")


async def fix(scene: Scene) -> None:
    said = await scene.discuss(DEVELOPER, DEVELOPERS_VIEW)
    asked = await scene.discuss(SECOND_DEVELOPER, FIX_REQUEST)
    await scene.until_stored(DEVELOPERS_VIEW, "developer")
    await scene.until_stored(FIX_REQUEST, "developer")
    request = await scene.until("a pull request is recorded", scene.pull_request)
    await scene.until_bot_says("is proposed", channel=SUMMARIES)
    await scene.until_used(said, asked)
    await scene.until_status(CaseStatus.PENDING_VERIFICATION, "the fix waits for a developer's word")
    proof = await proof_of(scene, request.branch)
    if not proof.holds:
        raise Permanent(f"the branch {request.branch} does not fix {proof.test}:\n{proof.output}")


async def proof_of(scene: Scene, branch: str) -> Proof:
    return await prove(scene.stack.home.repository, branch, "shop/cart.py")


async def verdict(scene: Scene) -> None:
    said = await scene.discuss(DEVELOPER, VERDICT)
    await scene.until_status(CaseStatus.RESOLVED, "the developer's word resolves the case")
    await scene.until_bot_says(channel=REPORTS, after=said)


async def reopened(scene: Scene) -> None:
    await scene.until_workflow_ended()
    await scene.hold_agent()
    await scene.reply(REPORTER, AGAIN)
    await scene.until("the case is reopened", lambda: _went(scene, Reason.REOPENED))
    await scene.agent_waits()


async def never_mind(scene: Scene) -> None:
    said = await scene.reply(REPORTER, NEVER_MIND)
    await scene.until("the reporter's word closes the case", lambda: _went(scene, Reason.REPORTER_CLOSED))
    await scene.until_bot_says(channel=REPORTS, after=said)
    await scene.until_workflow_ended()
    await scene.until("the agent's files are gone", lambda: _no_workspace(scene))
    if any(entry.text == THIRD_PARTY for entry in await scene.conversation()):
        raise Permanent("a third party's reply was stored")


CHAPTERS = (
    Chapter("A vague report is met with a question", vague_report),
    Chapter("An answer, and a second message while the agent works: the findings use both", answer_and_second_thought),
    Chapter("A third party's reply changes nothing", third_party),
    Chapter("Two quick messages by developers: the second asks for the fix, and gets a pull request", fix),
    Chapter("A developer's word resolves the case, and the reporter is told", verdict),
    Chapter("The reporter writes again: the case is reopened", reopened),
    Chapter("“never mind” closes it at once, while the agent works", never_mind),
)


async def _said_by_people(scene: Scene) -> list[str]:
    return [entry.text for entry in await scene.conversation() if entry.sender_type != SenderType.BOT]


async def _has_reaction(scene: Scene, name: str) -> bool:
    report = (await scene.thread(REPORTS))[0]
    return any(reaction["name"] == name for reaction in report.get("reactions", []))


async def _went(scene: Scene, reason: Reason) -> bool:
    return any(step.reason == reason for step in await scene.transitions())


async def _no_workspace(scene: Scene) -> bool:
    return not scene.workspaces
