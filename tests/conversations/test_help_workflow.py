"""A help's buttons: a press is a message of the person who pressed, answered once."""

from typing import Any

import aiohttp

from tests.gateway.conftest import ROUTING
from tests.support.conversation_scene import ANNA, BEN, ConversationScene, conversation
from tests.support.scripted_model import calls
from threadline.conversations.activities import RECEIVED_REACTION
from threadline.conversations.help import ASK_EXAMPLE
from threadline.conversations.model.conversation import OutcomeKind
from threadline.db.engine import Database
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.models.model import ModelReply
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.model import AuthorRefusal
from threadline.slack.users import UserDirectory
from threadline.threads.authors import AuthorPolicy
from threadline.threads.contract import Handled
from threadline_devstack.slack.identity import BOT_TOKEN, GENERAL
from threadline_devstack.slack.interactions import Interactions
from threadline_devstack.slack.model import SandboxUser

GUEST = SandboxUser("U0GUEST", "guest", "guest", is_restricted=True)


def buttons(scene: ConversationScene) -> list[dict[str, Any]]:
    """The buttons under the bot's last post."""
    blocks = help_post(scene).blocks
    return [dict(each) for block in blocks for each in block.get("elements", ())]


def help_post(scene: ConversationScene) -> Any:
    posts = scene.slack.workspace.channel(GENERAL).messages.values()
    return next(each for each in reversed(posts) if each.bot_id and len(each.blocks) > 1)


async def press(scene: ConversationScene, user: str, number: int = 1) -> Handled:
    """Press an example as Slack and the gateway do."""
    scene.clock.now += 1
    interactions = Interactions(scene.slack.workspace, scene.clock)
    button = f"{ASK_EXAMPLE}:{number}"
    payload = interactions.click(user, GENERAL, help_post(scene).ts, button)
    async with aiohttp.ClientSession() as session:
        client = SlackClient(make_web_client(BOT_TOKEN, scene.slack.api_url, session))
        authors = AuthorPolicy(UserDirectory(client.user))
        threads = ThreadLookup(scene.database)
        router = EventRouter(ROUTING, scene.environment.client, threads, authors)
        return await router.handle(payload)


async def test_greeting_is_answered_with_a_help_that_has_buttons(database: Database) -> None:
    async with conversation(database) as scene:
        said = await scene.ask("hi")
        assert said.startswith("Hi there! :wave: Ask me in plain words")
        assert len(said.splitlines()) <= 6
        labels = [each["text"]["text"] for each in buttons(scene)]
        assert "Which RFPs are open?" in labels
        assert labels == [each["value"] for each in buttons(scene)]
        assert (await scene.until_settled(1)).kind is OutcomeKind.REPLIED_BY_RULE
        assert scene.asked == []


async def test_pressed_example_is_answered_once_with_the_name_of_the_person(
    database: Database,
) -> None:
    async with conversation(database, ModelReply("There are two.")) as scene:
        asked = await scene.say("help")
        await scene.until_said(1)
        example = buttons(scene)[0]["value"]
        assert (await press(scene, BEN)).signalled
        assert await scene.until_said(2) == f"_developer asked:_ {example}\n\nThere are two."
        assert await scene.prompts() == [(2, example)]
        assert (await scene.until_settled(2)).user_id == BEN
        assert (await press(scene, BEN)).signalled, "Slack gets its acknowledgement again"
        await scene.until_idle()
        assert sorted(await scene.answers()) == [1, 2]
        stored = await scene.rows(
            "SELECT sender_id, message_text, addressed FROM conversation_messages ORDER BY seq"
        )
        assert [tuple(each) for each in stored] == [(ANNA, "help", True), (BEN, example, True)]
        assert scene.marked == {RECEIVED_REACTION: [asked.ts]}


async def test_two_people_may_ask_the_same_example(database: Database) -> None:
    async with conversation(database, ModelReply("Two."), ModelReply("Two, again.")) as scene:
        await scene.ask("help")
        await press(scene, BEN)
        assert (await scene.until_said(2)).startswith("_developer asked:_ ")
        await press(scene, ANNA)
        assert (await scene.until_said(3)).startswith("_reporter asked:_ ")


async def test_press_of_a_guest_is_refused(database: Database) -> None:
    async with conversation(database) as scene:
        scene.slack.workspace.add_user(GUEST)
        await scene.ask("help")
        refused = await press(scene, GUEST.id)
        assert refused == Handled(AuthorRefusal.GUEST)
        assert await scene.rows("SELECT 1 FROM conversation_messages WHERE turn = 2") == []


async def test_press_while_a_turn_works_gets_a_turn_of_its_own(database: Database) -> None:
    async with conversation(database, ModelReply("Done."), ModelReply("Two.")) as scene:
        await scene.ask("help")

        async def look_while_ben_presses(_: object) -> ModelReply:
            await press(scene, BEN)
            await scene.until_stored(3)
            return calls("look")

        scene.model.replies.insert(0, look_while_ben_presses)
        await scene.say("what is new?")
        assert await scene.until_said(2) == "Done."
        assert (await scene.until_said(3)).startswith("_developer asked:_ ")
