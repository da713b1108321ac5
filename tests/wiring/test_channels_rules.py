"""Which channels the settings name, and which of them are read."""

import pytest

from threadline.errors import Permanent
from threadline.settings import ChannelSettings
from threadline.wiring.catch_up import case_channels, followed_channels

CASES = {"THREADLINE_REPORTS_CHANNEL": "C0REPORTS", "THREADLINE_SUMMARIES_CHANNEL": "C0SUMMARIES"}


@pytest.fixture
def set_to(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("THREADLINE_ESCALATION_CHANNEL", raising=False)
    for name, channel in CASES.items():
        monkeypatch.setenv(name, channel)
    return monkeypatch


def test_conversations_are_looked_for_in_no_channel_unless_it_is_named(set_to: pytest.MonkeyPatch) -> None:
    set_to.delenv("THREADLINE_CONVERSATION_CHANNELS", raising=False)
    assert followed_channels(ChannelSettings.read()) == list(CASES.values())

    set_to.setenv("THREADLINE_CONVERSATION_CHANNELS", "C0GENERAL, G0PRIVATE")
    channels = ChannelSettings.read()
    assert followed_channels(channels) == [*CASES.values(), "C0GENERAL", "G0PRIVATE"]
    assert case_channels(channels) == {"C0REPORTS": False, "C0SUMMARIES": True}


@pytest.mark.parametrize("channel", ["C0SUMMARIES", "C0GENERAL,C0REPORTS"])
def test_a_channel_of_cases_is_none_of_conversations(set_to: pytest.MonkeyPatch, channel: str) -> None:
    set_to.setenv("THREADLINE_CONVERSATION_CHANNELS", channel)
    with pytest.raises(Permanent, match="a channel of cases"):
        ChannelSettings.read()


def test_a_channels_name_is_not_its_id(set_to: pytest.MonkeyPatch) -> None:
    set_to.setenv("THREADLINE_CONVERSATION_CHANNELS", "general")
    with pytest.raises(Permanent, match="THREADLINE_CONVERSATION_CHANNELS"):
        ChannelSettings.read()
