"""What has been signalled and is not stored yet: each message once, in order, and never let go before it is stored."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from threadline.threads.messages import CLOSE, MESSAGE, REPORT, IncomingMessage
    from threadline.threads.seen import first_time

MAX_MESSAGES = 100
MAX_BYTES = 256 * 1024
"""Of one batch; an activity's argument beyond 2 MiB would wedge the workflow."""
REMEMBERED = 500
"""Ids of messages kept to drop repeated deliveries; an older one still meets the unique key in the database."""


class Inbox:
    """A queue over two collections that the workflow's state carries through continue-as-new."""

    def __init__(self, pending: list[IncomingMessage], seen: dict[str, None]) -> None:
        self._pending = pending
        self._seen = seen

    def __len__(self) -> int:
        return len(self._pending)

    def accept(self, message: IncomingMessage, *, first: bool = False) -> None:
        """Queue a message unless its id was seen before. Never blocks: a signal handler calls it."""
        if first_time(self._seen, message.id, REMEMBERED):
            self._pending.insert(0 if first else len(self._pending), message)

    def batch(self) -> list[IncomingMessage]:
        """The oldest messages, as many as one flush takes; at least one when there is any."""
        size, count = 0, 0
        for message in self._pending[:MAX_MESSAGES]:
            size += _bytes(message)
            if count and size > MAX_BYTES:
                break
            count += 1
        return self._pending[:count]

    def stored(self, count: int) -> None:
        """Let go of the `count` oldest messages: only now are they safe elsewhere."""
        del self._pending[:count]

    def holds_report(self) -> bool:
        return any(message.kind == REPORT for message in self._pending)

    def holds_from(self, sender_id: str) -> bool:
        return any(message.sender_id == sender_id for message in self._pending)

    def senders(self) -> set[tuple[str, str]]:
        """(type, id) of whoever has said something, corrections aside."""
        return {
            (message.sender_type, message.sender_id) for message in self._pending if message.kind in (MESSAGE, CLOSE)
        }

    def fits_one_batch(self) -> bool:
        """Whether one flush would take all that is pending."""
        return len(self.batch()) == len(self._pending)

    def fits_next_run(self) -> bool:
        """Whether little enough is pending to be carried into another run, whose input has a limit of 2 MiB."""
        return sum(map(_bytes, self._pending)) <= MAX_BYTES


def _bytes(message: IncomingMessage) -> int:
    """About what a message takes on the wire; its files count too, of which it may have many."""
    files = sum(len(file.name.encode()) + 256 for file in message.files)
    return len(message.text.encode()) + files + 512
