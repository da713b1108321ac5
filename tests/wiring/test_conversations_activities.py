"""Conversations as the core worker builds them."""

import pytest
from temporalio.client import Client

from tests.support.case_scene import core_deps
from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from tests.support.role_fakes import with_roles
from threadline.conversations.contract import StoreRequest
from threadline.conversations.help import HelpPlace
from threadline.tools.context import Services
from threadline.wiring.conversations import open_conversations
from threadline.wiring.core_settings import ConversationFeatureSettings
from threadline_devstack.slack.identity import ESCALATIONS, GENERAL, REPORTS, SUMMARIES

__all__ = ["make_talk", "talk"]


async def test_help_knows_the_channels_of_cases(talk: ConversationActivityScene) -> None:
    temporal = await Client.connect("localhost:1", lazy=True)
    deps = core_deps(talk.database, temporal, talk.activities.deps.slack)
    async with open_conversations(ConversationFeatureSettings(), deps, with_roles(Services())) as (
        conversing,
        _,
    ):
        channels = conversing.deps.case_channels
    places = {each: channels.place_of(each) for each in (REPORTS, SUMMARIES, ESCALATIONS, GENERAL)}
    assert places == {
        REPORTS: HelpPlace.REPORTS,
        SUMMARIES: HelpPlace.DEVELOPERS,
        ESCALATIONS: HelpPlace.DEVELOPERS,
        GENERAL: HelpPlace.CHANNEL,
    }


@pytest.mark.parametrize("key", ["", "sk-proj-0123456789abcdefghijklmn"])
async def test_limits_reach_the_activities_with_and_without_a_key(
    monkeypatch: pytest.MonkeyPatch, talk: ConversationActivityScene, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("THREADLINE_CONVERSATION_MAX_STEPS", "7")
    monkeypatch.setenv("THREADLINE_CONVERSATION_IDLE_TIMEOUT", "2h")
    monkeypatch.setenv("THREADLINE_CONVERSATION_MODEL_PATIENCE", "10m")
    temporal = await Client.connect("localhost:1", lazy=True)
    deps = core_deps(talk.database, temporal, talk.activities.deps.slack)
    async with open_conversations(ConversationFeatureSettings(), deps, with_roles(Services())) as (
        conversing,
        _,
    ):
        limits = (
            await talk.run(conversing.store_messages, StoreRequest(talk.thread, [], first=True))
        ).limits
        assert limits
    assert (limits.max_steps, limits.idle_timeout, limits.model_patience) == (7, 7200, 600)
