"""Property 3: whatever is stored of a conversation is read from it again, the same and in the same order."""

import itertools

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.conversation_store import Talking, mention
from threadline.db.engine import Database
from threadline.models.model import Message, Role, ToolCall
from threadline.threads.addressing import Thread

_examples = itertools.count(1)
"""Examples share a database, so each has a thread of its own."""

any_text = st.text(st.one_of(st.characters(), st.sampled_from("\x00\ud83d\ude00\udfff\ufdd0\\u🙂")), max_size=60)
"""Every character that Python has: NUL, both halves of surrogate pairs apart and together, noncharacters."""
any_json = st.recursive(any_text, lambda inner: st.dictionaries(any_text, inner, max_size=3), max_leaves=10).map(repr)
calls = st.builds(ToolCall, any_text, any_text, st.one_of(any_text, any_json), st.booleans(), st.booleans())
any_message = st.builds(
    Message, st.sampled_from(Role), any_text, st.lists(calls, max_size=4).map(tuple), any_text, any_text, any_text
)
of_many = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@of_many
@given(st.lists(any_message, min_size=1, max_size=8))
@example([Message(Role.USER, "\ud83d\ude00"), Message(Role.USER, "\U0001f600"), Message(Role.USER, "\ufdd0d83d")])
@example([Message(Role.ASSISTANT, "", (ToolCall("\x00", "a.b", '{"a": [1, {"b": "\\ud800"}]}', read_only=True),))])
async def test_property_3_context_storage_round_trip(database: Database, messages: list[Message]) -> None:
    """Property 3: context storage round-trip."""
    talk = Talking(database, Thread("T1", "C1", f"{next(_examples)}"))
    await talk.store(mention(1))
    half = len(messages) // 2
    entries = [(f"m:{number}", message) for number, message in enumerate(messages)]
    await talk.append(*entries[:half])
    await talk.append(*entries[half:])
    assert [each.message for each in (await talk.read()).messages] == messages
    async with database.begin() as work:
        assert [await work.transcripts.at(talk.thread, key) for key, _ in entries] == messages
