"""The default script over OpenAI's APIs: it calls the tools that the newest message asks for, and says what came of it.

It decides by the words and by what the tools return, never by a clock or by chance: two runs of a test meet the same.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from threadline.devstack.model_sandbox.conversation import ToolResult
from threadline.devstack.model_sandbox.copilot_arguments import Filler, Known, parsed
from threadline.devstack.model_sandbox.copilot_plan import Planned, plan, spoken
from threadline.devstack.model_sandbox.turn import Turn

QUOTE = 300
"""Characters of a result, or of what people wrote, that a sentence repeats."""
_READ_ONLY = re.compile(r"Read-only: (.+?)\. What would change")
"""As the turn's context says it."""
OFFERED = 3
"""Tools that are named to somebody who asked for nothing that they do."""


async def converse(turn: Turn) -> None:
    """Call what is asked for, step by step, stop at the first failure, and end with a sentence."""
    if not turn.tools:
        await turn.text_only(_without_tools(turn))
        return
    done: list[ToolResult] = []
    known = Known()
    for step in plan(turn.prompt, {name: turn.descriptions.get(name, "") for name in turn.tools}):
        if turn.live and turn.tool_choice == "none":
            break
        results = await turn.call_together(*((each.tool, _arguments(turn, each, known)) for each in step))
        done += results
        for result in results:
            known.add(result.text)
        if any(result.is_error for result in results):
            break
    await turn.text_only(_told(done) if done else _offer(turn))


def _arguments(turn: Turn, planned: Planned, known: Known) -> Mapping[str, Any]:
    return Filler(turn.tools[planned.tool], planned, turn.prompt, known).arguments()


def _told(done: list[ToolResult]) -> str:
    well = [spoken(result.tool) for result in done if not result.is_error]
    sentences = [f"Done: {', then '.join(well)}."] if well else []
    if failed := next((result for result in done if result.is_error), None):
        return " ".join([*sentences, f"I could not {spoken(failed.tool)}: {_words(failed.text)}"])
    return " ".join([*sentences, f"The last answer was: {_words(done[-1].text)}"])


def _words(text: str) -> str:
    """What a result says for people, where it does; else its beginning."""
    told = parsed(text)
    if isinstance(told, Mapping):
        inner = told.get("error") or told.get("data")
        told = inner if isinstance(inner, Mapping) and not told.get("text") else told
        named = ("text", "message", "suggestion", "error")
        said = [str(told[name]).rstrip(".") for name in named if isinstance(told.get(name), str)]
        text = ". ".join(said) + "." if said else ", ".join(_facts(told)) or text
    flat = " ".join(text.split())
    return flat if len(flat) <= QUOTE else f"{flat[:QUOTE].rsplit(' ', 1)[0]} …"


def _facts(told: Mapping[str, Any]) -> Iterator[str]:
    for name, value in told.items():
        if isinstance(value, list):
            yield f"{len(value)} {name.replace('_', ' ')}"
        elif not isinstance(value, Mapping) and value is not None:
            yield f"{name.replace('_', ' ')} {value}"


def _offer(turn: Turn) -> str:
    """What could be done; in a read-only thread also why what was asked for is not among it."""
    barred = _READ_ONLY.findall("\n".join(turn.notes))
    sorry = f"I can change nothing here: {barred[-1]}. " if barred else ""
    offered = [turn.descriptions.get(name, "").partition("\n")[0] or spoken(name) for name in turn.tools]
    named = "; ".join(about.rstrip(".") for about in offered[:OFFERED])
    return f"{sorry}I can help with this: {named}. Say what you would like, and about which record."


def _without_tools(turn: Turn) -> str:
    if "summar" in f"{turn.system} {turn.prompt}".lower():
        return f"So far: {_words(' / '.join(prompt for prompt in turn.prompts if prompt))}"
    return f"I have no tools for this, so I can only say that I have read it: {_words(turn.prompt)}"
