"""Conversations as the core worker builds them."""

import pytest

from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from tests.support.temporal import NotedStarts
from threadline.cases.model import CaseReaders
from threadline.conversations.contract import StoreRequest
from threadline.slack.history import History
from threadline.slack.users import UserDirectory
from threadline.threads.alerts import FailureAlerts
from threadline.threads.outbox import Outbox
from threadline.wiring.conversations import ConversationFeatureSettings, ConversationOptions, open_conversations
from threadline_devstack.slack.identity import ESCALATIONS

__all__ = ["make_talk", "talk"]


@pytest.mark.parametrize("key", ["", "sk-proj-0123456789abcdefghijklmn"])
async def test_limits_reach_the_activities_with_and_without_a_key(
    monkeypatch: pytest.MonkeyPatch, talk: ConversationActivityScene, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("THREADLINE_CONVERSATION_MAX_TURNS", "7")
    monkeypatch.setenv("THREADLINE_CONVERSATION_QUIET", "2h")
    monkeypatch.setenv("THREADLINE_CONVERSATION_MODEL_PATIENCE", "10m")
    slack = talk.activities.deps.slack
    outbox = Outbox(slack, talk.database)
    readers = CaseReaders((ESCALATIONS,), "https://sandbox.slack.com/")
    host = ConversationOptions(FailureAlerts(outbox, ESCALATIONS), readers, "polaris", workflows=NotedStarts())
    async with open_conversations(
        ConversationFeatureSettings(), talk.database, slack, History(slack), UserDirectory(slack.user), outbox, host
    ) as made:
        limits = (await talk.run(made.activities.store_messages, StoreRequest(talk.thread, [], first=True))).limits
        assert limits
    assert (limits.max_turns, limits.quiet, limits.model_patience) == (7, 7200, 600)
