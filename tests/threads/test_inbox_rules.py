"""The inbox of a thread's workflow: each message once, in order, until it is stored."""

from tests.support.case_store import said
from threadline.threads.inbox import MAX_BYTES, MAX_MESSAGES, Inbox
from threadline.threads.model import IncomingMessage, is_new


def queued(*accepted: IncomingMessage) -> Inbox:
    inbox = Inbox([], {})
    for message in accepted:
        inbox.accept(message)
    return inbox


def test_repeated_message_is_queued_once_also_after_it_is_stored() -> None:
    inbox = queued(said(1, "a"), said(1, "a"), said(2, "b"))
    assert [message.text for message in inbox.batch()] == ["a", "b"]
    inbox.stored(1)
    inbox.accept(said(1, "a"))
    assert [message.text for message in inbox.batch()] == ["b"]


def test_batch_is_limited_in_messages_and_bytes_and_never_empty() -> None:
    assert (
        len(queued(*(said(number) for number in range(1, MAX_MESSAGES + 2))).batch())
        == MAX_MESSAGES
    )
    large = queued(said(1, "x" * MAX_BYTES), said(2, "b"))
    assert [len(message.text) for message in large.batch()] == [MAX_BYTES]


def test_oldest_of_too_many_keys_is_forgotten() -> None:
    seen: dict[str, None] = {}
    assert [key for key in ("a", "b", "a", "c", "b", "a") if is_new(seen, key, 2)] == [
        "a",
        "b",
        "c",
        "a",
    ]
