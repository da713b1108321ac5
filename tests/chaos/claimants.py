"""The people of a run who claim something: a person takes each thread over, answers, is answered, and closes it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos.oracle import key_of, posts_of_the_bot
from tests.chaos.plan import Plan
from tests.chaos.stage import Stage
from tests.chaos.talk_plan import Claim, Talk
from tests.chaos.talkers import CALL, Exchange, Talkers
from threadline.handovers.model import CLOSE
from threadline.threads.addressing import Thread
from threadline_devstack.clients import until
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import Message
from threadline_devstack.slack.refusal import Refused

PATIENCE = 20.0
"""Seconds for which people wait for a card to answer under, and whoever asked for an answer to ask on."""


@dataclass
class Claimed:
    """A claim as it went. `answers` were written under its card, `asks` by whoever asked, once somebody had it."""

    claim: Claim
    thread: Thread
    answers: list[str] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Seen:
    """What Slack shows of a claim: its cards, and how often each answer and each question was said on."""

    thread: Thread
    cards: int
    answers: dict[str, int]
    asks: dict[str, int]


class Claimants:
    """Args: `talkers`, whose threads these are as well."""

    def __init__(self, plan: Plan, stage: Stage, talkers: Talkers) -> None:
        self._plan, self._stage, self._talkers = plan, stage, talkers
        self.claims: list[Claimed] = []

    async def play(self) -> None:
        """Returns when everybody has said what they had to say; the cards are open still."""
        async with asyncio.TaskGroup() as together:
            for claim in self._plan.claims:
                together.create_task(self._tell(claim))

    async def close(self) -> None:
        """Have a person close all that is open, as somebody does in the end; what was lost of it is done again."""
        for claimed in self.claims:
            for card in self._cards(claimed.thread):
                await self._press(card)

    def seen(self) -> list[Seen]:
        said = posts_of_the_bot(self._stage)

        def times(words: Sequence[str], channel: str, roots: set[str | None]) -> dict[str, int]:
            there = [post.text for post in said if post.channel == channel and post.thread_ts in roots]
            return {word: sum(word in text for text in there) for word in words}

        found = []
        for each in self.claims:
            cards = self._cards(each.thread)
            answers = times(each.answers, each.thread.channel, {each.thread.ts})
            asks = times(each.asks, identity.ESCALATIONS, {card.ts for card in cards})
            found.append(Seen(each.thread, len(cards), answers, asks))
        return found

    async def _tell(self, claim: Claim) -> None:
        await asyncio.sleep(claim.begins)
        asker = self._talkers.somebody(f"C{claim.number}")
        workspace = self._stage.slack.workspace
        root = workspace.post(identity.GENERAL, asker, f"{CALL} I want a refund for {claim.word}.")
        exchange = Exchange(Talk(claim.number, claim.begins, direct=False, orders=False, cues=()), root, asker, asker)
        self._talkers.heard(exchange, root)
        claimed = Claimed(claim, exchange.thread)
        self.claims.append(claimed)
        async for _ in until(PATIENCE, every=0.2):
            if cards := self._cards(claimed.thread):
                break
        else:
            return  # nobody is asked to take it over, which the oracle will say
        for at in range(claim.answers):
            await asyncio.sleep(claim.gap)
            word = f"{claim.word}a{at}"
            text = f"We look after it, {word}."
            workspace.post(identity.ESCALATIONS, identity.DEVELOPER, text, thread_ts=cards[0].ts)
            claimed.answers.append(word)
            if at < claim.asks and await self._arrives(claimed, word):
                ask = f"{claim.word}q{at}"
                said = workspace.post(identity.GENERAL, asker, f"And when, {ask}?", thread_ts=root.ts)
                self._talkers.heard(exchange, said)
                claimed.asks.append(ask)

    async def _arrives(self, claimed: Claimed, word: str) -> bool:
        async for _ in until(PATIENCE, every=0.2):
            if any(seen.answers.get(word) for seen in self.seen() if seen.thread == claimed.thread):
                return True
        return False

    def _cards(self, thread: Thread) -> list[Message]:
        keys = ((post, key_of(post)) for post in posts_of_the_bot(self._stage))
        return [post for post, key in keys if key.startswith(f"handover:{thread.key}:") and key.endswith(":card")]

    async def _press(self, card: Message) -> None:
        try:
            await self._stage.slack.click(identity.DEVELOPER, card.channel, card.ts, CLOSE)
        except Refused:
            return  # it has no button any more


__all__ = ["Claimants", "Claimed", "Seen"]
