"""The stand-ins as child processes, and the settings by which the product finds them."""

import sys
from collections.abc import Mapping

from threadline_devstack.ports import Ports
from threadline_devstack.processes import Command, Family, logged
from threadline_devstack.slack import identity

SLACK = "slack-sandbox"
MODEL = "model-sandbox"
MODEL_KEY = "model-sandbox"
SERVICES = "services-sandbox"


async def start_slack(family: Family, ports: Ports, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns what SLACK_API_URL and the settings beside it are to be; the page is at the origin of that URL."""
    arguments = _module("slack", "--port", str(ports.take(8800)))
    facts = await family.start(Command(SLACK, arguments, environment, ready=logged("slack_sandbox_ready")))
    return {
        "SLACK_API_URL": str(facts["api_url"]),
        "SLACK_BOT_TOKEN": identity.BOT_TOKEN,
        "SLACK_APP_TOKEN": identity.APP_TOKEN,
        "SLACK_SIGNING_SECRET": identity.SIGNING_SECRET,
        "THREADLINE_REPORTS_CHANNEL": identity.REPORTS,
        "THREADLINE_SUMMARIES_CHANNEL": identity.SUMMARIES,
        "THREADLINE_ESCALATION_CHANNEL": identity.ESCALATIONS,
    }


async def start_model(family: Family, ports: Ports, environment: Mapping[str, str], pace: float) -> dict[str, str]:
    """Returns what the addresses and keys of both models are to be, Anthropic's and OpenAI's.

    Args:
        pace: seconds of pause before each of its replies.
    """
    arguments = _module("models", "--port", str(ports.take(8900)), "--pace", str(pace))
    facts = await family.start(Command(MODEL, arguments, environment, ready=logged("model_sandbox_ready")))
    url = str(facts["url"])
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": MODEL_KEY,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": MODEL_KEY,
    }


async def start_services(family: Family, ports: Ports, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings by which the core worker finds a Jira and a GitHub."""
    arguments = _module("trackers", "--port", str(ports.take(8950)))
    facts = await family.start(Command(SERVICES, arguments, environment, ready=logged("services_sandbox_ready")))
    return {str(name): str(value) for name, value in facts["settings"].items()}


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"threadline_devstack.{name}", *arguments)
