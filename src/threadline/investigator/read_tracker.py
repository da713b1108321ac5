"""Which messages the model has certainly read through its tool, told from the stream of a turn."""

from collections import defaultdict

from claude_agent_sdk import AssistantMessage, Message, ToolResultBlock, ToolUseBlock, UserMessage

from threadline.investigator.fences import Part, parts_in

READING_TOOL = "mcp__bug__get_bug_conversations"


class ReadThrough:
    """Follows one turn's messages.

    A tool's result counts as seen only when the model has replied again after it. In the reply that called the tool it
    was not: a reply may hold the call and the turn's answer at once, and then the result reaches nobody.
    """

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._waiting: list[tuple[str, Part]] = []
        self._seen: defaultdict[tuple[int, int], set[int]] = defaultdict(set)

    @property
    def read(self) -> frozenset[int]:
        """The `seq` of each message of which every part was seen."""
        return frozenset(seq for (seq, count), indexes in self._seen.items() if len(indexes) == count)

    def see(self, message: Message) -> None:
        """Take in the next message of the stream."""
        if isinstance(message, AssistantMessage):
            self._reply(message)
        elif isinstance(message, UserMessage) and isinstance(message.content, list):
            for block in message.content:
                if isinstance(block, ToolResultBlock) and block.tool_use_id in self._calls and not block.is_error:
                    reply = self._calls[block.tool_use_id]
                    self._waiting += [(reply, part) for part in parts_in(_text(block))]

    def _reply(self, message: AssistantMessage) -> None:
        if message.error is not None or message.message_id is None:  # made up by the CLI: no model wrote it
            return
        still_waiting = []
        for reply, part in self._waiting:
            if reply == message.message_id:  # a further block of the reply that made the call
                still_waiting.append((reply, part))
            else:
                self._seen[part.seq, part.count].add(part.index)
        self._waiting = still_waiting
        for block in message.content:
            if isinstance(block, ToolUseBlock) and block.name == READING_TOOL:
                self._calls[block.id] = message.message_id


def _text(block: ToolResultBlock) -> str:
    if isinstance(block.content, list):
        return "\n".join(str(item.get("text", "")) for item in block.content)
    return block.content or ""
