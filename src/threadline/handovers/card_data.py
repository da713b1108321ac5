"""A hand-over's card, made of the conversation as it is now: what somebody has deleted is not shown again."""

from threadline.cases.model import CaseReaders
from threadline.conversations import conversation_row
from threadline.conversations.request_texts import asked_in
from threadline.db.engine import Database
from threadline.decisions.model import RECENT_MESSAGES, last_round
from threadline.decisions.store import DecisionStore
from threadline.handovers import blocks as handovers
from threadline.handovers.blocks import Told
from threadline.handovers.store import Handover
from threadline.slack.formatting import Rendered


class Cards:
    def __init__(self, database: Database, readers: CaseReaders) -> None:
        self._database = database
        self._readers = readers

    async def of(self, handover: Handover) -> Rendered:
        thread, turn = handover.ref.thread, handover.ref.turn
        async with self._database.begin() as work:
            question = "\n".join(await asked_in(work, thread, turn, whole=True))
            rounds = await DecisionStore(work.tx).rounds(await conversation_row.id_of(work.tx, thread), turn)
            transcript = await work.transcripts.read(thread)
        before = [each.message for each in transcript.messages if each.turn < turn and each.message.spoken]
        made = last_round(rounds)
        verdict = made.judgement if made else None
        return handovers.card(
            Told(
                handover.ref,
                handover.user_id,
                question,
                [
                    f"{each.author or each.role.value}: {' '.join(each.content.split())}"
                    for each in before[-RECENT_MESSAGES:]
                ],
                verdict.reason if verdict else None,
                (made.decision.escalation_reason or made.decision.reasoning) if made else "",
                [each.cited for each in made.sources] if made else [],
                verdict.confidence if verdict else 0.0,
                self._readers.link(thread) if self._readers.workspace else "",
                handover.taken_by,
                handover.closed_by,
                conflict=bool(made and made.factors and made.factors.conflict),
            )
        )
