"""Of what a turn has taken up: what the rules go by, which is what people said to the bot, and now."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from threadline.conversations.store.messages import TurnMessage
from threadline.conversations.store.transcript import DELETED
from threadline.decisions.model import sensitive_topics
from threadline.jobs.model import is_job_question
from threadline.operator.memory import fact_to_remember
from threadline.operator.model import routing as questions
from threadline.operator.model.routing import Agent, ThreadCommand, TurnRoute, parse_thread_command
from threadline.rfps.model import find_rfp_ids


@dataclass(frozen=True)
class Part:
    """A message in the words of a request, or with what it says about the thread."""

    author_id: str
    words: str = ""
    command: ThreadCommand | None = None
    cut: bool = False
    """There was more of it, which nothing goes by."""


@dataclass(frozen=True)
class Said:
    """What a turn begins with, in order. `user_id`: who asks. `by_job`: nobody does, but a job in somebody's name."""

    parts: tuple[Part, ...]
    user_id: str
    addressed: bool
    by_job: bool = False

    @property
    def words(self) -> str:
        return _joined(self.parts)

    @property
    def too_long(self) -> bool:
        return any(each.cut for each in self.parts)

    @property
    def to_remember(self) -> bool:
        return any(fact_to_remember(each.words) for each in self.parts)

    @property
    def answer(self) -> str:
        """The words of who asks alone."""
        return _joined([each for each in self.parts if each.author_id == self.user_id])


def said(taken: Sequence[TurnMessage], *, addressed: bool) -> Said:
    """What counts for the rules.

    An edited message was said before, and counts no second time. Beside what is addressed to the bot, words of its
    writers that call nobody count; what others say to each other is for the model alone. What a job asks counts where
    nobody writes, and is never about the thread itself.
    """
    fresh = [each for each in taken if not each.edit_of]
    people = [each for each in fresh if not is_job_question(each.message_id)]
    by_job = bool(fresh) and not people
    talk = people or fresh
    newest = max(reversed(talk), key=lambda each: each.addressed) if talk else None
    user = newest.author_id if newest else ""
    askers = {each.author_id for each in talk if each.addressed} or {user}
    counting = [each for each in talk if each.text != DELETED and (not addressed or _counts(each, askers))]
    parts = tuple(_part(each, obeyed=addressed and not by_job) for each in counting)
    return Said(parts, user, addressed, by_job)


def staying(route: TurnRoute, sensitive_words: Sequence[str] = ()) -> Callable[[TurnMessage], bool]:
    """What a turn that is under way leaves for the next one, whose rules see it: what is said about the thread itself,
    to the operator what is about another RFP than the turn, and to the conversational agent what needs a decision of
    its own: a sensitive topic, and what is addressed to it in a turn that only overhears."""
    scope = route.scope.rfp_id if route.agent is Agent.OPERATOR else ""

    def stays(taken: TurnMessage) -> bool:
        if _command(taken) is not None and not is_job_question(taken.message_id):
            return True
        if route.agent is Agent.COPILOT and (
            (route.overhears and taken.addressed) or sensitive_topics(taken.text, sensitive_words)
        ):
            return True
        return bool(scope) and find_rfp_ids(taken.text)[:1] not in ((), (scope,))

    return stays


def _counts(taken: TurnMessage, askers: set[str]) -> bool:
    return taken.addressed or (taken.author_id in askers and "<@" not in taken.text)


def _part(taken: TurnMessage, *, obeyed: bool) -> Part:
    command = _command(taken) if obeyed else None
    words = "" if command else "\n".join([taken.text, *(file.name for file in taken.files)]).strip()
    whole = questions.normalise_question(words)
    kept = questions.truncate_question(whole)
    return Part(taken.author_id, kept, command, cut=kept != whole)


def _command(taken: TurnMessage) -> ThreadCommand | None:
    return None if taken.files else parse_thread_command(questions.normalise_question(taken.text))


def _joined(parts: Sequence[Part]) -> str:
    return "\n".join(filter(None, (each.words for each in parts)))
