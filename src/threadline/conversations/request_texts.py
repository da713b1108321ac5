"""What somebody asks of a turn: what they said in it, and in the turns that it goes on with."""

from threadline.conversations.turn_plans import TurnPlans
from threadline.db.engine import Transaction
from threadline.operator.model import routing as questions
from threadline.slack.model import Thread

LONGEST_CHAIN = 6
"""Turns, the last one included; what came before is in the dialogue all the same."""


async def asked_in(tx: Transaction, thread: Thread, turn: int, *, whole: bool = False) -> list[str]:
    """Each message in order, the earliest turn first, as far as the operator reads it; what was deleted is left out.

    Args:
        whole: to the end.
    """
    texts: list[str] = []
    for _ in range(LONGEST_CHAIN):
        texts = [*await TurnPlans(tx).said_in(thread, turn), *texts]
        plan = await TurnPlans(tx).of(thread, turn)
        if plan is None or not plan.route.resumes:
            break
        turn = plan.route.resumes
    asked = [questions.normalise_question(each) for each in texts]
    return asked if whole else [questions.truncate_question(each) for each in asked]
