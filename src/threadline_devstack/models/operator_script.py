"""The operator's part: it loads before it changes, writes down before it speaks, and says one thing.

What it is asked for is read by words (see `operator_request`), what it says is made of what the tools returned.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from threadline_devstack.models import operator_request, scheduling, uploading
from threadline_devstack.models import operator_words as words
from threadline_devstack.models.copilot_arguments import Filler, Known
from threadline_devstack.models.copilot_plan import Planned, plan, spoken
from threadline_devstack.models.copilot_words import quoted, told
from threadline_devstack.models.operator_request import Wanted
from threadline_devstack.models.request import ToolResult
from threadline_devstack.models.script import Turn

SUMMARY, QUESTION, PROPOSE = "slack_post_summary", "slack_ask_clarifying_question", "propose_action"
LOAD, PATCH, JOURNAL, EVENT = "opportunity_load", "opportunity_patch", "journal_append", "event_append"
WHICH = "Which RFP is this about?"
"""So the bot asks by rule, and so does this script."""
_OWN = frozenset({SUMMARY, QUESTION, PROPOSE, LOAD, PATCH, JOURNAL, EVENT})
_ABOUT_ONE = frozenset({"rfp_get", "rfp_list", "rfp_search", "journal_list", "event_list"})
"""What a load tells of the turn's own RFP."""
_SCOPE = re.compile(r"\brfp_id_scope: (rfp_[\w-]+)")
_BOUND = re.compile(r"\bThis thread is about [^\n]*?\brfp (rfp_[\w-]+)")
_COMMON = frozenset({"get", "list", "search", "query", "status", "find", "show", "read", "plan"})


async def operate(turn: Turn) -> None:
    """One turn: about the RFP that the newest message names, else about the thread's, else about none."""
    await _Operator(turn, _requested(turn)).work()


class _Operator:
    def __init__(self, turn: Turn, wanted: Wanted) -> None:
        self._turn, self._wanted = turn, wanted
        self._said: list[str] = []
        self._known = Known()
        self._loaded: Mapping[str, Any] = {}
        self._tried = self._written = False

    async def work(self) -> None:
        wanted = self._wanted
        if wanted.writes and not wanted.rfp_id:
            await self._ask(f"{WHICH} Include its id, such as `rfp_abc123`.")
        if wanted.rfp_id and not await self._load():
            await self._speak()
        if wanted.lacks:
            await self._ask(wanted.lacks)
        if wanted.patch and wanted.proposes and PROPOSE in self._turn.tools:
            await self._propose()
        else:
            await self._change()
        await self._others()
        if wanted.rfp_id and self._tried and not self._written:
            await self._journal("note", f"Done, as it was asked for in the thread: {' '.join(self._said)}")
        await self._speak()

    async def _load(self) -> bool:
        loaded = await self._call(LOAD, rfp_id=self._wanted.rfp_id)
        self._loaded = words.data(loaded.text)
        if loaded.is_error:
            self._said.append(f"I could not load `{self._wanted.rfp_id}`: {words.trouble(loaded.text)}")
        return not loaded.is_error

    async def _change(self) -> None:
        """The patch with the entry that records it, or the entry alone; then the event."""
        rfp_id, entry = self._wanted.rfp_id, self._wanted.entry
        if self._wanted.patch:
            patched = await self._call(PATCH, rfp_id=rfp_id, patch=self._wanted.patch)
            if patched.is_error:
                await self._fail("change", patched)
                return
            found = words.data(patched.text)
            self._said.append(words.changed(rfp_id, found))
            await self._journal("decision", entry or words.decision(found, self._wanted.words))
        elif entry and await self._journal("note", entry):
            named = words.named(rfp_id, self._loaded)
            self._said.append(f"It is in the journal of {named}: “{quoted(entry)}”")
        if self._wanted.event:
            await self._log(*self._wanted.event)

    async def _log(self, kind: str, payload: str) -> None:
        logged = await self._call(EVENT, rfp_id=self._wanted.rfp_id, event_type=kind, payload=payload or None)
        if logged.is_error:
            await self._fail("log the event", logged)
            return
        self._tried = True
        self._said.append(f"I have logged the event {kind} of {words.named(self._wanted.rfp_id, self._loaded)}.")

    async def _journal(self, kind: str, text: str) -> bool:
        written = await self._call(JOURNAL, rfp_id=self._wanted.rfp_id, text=text, kind=kind)
        self._written = self._written or not written.is_error
        if written.is_error:
            self._said.append(f"I could not write into the journal: {words.trouble(written.text)}")
        return not written.is_error

    async def _fail(self, what: str, failed: ToolResult) -> None:
        """What did not succeed is written down too, so that it can be told."""
        text = f"I could not {what} `{self._wanted.rfp_id}`: {words.trouble(failed.text)}"
        self._said.append(text)
        await self._journal("failed", f"{text} The words were: “{quoted(self._wanted.words)}”")

    async def _propose(self) -> None:
        change = {"rfp_id": self._wanted.rfp_id, "patch": self._wanted.patch}
        reason = quoted(self._wanted.words)
        given = {"tool": PATCH, "arguments": json.dumps(change), "reason": reason, "rfp_id": self._wanted.rfp_id}
        proposed = await self._call(PROPOSE, **given)
        await (self._fail("propose a change of", proposed) if proposed.is_error else self._end(told(proposed.text)))

    async def _others(self) -> None:
        """What else the words ask for, by the tools that are neither the protocol's nor told by a load."""
        if uploading.is_asked_for(self._turn):
            self._said.append(await uploading.upload(self._turn))
            self._tried = True
            return
        if scheduling.is_asked_for(self._turn):
            self._said.append(await scheduling.schedule(self._turn, self._wanted.words, self._wanted.rfp_id))
            self._tried = True
            return
        for step in plan(self._wanted.rest, self._offered()):
            for each in map(self._of_all, filter(self._is_meant, step)):
                schema = self._turn.tools[each.tool]
                given = Filler(schema, each, self._wanted.words, self._known).arguments()
                result = await self._call(each.tool, **uploading.arguments(self._turn, each.tool, **given))
                self._known.add(result.text)
                self._tried = self._tried or each.changes
                if result.is_error:
                    self._said.append(f"I could not {spoken(each.tool)}: {words.trouble(result.text)}")
                    return
                self._said.append(told(result.text))

    def _offered(self) -> dict[str, str]:
        barred = _OWN | (_ABOUT_ONE if self._wanted.rfp_id else frozenset())
        return {name: self._turn.descriptions.get(name, "") for name in self._turn.tools if name not in barred}

    def _of_all(self, planned: Planned) -> Planned:
        """Where nobody says which one of them, all are listed."""
        listing = f"{planned.tool.removesuffix('_get')}_list"
        named = re.search(r"[\"“]|\b[UW]0\w+", planned.words)
        unsaid = planned.tool.endswith("_get") and listing in self._turn.tools and not named
        return replace(planned, tool=listing) if unsaid else planned

    def _is_meant(self, planned: Planned) -> bool:
        """Whether the words name what the tool is about: "what's the status?" is no question about jobs."""
        nouns = {each for each in re.findall(r"[a-z]+", planned.tool.lower()) if each not in _COMMON}
        asked = {each.removesuffix("s") for each in re.findall(r"[a-z]+", planned.words.lower())}
        return planned.changes or any(noun.removesuffix("s") in asked for noun in nouns)

    async def _speak(self) -> None:
        if not self._said and self._loaded:
            self._said.append(words.standing(self._wanted.rfp_id, self._loaded, self._wanted.words))
        said = " ".join(self._said) or "I have nothing to add: ask me about an RFP, or say what I should do."
        spoken_ = await self._call(SUMMARY, text=said, rfp_id=self._wanted.rfp_id or None)
        await self._end(said if spoken_.is_error else "")

    async def _ask(self, question: str) -> None:
        """With an RFP the question is written down before it is asked: by the protocol itself, as nothing was tried."""
        asked = await self._call(QUESTION, question=question)
        await self._end(question if asked.is_error else "")

    async def _end(self, text: str) -> None:
        await self._turn.text_only(text or "That is all.")

    async def _call(self, tool: str, /, **given: Any) -> ToolResult:
        """One call; where no tool may be called any more, the turn ends with what there is to say."""
        if self._turn.live and self._turn.tool_choice == "none":
            await self._end(" ".join(self._said) or "I could not finish this: I had no more calls for it.")
        return await self._turn.call(tool, **uploading.arguments(self._turn, tool, **given))


def _requested(turn: Turn) -> Wanted:
    """The newest message, with the request before it that it answers."""
    newest = operator_request.said(turn.prompt)
    request = operator_request.wanted(newest)
    if len(turn.prompts) > 1 and not request.writes and not newest.endswith("?") and _was_asked(turn):
        before = operator_request.wanted(operator_request.said(turn.prompts[-2]))
        request = operator_request.answered(before, newest)
    named = operator_request.rfp_ids(newest, list(turn.tools)) or operator_request.rfp_ids(request.words)
    found = named[0] if named else _scope(turn)
    return replace(request, rfp_id=found)


def _was_asked(turn: Turn) -> bool:
    """Whether the bot's last words before the newest message were a question to whom it answers."""
    end = begin = 0
    for prompt in turn.prompts:
        begin, at = end, turn.history.find(prompt, end)
        end = at + len(prompt) if at >= 0 else end
    between = turn.history[begin : max(begin, end - len(turn.prompt))]
    return WHICH in between or f"{QUESTION} {{" in between


def _scope(turn: Turn) -> str:
    """The turn's RFP as the instructions name it, else as the newest note does; empty for none."""
    found = _SCOPE.search(turn.system) or next(filter(None, map(_BOUND.search, reversed(turn.notes))), None)
    return found[1].lower() if found else ""
