"""What somebody asks of a turn: what they said in it, and in the turns that it goes on with."""

from threadline.db.work import Work
from threadline.domain import questions
from threadline.domain.addressing import Thread

LONGEST_CHAIN = 6
"""Turns, the last one included; what came before is in the dialogue all the same."""


async def asked_in(work: Work, thread: Thread, turn: int) -> list[str]:
    """Each message in order, the earliest turn first, as far as it is read at all; what was deleted is left out."""
    texts: list[str] = []
    for _ in range(LONGEST_CHAIN):
        texts = [*await work.turn_plans.said_in(thread, turn), *texts]
        plan = await work.turn_plans.of(thread, turn)
        if plan is None or not plan.route.resumes:
            break
        turn = plan.route.resumes
    return [questions.cut(questions.normalised(each)) for each in texts]
