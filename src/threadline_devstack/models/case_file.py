"""What the scripted investigator knows of its case: the prompt's first line and sentences, and the fenced messages."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

MAY_NOT_ASK = "You may not ask the reporter in this turn."
UNANSWERED = "The reporter did not answer the last question in time."
MAY_EDIT = "You may edit files in this turn: a developer asked for work in this batch."

_HEAD = re.compile(r"^Case (?P<bug_id>BUG-\d+), turn \d+ \((?P<kind>initial|continuation)", re.MULTILINE)
_MESSAGE = re.compile(r"<message (?P<attributes>[^>\n]*)>\n(?P<text>.*?)\n?</message>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')

_ESCALATE = re.compile(r"(?i)\b(passwords?|leak(s|ed|ing)?|security|tokens? (\w+ ){0,2}exposed|escalate)\b")
_FIX = re.compile(r"(?i)\b(fix|pr|pull request|patch)\b")
_DONE = re.compile(r"(?i)\b(merged|verified|good|done|works|resolved)\b")
_PRAISED = re.compile(r"(?i)\b(fix|pr|pull request|patch)\b( \S+){0,2} (merged|verified|good|done|works)\b")
_DENIED = re.compile(r"(?i)\b(not|never|no|isn't|hasn't|nothing)\b( \S+)? (merged|verified|good|done|works|resolved)\b")


@dataclass(frozen=True)
class Message:
    """One fenced message; `sender` is reporter, developer or bot."""

    number: int
    sender: str
    text: str
    read: bool = False
    in_prompt: bool = False
    """The turn is about it, also when an earlier turn has read it with its tool."""
    part: str = ""
    """`1/3` for the first part of a long message."""


@dataclass(frozen=True)
class CaseFile:
    """The case as this turn sees it; `messages` in the order of their numbers."""

    bug_id: str
    continuation: bool
    may_ask: bool
    unanswered: bool
    may_edit: bool
    messages: tuple[Message, ...]

    def having_read(self, text: str) -> "CaseFile":
        """The same case with the messages that are fenced in `text`; the newer wording of a message wins."""
        known = {(said.number, said.part): said for said in self.messages}
        for said in _messages(text):
            before = known.get((said.number, said.part), said)
            known[said.number, said.part] = replace(said, read=said.read and before.read, in_prompt=before.in_prompt)
        return replace(self, messages=tuple(known[key] for key in sorted(known)))

    @property
    def of_people(self) -> list[Message]:
        return [message for message in self.messages if message.sender != "bot"]

    @property
    def of_reporter(self) -> list[Message]:
        return [message for message in self.messages if message.sender == "reporter"]

    @property
    def news(self) -> list[Message]:
        return [message for message in self.of_people if message.in_prompt or not message.read]

    @property
    def asked_before(self) -> bool:
        return any(message.sender == "bot" and "?" in message.text for message in self.messages)

    @property
    def alarm(self) -> tuple[Message, str] | None:
        """The first unread message that only people should deal with, and its word that says so."""
        unread = (message for message in self.news if not message.read)
        return next(((said, found[0]) for said in unread if (found := _ESCALATE.search(said.text))), None)

    @property
    def wants_fix(self) -> bool:
        """A developer asked for a fix, and the newest such word is no praise of one."""
        said = self._news_of_developers
        return any(_FIX.search(text) and not _praises(text) for text in said) and not self.is_done

    @property
    def is_done(self) -> bool:
        """The last developer to write says that it is good, without asking for a fix in the same breath."""
        return any(_praises(text) for text in self._news_of_developers[-1:])

    @property
    def _news_of_developers(self) -> list[str]:
        return [message.text for message in self.news if message.sender == "developer"]


def read(prompts: Sequence[str], bug_id: str) -> CaseFile:
    """Read the prompt of the turn: the last that begins as a turn does, since a turn may be asked to mend its answer.

    Where no prompt has that form, the case is one message of the reporter: the last prompt itself.
    """
    prompt = next((prompt for prompt in reversed(prompts) if _HEAD.search(prompt)), prompts[-1] if prompts else "")
    head = _HEAD.search(prompt)
    case = CaseFile(
        bug_id=head["bug_id"] if head else bug_id,
        continuation=bool(head and head["kind"] == "continuation"),
        may_ask=MAY_NOT_ASK not in prompt and UNANSWERED not in prompt,
        unanswered=UNANSWERED in prompt,
        may_edit=MAY_EDIT in prompt,
        messages=() if head else (Message(1, "reporter", prompt),),
    ).having_read(prompt)
    return replace(case, messages=tuple(replace(said, in_prompt=True) for said in case.messages))


def _praises(text: str) -> bool:
    """`it works`, `the fix is merged`; but neither `not done` nor `good, now fix it`, which asks for work."""
    praised = _PRAISED.search(text) or (_DONE.search(text) and not _FIX.search(text))
    return bool(praised and not _DENIED.search(text))


def _messages(text: str) -> Iterable[Message]:
    for found in _MESSAGE.finditer(text):
        attributes = dict(_ATTRIBUTE.findall(found["attributes"]))
        number = attributes.get("number", "")
        yield Message(
            number=int(number) if number.isdecimal() else 0,
            sender=attributes.get("from", "reporter"),
            text=found["text"].strip(),
            read=attributes.get("read") == "yes",
            part=attributes.get("part", ""),
        )
