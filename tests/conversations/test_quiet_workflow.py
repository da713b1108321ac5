"""A quiet thread in its workflow: one note, silence, and an answer to the next request."""

from tests.support.conversation_scene import conversation
from threadline.db.engine import Database
from threadline.models.model import ModelReply


async def test_a_quiet_thread_gets_one_note_and_no_word_until_somebody_asks(
    database: Database,
) -> None:
    replies = ModelReply("Three."), ModelReply("Four.")
    async with conversation(database, *replies) as scene:
        await scene.ask("how many offers are open?")
        await scene.say("be quiet, please")
        note = await scene.until_said(2)
        assert note.startswith("I will be quiet in this thread until ")
        assert "write `unmute` to me, or mention me with a request" in note
        await scene.say("and how many were won?", addressed=False)
        await scene.until_stored(3)
        await scene.until_idle()
        assert len(scene.said) == 2
        assert await scene.ask("how many are open now?") == "Four."
        read = await scene.prompts()
        assert (3, "and how many were won?") in read, "what was only stored is context"
