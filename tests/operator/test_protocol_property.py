"""The operator's protocol against a model that obeys nothing, in production's own pipeline."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.operator.protocol_scene import CORRELATION, REGISTRY, TOOLS, Event, Goes, Office, Turn
from tests.support.examples import examples
from threadline.models.model import ToolCall
from threadline.operator.model.protocol import FinalText, final_text_rule

A = "rfp_a"
B = "rfp_b"
WRITES = ("opportunity_patch", "journal_append", "event_append")
SPEAKING = ("slack_post_summary", "slack_ask_clarifying_question")
READS = ("rfp_list", "opportunity_load")

RFP_IDS = st.sampled_from([A, A, A, B, "rfp_c", "RFP_A", " rfp_a", ""])
WORDS = st.sampled_from(["Done.", "Which one?", "", "rfp_b is lost"])
NAMES = [each.name for each in TOOLS] + [each.wire_name for each in TOOLS]
IDS = st.integers(0, 400).map(str) | st.just("again")
GOES = st.lists(st.sampled_from([*[Goes.WELL] * 5, *Goes]), max_size=12)


def _fitting(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments that fit a tool's parameters."""
    tool = REGISTRY.get(name)
    assert tool
    values = {"rfp_id": RFP_IDS}
    fields = tool.parameters.model_fields
    required = {
        each: values.get(each, WORDS) for each, field in fields.items() if field.is_required()
    }
    optional = {each: values.get(each, WORDS) for each in fields if each not in required}
    return st.fixed_dictionaries(required, optional=optional)


def _calls(names: Sequence[str]) -> st.SearchStrategy[ToolCall]:
    """Calls of any of these tools, all equally likely; their strategies are built once and not for
    each example.
    """
    built = [
        st.builds(ToolCall, IDS, st.just(name), _fitting(name).map(json.dumps)) for name in names
    ]
    return st.sampled_from(built).flatmap(lambda each: each)


def _call(names: st.SearchStrategy[str], **given: str) -> st.SearchStrategy[ToolCall]:
    return st.builds(ToolCall, IDS, names, st.just(json.dumps(given)))


GARBAGE = st.builds(
    ToolCall,
    IDS,
    st.sampled_from([*NAMES, "opportunity_delete", "", "slack.post_summary"]),
    st.sampled_from(
        [
            *("", "{", "[]", '{"rfp_id": ["rfp_a"]}', '{"rfp_id": "rfp_b", "rfp_id": "rfp_a"}'),
            '{"rfp_id": "rfp_a", "correlation_id": "forged"}',
        ]
    ),
)
LOADS = _call(st.just("opportunity_load"), rfp_id=A)
CHANGES = st.one_of(
    _call(st.just("opportunity_patch"), rfp_id=A),
    _call(st.just("event_append"), rfp_id=A),
    _call(st.just("journal_append"), rfp_id=A, text="Done."),
    _call(st.sampled_from(["schedule_job", "propose_action"])),
)
CALLS = _calls(NAMES) | LOADS | GARBAGE
TALK = _calls([*READS, *SPEAKING]) | LOADS
"""The calls of a status turn."""
REPLIES = st.lists(st.lists(CALLS | CHANGES, min_size=1, max_size=4), max_size=8) | st.lists(
    st.lists(TALK, min_size=1, max_size=4), max_size=4
)
CRASHES = st.lists(st.sampled_from([False, False, False, True]), max_size=12)


class Watch:
    """The effects of a turn, known from its executed calls alone and not from the protocol's
    state.
    """

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.loaded: set[str] = set()
        self.called: list[str] = []
        self.written = self.changed = self.over = False
        self.messages = 0

    def see(self, event: Event) -> None:
        if event.called:
            self.called.append(event.what)
            return
        assert not self.over, "a tool ran after the end of the turn"
        if event.what == "opportunity_load" and event.goes is Goes.WELL:
            self.loaded.add(event.rfp_id)
        elif event.what in WRITES:
            self._write(event)
        elif event.what in SPEAKING:
            self._words(event)
        elif event.what == "propose_action":
            self.over = event.goes is not Goes.REFUSED
            self.messages += event.goes in (Goes.WELL, Goes.UNKNOWN)
        elif event.what == "schedule_job":
            assert event.correlation_id == CORRELATION

    @property
    def has_only_read(self) -> bool:
        return all(each in (*READS, *SPEAKING, "") for each in self.called)

    def _write(self, event: Event) -> None:
        assert event.rfp_id in self.loaded, "a change before a load"
        assert not self.scope or event.rfp_id == self.scope, "a change of another RFP"
        assert event.correlation_id == CORRELATION
        self.changed |= event.goes is Goes.WELL
        self.written |= event.goes is Goes.WELL and event.what != "event_append"

    def _words(self, event: Event) -> None:
        if self.scope and not self.written:
            assert self.has_only_read, "words before anything was written"
        self.over = event.goes in (Goes.WELL, Goes.UNKNOWN)
        self.messages += event.goes in (Goes.WELL, Goes.UNKNOWN)


SEEN: Counter[str] = Counter()


@examples(6.4)
@given(st.sampled_from([A, A, ""]), REPLIES, GOES, CRASHES)
def _any_model_is_held_to_the_protocol(
    scope: str, replies: list[list[ToolCall]], goes: list[Goes], crashes: list[bool]
) -> None:
    office = Office(goes=list(goes))
    turn = Turn(office, scope, crashes)
    watch = Watch(scope)

    async def work() -> None:
        for calls in replies:
            await turn.reply(*calls)

    with capture_logs():
        asyncio.run(work())
    for event in office.events:
        watch.see(event)
    SEEN.update(f"ran {each}" for each in office.executed)
    _ends_with_one_message(watch, turn)


def _ends_with_one_message(watch: Watch, turn: Turn) -> None:
    final = final_text_rule(turn.state)
    SEEN[final.text] += 1
    assert watch.over <= turn.state.over
    assert watch.messages + (not turn.state.over) <= 1
    if not watch.scope:
        return
    assert (final.text is FinalText.AS_IT_IS) <= watch.written, "words before anything was written"
    if final.text is not FinalText.AS_IT_IS:
        assert final.journal_in == (watch.scope,)
    if set(watch.called) & set(WRITES) and not watch.changed:
        assert final.text is FinalText.WITH_FAILURES


@pytest.mark.hypothesis
def test_any_sequence_of_calls_is_held_to_the_protocol() -> None:
    """No scoped tool runs before a load or on a foreign id, nothing is posted before a write (a
    status turn's words are journalled when it ends), at most one message is the last, and every
    change has the turn's correlation id.
    """
    SEEN.clear()
    _any_model_is_held_to_the_protocol()
    ran = (*WRITES, *SPEAKING, *READS, "propose_action", "schedule_job")
    for each in (*(f"ran {name}" for name in ran), *FinalText):
        assert SEEN[each] >= 10, f"{each} came too rarely to prove anything: {SEEN}"
