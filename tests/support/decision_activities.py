"""The decision activities of a conversation on Postgres and the model sandbox."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.conversation_activities import ConversationActivityScene
from tests.support.decision_forms import decision_form
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.contract import DecideRequest, FinishRequest, TurnDecision
from threadline.conversations.deps import DecisionDeps, SearchDocuments
from threadline.conversations.model.conversation import OutcomeKind
from threadline.conversations.store.conversation import ConversationStore
from threadline.db.engine import Transaction
from threadline.decisions.model import DecisionRound, EscalationReason, Factors, Judgement
from threadline.decisions.store import DecisionStore
from threadline.knowledge.model import Retrieval, Source
from threadline.slack.model import User
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import REPORTER

PRICES = Source("Plans", "Enterprise", "plans.md", "pricing", "Enterprise costs 990 a month.", 0.9)
OLD_PRICES = Source(
    "Plans 2024", "Enterprise", "old.md", "pricing", "Enterprise costs 790 a month.", 0.8
)


@dataclass
class Documents:
    """A search over documents that returns the test's findings, or raises `trouble`."""

    found: Sequence[Source] = (PRICES,)
    retrieval: Retrieval = field(default_factory=lambda: Retrieval(0.9))
    trouble: Exception | None = None
    asked: list[str] = field(default_factory=list)
    after: list[Callable[[], object]] = field(default_factory=list)
    """Hooks that run after each search, once each."""

    async def __call__(
        self, team: str, query: str, types: Sequence[str]
    ) -> tuple[Sequence[Source], Retrieval]:
        self.asked.append(query)
        found = self.found
        retrieval = self.retrieval
        trouble = self.trouble
        if self.after:
            self.after.pop(0)()
        if trouble:
            raise trouble
        return found, retrieval


@dataclass
class Engine:
    talk: ConversationActivityScene
    documents: Documents

    async def decide(self, turn: int = 1, attempt: int = 1) -> TurnDecision:
        """Decide a turn that has begun."""
        asked = DecideRequest(self.talk.thread, turn)
        return await self.talk.run(self.talk.activities.decide, asked, attempt=attempt)

    async def decide_without_model(self, turn: int = 1) -> TurnDecision:
        asked = DecideRequest(self.talk.thread, turn)
        return await self.talk.run(self.talk.activities.decide_without_model, asked)

    async def hears(self, words: str, turn: int = 1) -> None:
        """Store a message, and begin its turn."""
        await self.talk.said(words)
        await self.talk.begin(turn)

    async def decided(self, words: str, turn: int = 1) -> TurnDecision:
        """Return the decision of a turn with this message."""
        await self.hears(words, turn)
        return await self.decide(turn)

    async def kept(self, turn: int = 1) -> list[DecisionRound]:
        async with self.talk.database.begin() as tx:
            row = await ConversationStore(tx).lock(self.talk.thread)
            return await DecisionStore(tx).rounds(row.id, turn)

    async def last(self, turn: int = 1) -> DecisionRound:
        return (await self.kept(turn))[-1]

    async def weighed(self, turn: int = 1) -> tuple[Factors, Judgement]:
        """Return the evidence of the last round, and the next step."""
        last = await self.last(turn)
        assert last.factors
        assert last.judgement
        return last.factors, last.judgement

    async def settled(
        self,
        kind: OutcomeKind,
        turn: int = 1,
        text: str = "",
        answer_step: int = 0,
        escalate: EscalationReason | None = None,
    ) -> str:
        request = FinishRequest(
            self.talk.thread, turn, kind, text, answer_step=answer_step, escalate=escalate
        )
        await self.talk.run(self.talk.activities.finish_turn, request)
        await self.talk.post(turn)
        return self.talk.posted()[-1].text

    def answers(self, *given: str) -> None:
        """Script the model's texts in the form: one for each attempt."""

        async def script(turn: ScriptTurn) -> None:
            await turn.text_only(given[min(len(turn.prompts), len(given)) - 1])

        self.talk.model.script(script, schema_name="decision")

    def decides(self, decision: str, **more: Any) -> None:
        self.answers(json.dumps(decision_form(decision, **more)))


def engine_of(
    talk: ConversationActivityScene,
    *,
    lead: str | Exception = "Anna (U0ANNA)",
    look_up: SearchDocuments | None = None,
) -> Engine:
    async def about(tx: Transaction, team: str, user_id: str, user: User | None) -> str:
        assert user_id == REPORTER
        if isinstance(lead, Exception):
            raise lead
        return lead

    documents = Documents()
    deps = talk.activities.deps
    decision = DecisionDeps(deps.model, about, look_up or documents)
    deps = replace(deps, decision=decision, sensitive_words=("data breach",))
    talk.activities = LiveConversationActivities(deps)
    return Engine(talk, documents)
