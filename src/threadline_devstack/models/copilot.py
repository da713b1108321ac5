"""The default script over OpenAI's APIs: it calls the tools that the newest message asks for, and says what came of it.

It decides by the words and by what the tools return, never by a clock or by chance: two runs of a test meet the same.
"""

import re
from collections.abc import Mapping
from typing import Any

from threadline_devstack.models import operator_request, operator_words, scheduling, uploading
from threadline_devstack.models.copilot_arguments import Filler, Known
from threadline_devstack.models.copilot_plan import Planned, plan, spoken
from threadline_devstack.models.copilot_words import told
from threadline_devstack.models.decision_script import looked_up, thanked
from threadline_devstack.models.operator_script import SUMMARY, operate
from threadline_devstack.models.request import ToolResult
from threadline_devstack.models.script import Turn

_READ_ONLY = re.compile(r"Read-only: (.+?)\. What would change")
"""As the turn's context says it."""
_ANALYSIS = "2 to 4 sentences"
"""As the instructions say it that have a request analysed."""
OFFERED = 3
"""Tools that are named to somebody who asked for nothing that they do."""


async def converse(turn: Turn) -> None:
    """Call what is asked for, step by step, stop at the first failure, and end with a sentence."""
    if not turn.tools:
        await turn.text_only(_without_tools(turn))
        return
    if SUMMARY in turn.tools:
        await operate(turn)
        return
    if said := looked_up(turn) or await _errand(turn):
        await turn.text_only(said)
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
    await turn.text_only(_told(done) if done else thanked(turn) or _offer(turn))


async def _errand(turn: Turn) -> str:
    """What came of work that takes more than the words name; empty where none is asked for."""
    if uploading.is_asked_for(turn):
        return await uploading.upload(turn)
    if not scheduling.is_asked_for(turn):
        return ""
    words = operator_request.said(turn.prompt)
    named = operator_request.rfp_ids(words, list(turn.tools))
    return await scheduling.schedule(turn, words, named[0] if named else "")


def _arguments(turn: Turn, planned: Planned, known: Known) -> Mapping[str, Any]:
    return Filler(turn.tools[planned.tool], planned, turn.prompt, known).arguments()


def _told(done: list[ToolResult]) -> str:
    well = [spoken(result.tool) for result in done if not result.is_error]
    sentences = [f"Done: {', then '.join(well)}."] if well else []
    if failed := next((result for result in done if result.is_error), None):
        return " ".join([*sentences, f"I could not {spoken(failed.tool)}: {told(failed.text)}"])
    return " ".join([*sentences, f"The last answer was: {told(done[-1].text)}"])


def _offer(turn: Turn) -> str:
    """What could be done; in a read-only thread also why what was asked for is not among it."""
    barred = _READ_ONLY.findall("\n".join(turn.notes))
    sorry = f"I can change nothing here: {barred[-1]}. " if barred else ""
    offered = [turn.descriptions.get(name, "").partition("\n")[0] or spoken(name) for name in turn.tools]
    named = "; ".join(about.rstrip(".") for about in offered[:OFFERED])
    return f"{sorry}I can help with this: {named}. Say what you would like, and about which record."


def _without_tools(turn: Turn) -> str:
    if _ANALYSIS in turn.system:
        return operator_words.analysis(turn.prompt)
    if "summar" in f"{turn.system} {turn.prompt}".lower():
        return f"So far: {told(' / '.join(prompt for prompt in turn.prompts if prompt))}"
    return f"I have no tools for this, so I can only say that I have read it: {told(turn.prompt)}"
