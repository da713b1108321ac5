"""The model over OpenAI's SDK: Responses where the endpoint has it, else Chat Completions."""

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import structlog
from openai import APIStatusError, AsyncOpenAI, BadRequestError, Timeout

from threadline.errors import Transient
from threadline.models import chat_completions as chat_api
from threadline.models import responses as responses_api
from threadline.models.concessions import Concessions, answer_field
from threadline.models.errors import (
    KNOWN_ERRORS,
    is_answer_counted,
    is_endpoint_missing,
    is_reasoning_missing,
    parse_errors,
    reason_of,
    translate,
)
from threadline.models.model import (
    Ask,
    ChatModel,
    Completion,
    Message,
    Prompt,
    ResponseFormat,
    Role,
    ToolChoice,
    Usage,
)
from threadline.models.prices import Price, PriceList

Api = Literal["auto", "responses", "chat"]
OPENAI = "https://api.openai.com/v1"
_CONNECT = 10.0
LONGEST_REPLY = 1_500
"""Output tokens, the model's reasoning included."""
LONGEST_ANSWER = 4_096
SHORT_ANSWER = 512
"""Tokens of an otherwise unbounded answer, so that a model that repeats itself ends; and the limit
where the endpoint counts them into a small window.
"""
LONGEST_REASONED_ANSWER = 16_384
"""The same where reasoning counts."""
LONGEST_WAIT = 75.0
"""Seconds for one short answer, on which the next steps of a turn wait."""


@dataclass(frozen=True)
class OpenAIConfig:
    """Settings of the model's API.

    `api` is detected where it is `auto`; `timeout` bounds a whole call, in seconds; `prices`
    override the built-in list.
    """

    model: str
    api_key: str = field(repr=False)
    base_url: str = OPENAI
    api: Api = "auto"
    timeout: float = 120.0
    prices: Mapping[str, Price] = field(default_factory=dict)


class OpenAIModel(ChatModel):
    """A model at an endpoint of OpenAI's APIs. Holds connections: the creator closes it."""

    def __init__(self, config: OpenAIConfig) -> None:
        self._config = config
        self._api = config.api
        self._reasoning = True
        self._is_openai = config.base_url.rstrip("/") == OPENAI
        # OpenAI keeps an answer unless `store` forbids it.
        self._concessions = Concessions(kept=("store",) if self._is_openai else ())
        self._prices = PriceList(config.prices)
        self._client = AsyncOpenAI(
            api_key=config.api_key,
            base_url=config.base_url,
            max_retries=0,  # retries belong to Temporal
            timeout=Timeout(config.timeout, connect=min(_CONNECT, config.timeout)),
        )

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, prompt: Prompt, *, attempt: int = 1) -> Completion:
        try:
            async with asyncio.timeout(self._config.timeout):
                answer = await self._ask(prompt)
        except KNOWN_ERRORS as exc:
            failure = translate(exc, attempt)
            told = {"error": type(failure).__name__, "reason": reason_of(exc)}
            structlog.get_logger().warning("model_call_failed", **told)
            raise failure from exc
        usage = self._prices.with_cost(answer.usage)
        reply = answer.reply
        structlog.get_logger().info(
            "model_replied", tool_calls=len(reply.calls), ended=answer.ended.value, **vars(usage)
        )
        ids = [call.id for call in reply.calls]
        taken = {call.id for said in prompt.messages for call in said.calls}
        if not all(ids) or len(set(ids)) < len(ids) or not taken.isdisjoint(ids):
            # Some endpoints restart the numbering of calls with each reply, or omit the ids.
            calls = tuple(replace(call, id=f"call_{uuid.uuid4().hex}") for call in reply.calls)
            reply = replace(reply, calls=calls, provider_data="")
        return replace(answer, reply=reply, usage=usage)

    async def _ask(self, prompt: Prompt) -> Completion:
        if self._api == "chat":
            return await self._chat(prompt)
        try:
            answer = await self._responses(prompt)
        except APIStatusError as exc:
            if self._api == "responses" or not is_endpoint_missing(exc):
                raise
            answer = await self._chat(prompt)
            self._api = "chat"
            structlog.get_logger().info("responses_api_unsupported")
        else:
            self._api = "responses"
        return answer

    async def _responses(self, prompt: Prompt) -> Completion:
        # the value of this request: a concurrent call may find that the model has none
        reasoning = self._reasoning
        try:
            return await self._respond(prompt)
        except BadRequestError as exc:
            if reasoning and is_reasoning_missing(exc):
                self._reasoning = False
            elif exc.code == "invalid_encrypted_content":
                # The key now belongs to another organisation: the dialogue continues without its
                # reasoning.
                prompt = replace(
                    prompt,
                    messages=tuple(
                        replace(message, provider_data="") for message in prompt.messages
                    ),
                )
            else:
                raise
        return await self._respond(prompt)

    async def _respond(self, prompt: Prompt) -> Completion:
        limited = replace(
            prompt, max_output_tokens=prompt.max_output_tokens or LONGEST_REASONED_ANSWER
        )
        asked = responses_api.request_body(limited, self._config.model, reasoning=self._reasoning)
        with parse_errors():
            answer = await self._create(self._client.responses.create, asked)
            return responses_api.parse_response(answer, self._config.model)

    async def _chat(self, prompt: Prompt) -> Completion:
        limited = replace(prompt, max_output_tokens=prompt.max_output_tokens or LONGEST_ANSWER)
        asked = chat_api.request_body(limited, self._config.model)
        if self._is_openai:
            # OpenAI may keep it otherwise; other endpoints may not know the field
            asked["store"] = False
            asked["max_completion_tokens"] = asked.pop("max_tokens")
        tools = {str(tool["name"]): tool.get("parameters", {}) for tool in prompt.tools}
        with parse_errors():
            answer = await self._create(self._client.chat.completions.create, asked)
            return chat_api.parse_response(answer, self._config.model, tools)

    async def _create(self, create: Any, asked: Mapping[str, Any]) -> Any:
        """Send a request, and send it again without the parts that the endpoint rejects by name.

        Where the refusal says that the answer counts into the window, requests a shorter answer.
        Any other prompt that is too long goes back to the caller, who can shorten the dialogue.
        """
        while True:
            body = self._concessions.apply(asked)
            try:
                return await create(**_untouched(body))
            except APIStatusError as exc:
                if self._concessions.learn(exc, body):
                    continue
                length = answer_field(body)
                if not length or body[length] <= SHORT_ANSWER or not is_answer_counted(exc):
                    raise
                asked = {**asked, answer_field(asked): SHORT_ANSWER}


def _untouched(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that send the body unchanged.

    The SDK searches ordinary arguments for fields to rename, and finds none. With fifty tools that
    blocks the event loop for 11 ms, with a short dialogue for about 5 ms.
    """
    needed = {"messages": ()} if "messages" in asked else {}
    return {"model": asked["model"], "extra_body": asked, **needed}


def form_in_words(schema: Mapping[str, Any]) -> str:
    """Return a flat JSON schema as instructions, for endpoints that do not enforce schemas."""
    fields = [f"- {name}: {_kind(each)}" for name, each in schema["properties"].items()]
    return "\n".join(
        ["Answer with one JSON object and nothing else. Its fields, all of them:", *fields]
    )


def _kind(schema: Mapping[str, Any]) -> str:
    if options := schema.get("enum"):
        return f"one of {', '.join(json.dumps(each) for each in options)}"
    if schema.get("type") == "array":
        return f"a list, each item {_kind(schema.get('items', {}))}"
    kind = {
        "string": "a text",
        "boolean": "true or false",
        "number": "a number",
        "integer": "a whole number",
    }
    about = f" ({schema['description']})" if "description" in schema else ""
    return kind.get(str(schema.get("type")), "a value") + about


def ask_structured(
    model: ChatModel, paid: list[Usage], attempt: int = 1, wait: float = LONGEST_WAIT
) -> Ask:
    """Return a function that asks this model for a structured answer.

    Args:
        paid: receives the usage of each answer.
        attempt: see `ChatModel.ask`.
        wait: seconds until an answer counts as missing.
    """

    async def ask(
        instructions: str, questions: Sequence[str], name: str, form: Mapping[str, Any]
    ) -> str:
        roles = (Role.USER, Role.ASSISTANT)
        said = tuple(Message(roles[place % 2], each) for place, each in enumerate(questions))
        prompt = Prompt(
            f"{instructions.rstrip()}\n\n{form_in_words(form)}",
            said,
            tool_choice=ToolChoice.NONE,
            max_output_tokens=LONGEST_REPLY,
            form=ResponseFormat(name, form),
        )
        limit = asyncio.timeout(wait)
        try:
            async with limit:
                answer = await model.ask(prompt, attempt=attempt)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Transient(f"The model gave no {name} within {wait:g} seconds.") from error
        paid.append(answer.usage)
        return answer.reply.text

    return ask
