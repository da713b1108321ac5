"""Secrets that the agents' worker refuses, and those that it hides."""

import os

import pytest

from threadline.errors import Permanent
from threadline.wiring.agent_worker import REFUSED_SECRETS, hide_secrets, refuse_secrets

NOT_THEIRS = {
    *("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "DATABASE_URL"),
    *("GITHUB_TOKEN", "THREADLINE_GITHUB_TOKEN", "THREADLINE_JIRA_TOKEN"),
    *("OPENAI_API_KEY", "THREADLINE_SMTP_URL", "THREADLINE_CODEC_TOKEN"),
}
OWN = {
    *(
        "ANTHROPIC_API_KEY",
        "THREADLINE_AGENT_DATABASE_URL",
        "THREADLINE_QUERY_DATABASES",
        "THREADLINE_REPO",
    ),
    *("THREADLINE_PAYLOAD_KEYS", "TEMPORAL_API_KEY"),
}


def test_secrets_of_other_processes_are_refused_and_its_own_are_not() -> None:
    assert REFUSED_SECRETS >= NOT_THEIRS
    assert not REFUSED_SECRETS & OWN


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "threadline_codec_token"])
def test_refusal_names_the_variable_however_it_is_spelled(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Settings are read in any case of letters."""
    monkeypatch.setattr(os, "environ", {name: "hunter2"})
    with pytest.raises(Permanent, match=f"{name} must not be set") as refused:
        refuse_secrets()
    assert "hunter2" not in str(refused.value)


def test_every_secret_is_taken_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {"PATH": "/bin", "THREADLINE_INVESTIGATOR_MODEL": "claude-sonnet-5"}
    monkeypatch.setattr(os, "environ", dict.fromkeys(NOT_THEIRS | OWN, "hunter2") | left)
    monkeypatch.setattr("sys.platform", "elsewhere")  # the test's own process stays dumpable
    hide_secrets()
    assert os.environ == left
