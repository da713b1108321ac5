"""What Slack shows under a thread: never waited for, and taken away again whatever became of it."""

from temporalio.exceptions import ApplicationError

from tests.support.conversation_memory import calls
from tests.support.conversation_workflow import talking
from threadline.models.model import ModelReply


async def test_a_line_that_slack_did_not_take_is_cleared_all_the_same_and_the_next_turn_tries_again() -> None:
    """It may be shown after all, when the refusal was a time that ran out."""

    async def refused() -> None:
        raise ApplicationError("It took too long.", non_retryable=True)

    async with talking(calls("look"), ModelReply("There."), ModelReply("Here.")) as talk:
        talk.desk.hooks["show_status"] = [refused]
        await talk.say("hello")
        await talk.until_said(1)
        await talk.until(lambda: len(talk.desk.statuses) > 1, "the line is cleared")
        assert talk.desk.statuses == ["thinking", ""], "nothing else was tried in this turn"
        await talk.say("and now?")
        await talk.until_said(2)
        await talk.until(lambda: talk.desk.statuses[2:3] == ["thinking"], "the next turn tries again")
