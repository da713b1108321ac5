"""The one composition root: settings in, running processes out."""

from threadline.bootstrap.codec import run_codec
from threadline.bootstrap.decisions import DecisionDesk, decision_desk
from threadline.bootstrap.desk import CaseDesk, CaseFile, case_desk
from threadline.bootstrap.doctor import Check, examine
from threadline.bootstrap.explaining import Explanation, OfCase, explain_desk
from threadline.bootstrap.gateway import run_gateway
from threadline.bootstrap.knowledge import KnowledgeDesk, knowledge_desk
from threadline.bootstrap.records import NewProject, NewRecords, NewRequest, RecordsDesk, records_desk
from threadline.bootstrap.replaying import Verdict, Wanted, verdicts
from threadline.bootstrap.temporal import replayer, temporal_client
from threadline.bootstrap.workers import run_worker, upgrade_database

__all__ = [
    "CaseDesk",
    "CaseFile",
    "Check",
    "DecisionDesk",
    "Explanation",
    "KnowledgeDesk",
    "NewProject",
    "NewRecords",
    "NewRequest",
    "OfCase",
    "RecordsDesk",
    "Verdict",
    "Wanted",
    "case_desk",
    "decision_desk",
    "examine",
    "explain_desk",
    "knowledge_desk",
    "records_desk",
    "replayer",
    "run_codec",
    "run_gateway",
    "run_worker",
    "temporal_client",
    "upgrade_database",
    "verdicts",
]
