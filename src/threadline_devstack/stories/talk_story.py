"""The second scene of `threadline demo`: people speak to the bot in a channel, and it works for them with its tools."""

from threadline.db.rate_limit_rules import USER_RATE
from threadline_devstack.slack.identity import BYSTANDER, DEVELOPER, SECOND_DEVELOPER
from threadline_devstack.stories.case_story import Chapter
from threadline_devstack.stories.scene import words_of
from threadline_devstack.stories.talk_scene import TalkScene

CHAIN = "show the project PRJ-1, then create two wbs items for the tester, then update the quote totals"
LOCKED = "use the project PRJ-2"
REFUSED = "create one wbs item for the designer"
LONG = "show the project PRJ-1, then list its wbs items, then list its roles"
STOP = "stop"
TOO_MUCH = "writing faster than I can answer"


async def three_tools(scene: TalkScene) -> None:
    root = await scene.mention(DEVELOPER, CHAIN)
    await scene.until_bot_says(root, "create wbs items", "update quote totals")


async def locked_project(scene: TalkScene) -> None:
    root = await scene.mention(DEVELOPER, LOCKED)
    bound = await scene.until_bot_says(root)
    await scene.reply(DEVELOPER, root, REFUSED)
    await scene.until_bot_says(root, "change nothing here", "locked", after=bound["ts"])


async def stopped(scene: TalkScene) -> None:
    await scene.hold_model()
    root = await scene.mention(SECOND_DEVELOPER, LONG)
    await scene.model_waits()
    said = await scene.reply(SECOND_DEVELOPER, root, STOP)
    await scene.until_delivered()
    await scene.release_model()
    await scene.until_bot_says(root, "stopped, as you asked", after=said)


async def too_much_at_once(scene: TalkScene) -> None:
    roots = [
        await scene.mention(BYSTANDER, f"search the cases for checkout ({number + 1})")
        for number in range(USER_RATE.count + 2)
    ]

    async def dealt_with() -> bool:
        said = [message for root in roots for message in await scene.answers(root)]
        told = sum(TOO_MUCH in words_of(message) for message in said)
        return (len(said) - told, told) == (USER_RATE.count, 1)

    await scene.until(f"{USER_RATE.count} are answered, one of the others is told, and one is not", dealt_with)


TALK_CHAPTERS = (
    Chapter("A mention that chains three tools: read, create, update", three_tools),
    Chapter("A thread about a locked project reads, and changes nothing", locked_project),
    Chapter("“stop” ends a turn after the step under way", stopped),
    Chapter("Too much within a minute is said once, and the rest waits in silence", too_much_at_once),
)
