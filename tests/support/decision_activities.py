"""The decision activities of a conversation on Postgres and the model sandbox."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.conversation_activities import ConversationActivityScene
from tests.support.decision_forms import decision_form
from threadline.conversations.contract import SettleRequest
from threadline.conversations.decide import Deciding, LookUp, Rules
from threadline.conversations.decision_activities import LiveDecisionActivities
from threadline.conversations.decision_contract import Round, Step
from threadline.conversations.model.conversation import OutcomeKind
from threadline.conversations.situation import Situations
from threadline.decisions.confidence import Factors
from threadline.decisions.model import Course, Deliberation, Retrieval, Source, Verdict
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import REPORTER

PRICES = Source("Plans", "Enterprise", "plans.md", "pricing", "Enterprise costs 990 a month.", 0.9)
OLD_PRICES = Source("Plans 2024", "Enterprise", "old.md", "pricing", "Enterprise costs 790 a month.", 0.8)


@dataclass
class Documents:
    """A search over documents that finds what a test gives it, or raises `trouble`."""

    found: Sequence[Source] = (PRICES,)
    retrieval: Retrieval = field(default_factory=lambda: Retrieval(0.9))
    trouble: Exception | None = None
    asked: list[str] = field(default_factory=list)

    async def __call__(self, team: str, query: str, types: Sequence[str]) -> tuple[Sequence[Source], Retrieval]:
        self.asked.append(query)
        if self.trouble:
            raise self.trouble
        return self.found, self.retrieval


@dataclass
class Engine:
    talk: ConversationActivityScene
    documents: Documents
    activities: LiveDecisionActivities

    async def step(self, name: str, turn: int = 1, round_: int = 1, attempt: int = 1) -> Step:
        method: Callable[..., Any] = getattr(self.activities, name)
        asked = Round(self.talk.thread, turn, round_)
        result: Step = await self.talk.run(method, asked, attempt=attempt)
        return result

    async def hears(self, words: str, turn: int = 1) -> None:
        """Something is said, and its turn begins."""
        await self.talk.said(words)
        await self.talk.begin(turn)

    async def decided(self, words: str, turn: int = 1) -> Step:
        """The decision of a turn in which this is said."""
        await self.hears(words, turn)
        return await self.whole(turn)

    async def whole(self, turn: int = 1) -> Step:
        """All rounds of a turn that has begun, as the workflow asks for them."""
        step = Step()
        for number in (1, 2):
            step = await self.step("decide", turn, number)
            if step.course is None:
                await self.step("look_up", turn, number)
                step = await self.step("weigh", turn, number)
            if step.course is not Course.RETRIEVE_MORE:
                break
        return step

    async def kept(self, turn: int = 1) -> list[Deliberation]:
        async with self.talk.database.begin() as work:
            return await work.decisions.of(self.talk.thread, turn)

    async def last(self, turn: int = 1) -> Deliberation:
        return (await self.kept(turn))[-1]

    async def weighed(self, turn: int = 1) -> tuple[Factors, Verdict]:
        """The evidence of the last round, and what followed."""
        last = await self.last(turn)
        assert last.factors
        assert last.verdict
        return last.factors, last.verdict

    async def settled(self, kind: OutcomeKind, turn: int = 1, text: str = "", answered_at: int = 0) -> str:
        request = SettleRequest(self.talk.thread, turn, kind, text, answered_at=answered_at)
        await self.talk.run(self.talk.thinking.settle_turn, request)
        await self.talk.post(turn)
        return self.talk.posted()[-1].text

    def answers(self, *given: str) -> None:
        """What the model writes in the form: one text for each try."""

        async def script(turn: ScriptTurn) -> None:
            await turn.text_only(given[min(len(turn.prompts), len(given)) - 1])

        self.talk.model.script(script, form="decision")

    def decides(self, decision: str, **more: Any) -> None:
        self.answers(json.dumps(decision_form(decision, **more)))


def engine_of(
    talk: ConversationActivityScene,
    *,
    lead: str | Exception = "Anna (U0ANNA)",
    rules: Rules | None = None,
    look_up: LookUp | None = None,
) -> Engine:
    async def about(team: str, user_id: str) -> str:
        assert user_id == REPORTER
        if isinstance(lead, Exception):
            raise lead
        return lead

    documents = Documents()
    situations = Situations(talk.database, replace(talk.mind, sensitive_words=("data breach",)), about)
    deciding = Deciding(talk.database, talk.mind.model, situations, look_up or documents, rules or Rules())
    return Engine(talk, documents, LiveDecisionActivities(deciding))
