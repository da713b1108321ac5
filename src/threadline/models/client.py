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
from threadline.models.errors import (
    KNOWN_ERRORS,
    ContextTooLong,
    is_endpoint_missing,
    is_reasoning_missing,
    parse_errors,
    reason_of,
    translate,
)
from threadline.models.model import Ask, ChatModel, Completion, Message, Prompt, ResponseFormat, Role, ToolChoice, Usage
from threadline.models.prices import Price, PriceList
from threadline.privacy.redaction import redact

Api = Literal["auto", "responses", "chat"]
OPENAI = "https://api.openai.com/v1"
_CONNECT = 10.0
LONGEST_REPLY = 1_500
"""Tokens that the model may write, its thoughts included."""
LONGEST_ANSWER, SHORT_ANSWER = 4_096, 512
"""Tokens of an answer that is not bounded otherwise, so that a model which repeats itself ends; and where the endpoint
counts them into a small window."""
LONGEST_REASONED_ANSWER = 16_384
"""The same where thoughts count."""
_LONGEST_REASON = 500
LONGEST_WAIT = 75.0
"""Seconds for one answer: a few lines, for which somebody waits before anything else is done."""


@dataclass(frozen=True)
class OpenAIConfig:
    """`api` is found out when it is `auto`; `timeout` bounds a whole call, in seconds; `prices` override the table."""

    model: str
    api_key: str = field(repr=False)
    base_url: str = OPENAI
    api: Api = "auto"
    timeout: float = 120.0
    prices: Mapping[str, Price] = field(default_factory=dict)


class OpenAIModel(ChatModel):
    """Holds connections: whoever makes it closes it."""

    def __init__(self, config: OpenAIConfig) -> None:
        self._config = config
        self._api = config.api
        self._reasoning = True
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
            reason = redact(reason_of(exc))[:_LONGEST_REASON]
            structlog.get_logger().warning("model_call_failed", error=type(failure).__name__, reason=reason)
            raise failure from exc
        usage, reply = self._prices.with_cost(answer.usage), answer.reply
        structlog.get_logger().info(
            "model_replied", tool_calls=len(reply.calls), ended=answer.ended.value, **vars(usage)
        )
        ids, taken = [call.id for call in reply.calls], {call.id for said in prompt.messages for call in said.calls}
        if not all(ids) or len(set(ids)) < len(ids) or not taken.isdisjoint(ids):
            # Some endpoints number each reply's calls anew, or give them no ids.
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
        reasoning = self._reasoning  # as it is sent now: another call may find out meanwhile that there is none
        try:
            return await self._respond(prompt)
        except BadRequestError as exc:
            if reasoning and is_reasoning_missing(exc):
                self._reasoning = False
            elif exc.code == "invalid_encrypted_content":
                # The key belongs to another organisation by now: without its thoughts the dialogue still goes on.
                prompt = replace(
                    prompt, messages=tuple(replace(message, provider_data="") for message in prompt.messages)
                )
            else:
                raise
        return await self._respond(prompt)

    async def _respond(self, prompt: Prompt) -> Completion:
        create: Any = self._client.responses.create
        limited = replace(prompt, max_output_tokens=prompt.max_output_tokens or LONGEST_REASONED_ANSWER)
        asked = responses_api.request_body(limited, self._config.model, reasoning=self._reasoning)
        with parse_errors():
            return responses_api.parse_response(await create(**_untouched(asked)), self._config.model)

    async def _chat(self, prompt: Prompt) -> Completion:
        create: Any = self._client.chat.completions.create
        limited = replace(prompt, max_output_tokens=prompt.max_output_tokens or LONGEST_ANSWER)
        asked = chat_api.request_body(limited, self._config.model)
        if self._config.base_url.rstrip("/") == OPENAI:
            asked["store"] = False  # OpenAI may keep it otherwise; other endpoints may not know the word
            asked["max_completion_tokens"] = asked.pop("max_tokens")
        tools = [str(tool["name"]) for tool in prompt.tools]
        with parse_errors():
            try:
                answer = await create(**_untouched(asked))
            except BadRequestError as exc:
                if "max_tokens" not in asked or not isinstance(translate(exc, 1), ContextTooLong):
                    raise
                # Some endpoints count what the model may write into its window.
                answer = await create(**_untouched({**asked, "max_tokens": SHORT_ANSWER}))
            return chat_api.parse_response(answer, self._config.model, tools)


def _untouched(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The same body, put in as it is: in arguments the SDK looks at each value for what it might rename, and finds
    nothing. With fifty tools that is 11 ms of CPU in which nobody else is served, with a short dialogue some 5 ms."""
    needed = {"messages": ()} if "messages" in asked else {}
    return {"model": asked["model"], "extra_body": asked, **needed}


def form_in_words(schema: Mapping[str, Any]) -> str:
    """A flat JSON schema as instructions, for endpoints that hold the model to none."""
    fields = [f"- {name}: {_kind(each)}" for name, each in schema["properties"].items()]
    return "\n".join(["Answer with one JSON object and nothing else. Its fields, all of them:", *fields])


def _kind(schema: Mapping[str, Any]) -> str:
    if options := schema.get("enum"):
        return f"one of {', '.join(json.dumps(each) for each in options)}"
    if schema.get("type") == "array":
        return f"a list, each item {_kind(schema.get('items', {}))}"
    kind = {"string": "a text", "boolean": "true or false", "number": "a number", "integer": "a whole number"}
    about = f" ({schema['description']})" if "description" in schema else ""
    return kind.get(str(schema.get("type")), "a value") + about


def ask_structured(model: ChatModel, paid: list[Usage], attempt: int = 1, wait: float = LONGEST_WAIT) -> Ask:
    """Ask this model; `paid` gets what each answer has used. `attempt` is that of `ChatModel.ask`; `wait`: seconds."""

    async def ask(instructions: str, questions: Sequence[str], name: str, form: Mapping[str, Any]) -> str:
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
