"""A dialogue with the scripted model over OpenAI's form, in which tools answer as the test says."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from threadline_devstack.models import openai_common as openai_wire
from threadline_devstack.models.copilot import converse
from threadline_devstack.models.holds import Holds
from threadline_devstack.models.request import Conversation
from threadline_devstack.models.script import Reply, Turn, play

PARAMETERS = {
    "opportunity_load": ("rfp_id",),
    "opportunity_patch": ("rfp_id", "patch", "version"),
    "journal_append": ("rfp_id", "text", "kind"),
    "event_append": ("rfp_id", "event_type", "payload"),
    "slack_post_summary": ("text", "rfp_id"),
    "slack_ask_clarifying_question": ("question",),
    "slack_get_thread": ("limit", "since"),
    "rfp_create_from_slack_file": ("file_id", "title", "client", "due_date"),
    "schedule_job": ("job_type", "arguments", "after_minutes", "at", "cron", "time_zone"),
    "job_plan": ("job_type", "arguments", "after_minutes", "at", "cron", "time_zone"),
    "agent_job_status": ("job_id",),
    "rfp_search": ("words", "limit"),
    "team_get": ("name",),
    "team_list": ("skill",),
    "propose_action": ("tool", "arguments", "reason", "rfp_id"),
}
COPILOT = ("slack_get_thread", "rfp_create_from_slack_file", "schedule_job", "rfp_search", "team_list")
_ENDS = ("slack_post_summary", "slack_ask_clarifying_question", "propose_action")
Call = tuple[str, dict[str, Any]]
Answers = Callable[[str, Mapping[str, Any]], Any]


class Dialogue:
    """Args: `answers` gives a tool's result as the model reads it, by its name and arguments."""

    def __init__(
        self, answers: Callable[[str, Mapping[str, Any]], Any], tools: Sequence[str] = tuple(PARAMETERS)
    ) -> None:
        self._answers, self._tools = answers, tools
        self._messages: list[dict[str, Any]] = []
        self._notes: list[dict[str, Any]] = []
        self.system = "You answer."
        self.calls: list[Call] = []

    def note(self, text: str) -> None:
        """A note of the system, as a turn's context is one."""
        self._notes.append({"role": "system", "content": text})

    def person(self, text: str) -> None:
        """A message that no model was asked about."""
        self._messages.append(openai_wire.said("user", text))

    def bot(self, text: str) -> None:
        self._messages.append(openai_wire.said("assistant", text))

    async def say(self, text: str, *, most: int = 8) -> str:
        """A person's message, and what is said to it in the end; `calls` are what was called on the way."""
        self._messages.append(openai_wire.said("user", text))
        self.calls = []
        while True:
            choice = "auto" if len(self.calls) < most else "none"
            answer = await play(converse, Turn(self._conversation(choice), Holds()))
            if not isinstance(answer, Reply):
                raise TypeError(str(answer))
            if not answer.calls:
                self.bot(answer.text)
                return answer.text
            for name, given in answer.calls:
                said = self._called(name, dict(given))
                if said is not None:
                    return said

    def _called(self, name: str, given: dict[str, Any]) -> str | None:
        """The words that end the turn, where they do."""
        assert set(given) == set(PARAMETERS[name]), "strict mode wants every parameter"
        self.calls.append((name, given))
        result = self._answers(name, given)
        self._messages.append(openai_wire.used(f"call_{len(self._messages)}", name, json.dumps(given)))
        self._messages.append(openai_wire.returned(f"call_{len(self._messages) - 1}", json.dumps(result)))
        said = given.get("text") or given.get("question") or given.get("reason")
        return str(said) if name in _ENDS and result["success"] else None

    def _conversation(self, choice: str) -> Conversation:
        functions = [
            {"name": name, "description": name.replace("_", " "), "parameters": _schema(PARAMETERS[name])}
            for name in self._tools
        ]
        return openai_wire.conversation(
            {"model": "m", "tool_choice": choice},
            api="chat",
            system=self.system,
            wire=self._notes,
            messages=self._messages,
            functions=functions,
        )


def _schema(names: Sequence[str]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": ["string", "null"]} for name in names}, "required": names}
