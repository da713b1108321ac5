"""The model over OpenAI's SDK: Responses where the endpoint has it, else Chat Completions."""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import structlog
from openai import APIStatusError, AsyncOpenAI, BadRequestError, Timeout

from threadline.models import chat_completions as chat_api
from threadline.models import responses as responses_api
from threadline.models.chat_model import Answer, ChatModel, Prompt
from threadline.models.errors import EXPECTED, is_endpoint_missing, is_reasoning_missing, reading, translate
from threadline.models.model import ModelReply
from threadline.models.prices import Price, PriceList

Api = Literal["auto", "responses", "chat"]
OPENAI = "https://api.openai.com/v1"

_CONNECT = 10.0


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

    async def ask(self, prompt: Prompt, *, attempt: int = 1) -> Answer:
        """See `ChatModel.ask`."""
        try:
            async with asyncio.timeout(self._config.timeout):
                answer = await self._ask(prompt)
        except EXPECTED as exc:
            raise translate(exc, attempt) from exc
        usage = self._prices.priced(answer.usage)
        structlog.get_logger().info(
            "model_replied", tool_calls=len(answer.reply.calls), truncated=answer.cut, **vars(usage)
        )
        return replace(answer, reply=_told_apart(answer.reply, prompt), usage=usage)

    async def _ask(self, prompt: Prompt) -> Answer:
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

    async def _responses(self, prompt: Prompt) -> Answer:
        reasoning = self._reasoning  # as it is sent now: another call may find out meanwhile that there is none
        try:
            return await self._respond(prompt)
        except BadRequestError as exc:
            if reasoning and is_reasoning_missing(exc):
                self._reasoning = False
            elif exc.code == "invalid_encrypted_content":
                # The key belongs to another organisation by now: without its thoughts the dialogue still goes on.
                prompt = _without_thoughts(prompt)
            else:
                raise
        return await self._respond(prompt)

    async def _respond(self, prompt: Prompt) -> Answer:
        create: Any = self._client.responses.create
        asked = responses_api.body(prompt, self._config.model, reasoning=self._reasoning)
        with reading():
            return responses_api.read(await create(**_untouched(asked)), self._config.model)

    async def _chat(self, prompt: Prompt) -> Answer:
        create: Any = self._client.chat.completions.create
        asked = chat_api.body(prompt, self._config.model)
        if self._config.base_url.rstrip("/") == OPENAI:
            asked["store"] = False  # OpenAI may keep it otherwise; other endpoints may not know the word
        with reading():
            return chat_api.read(await create(**_untouched(asked)), self._config.model)


def _untouched(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The same body, with its tools put in as they are: as an argument the SDK looks through each of their schemas for
    what it might rename, and finds nothing; with fifty tools that is 11 ms of CPU in which nobody else is served."""
    tools = {"tools": asked["tools"]} if "tools" in asked else {}
    return {name: value for name, value in asked.items() if name not in tools} | {"extra_body": tools}


def _without_thoughts(prompt: Prompt) -> Prompt:
    return replace(prompt, messages=tuple(replace(message, opaque="") for message in prompt.messages))


def _told_apart(reply: ModelReply, prompt: Prompt) -> ModelReply:
    """With new ids for its calls where an endpoint numbers each reply's calls anew, or gives them none."""
    ids, taken = [call.id for call in reply.calls], {call.id for message in prompt.messages for call in message.calls}
    if all(ids) and len(set(ids)) == len(ids) and taken.isdisjoint(ids):
        return reply
    return replace(reply, calls=tuple(replace(call, id=f"call_{uuid.uuid4().hex}") for call in reply.calls), opaque="")
