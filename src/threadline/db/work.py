"""The unit of work: every repository over one connection, and so over one transaction."""

from functools import cached_property

from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.actors import Actors
from threadline.db.agent_jobs import AgentJobs
from threadline.db.appointments import Appointments
from threadline.db.attachments import Attachments
from threadline.db.bindings import Bindings
from threadline.db.cases import Cases
from threadline.db.conversation import Conversation
from threadline.db.conversations import Conversations
from threadline.db.crm import Crm
from threadline.db.decision_reports import DecisionReports
from threadline.db.decisions import Decisions
from threadline.db.estimates import Estimates
from threadline.db.events import Events
from threadline.db.followed import Followed
from threadline.db.handover_answers import HandoverAnswers
from threadline.db.handovers import Handovers
from threadline.db.journal import Journal
from threadline.db.knowledge import Knowledge
from threadline.db.letters import Letters
from threadline.db.limits import Limits
from threadline.db.memories import Memories
from threadline.db.operations import Operations
from threadline.db.opportunities import Opportunities
from threadline.db.overview import Overview
from threadline.db.passage_search import PassageSearch
from threadline.db.posts import Posts
from threadline.db.proposed_actions import ProposedActions
from threadline.db.pull_requests import PullRequests
from threadline.db.quarantine import Quarantine
from threadline.db.rfps import Rfps
from threadline.db.services import Services
from threadline.db.sla import SlaEvents
from threadline.db.sweep import Sweep
from threadline.db.talked import Talked
from threadline.db.team import Team
from threadline.db.threads import Threads
from threadline.db.tool_executions import ToolExecutions
from threadline.db.tool_results import ToolResults
from threadline.db.transcripts import BYTES, Transcripts
from threadline.db.turn_plans import TurnPlans
from threadline.db.turn_traces import TurnTraces
from threadline.db.turns import Turns


class Work:
    def __init__(self, connection: AsyncConnection, context_bytes: int = BYTES) -> None:
        self.connection = connection
        self._context_bytes = context_bytes

    @cached_property
    def cases(self) -> Cases:
        return Cases(self.connection)

    @cached_property
    def conversation(self) -> Conversation:
        return Conversation(self.connection)

    @cached_property
    def turns(self) -> Turns:
        return Turns(self.connection)

    @cached_property
    def posts(self) -> Posts:
        return Posts(self.connection)

    @cached_property
    def threads(self) -> Threads:
        return Threads(self.connection)

    @cached_property
    def attachments(self) -> Attachments:
        return Attachments(self.connection)

    @cached_property
    def sla(self) -> SlaEvents:
        return SlaEvents(self.connection)

    @cached_property
    def pull_requests(self) -> PullRequests:
        return PullRequests(self.connection)

    @cached_property
    def quarantine(self) -> Quarantine:
        return Quarantine(self.connection)

    @cached_property
    def services(self) -> Services:
        return Services(self.connection)

    @cached_property
    def overview(self) -> Overview:
        return Overview(self.connection)

    @cached_property
    def followed(self) -> Followed:
        return Followed(self.connection)

    @cached_property
    def sweep(self) -> Sweep:
        return Sweep(self.connection)

    @cached_property
    def appointments(self) -> Appointments:
        return Appointments(self.connection)

    @cached_property
    def bindings(self) -> Bindings:
        return Bindings(self.connection)

    @cached_property
    def crm(self) -> Crm:
        return Crm(self.connection)

    @cached_property
    def decisions(self) -> Decisions:
        return Decisions(self.connection)

    @cached_property
    def decision_reports(self) -> DecisionReports:
        return DecisionReports(self.connection)

    @cached_property
    def estimates(self) -> Estimates:
        return Estimates(self.connection)

    @cached_property
    def handover_answers(self) -> HandoverAnswers:
        return HandoverAnswers(self.connection)

    @cached_property
    def handovers(self) -> Handovers:
        return Handovers(self.connection)

    @cached_property
    def knowledge(self) -> Knowledge:
        return Knowledge(self.connection)

    @cached_property
    def passages(self) -> PassageSearch:
        return PassageSearch(self.connection)

    @cached_property
    def letters(self) -> Letters:
        return Letters(self.connection)

    @cached_property
    def limits(self) -> Limits:
        return Limits(self.connection)

    @cached_property
    def operations(self) -> Operations:
        return Operations(self.connection)

    @cached_property
    def talked(self) -> Talked:
        return Talked(self.connection)

    @cached_property
    def tool_executions(self) -> ToolExecutions:
        return ToolExecutions(self.connection)

    @cached_property
    def tool_results(self) -> ToolResults:
        return ToolResults(self.connection)

    @cached_property
    def conversations(self) -> Conversations:
        return Conversations(self.connection, self._context_bytes)

    @cached_property
    def transcripts(self) -> Transcripts:
        return Transcripts(self.connection)

    @cached_property
    def actors(self) -> Actors:
        return Actors(self.connection)

    @cached_property
    def agent_jobs(self) -> AgentJobs:
        return AgentJobs(self.connection)

    @cached_property
    def events(self) -> Events:
        return Events(self.connection)

    @cached_property
    def journal(self) -> Journal:
        return Journal(self.connection)

    @cached_property
    def memories(self) -> Memories:
        return Memories(self.connection)

    @cached_property
    def opportunities(self) -> Opportunities:
        return Opportunities(self.connection)

    @cached_property
    def proposed_actions(self) -> ProposedActions:
        return ProposedActions(self.connection)

    @cached_property
    def rfps(self) -> Rfps:
        return Rfps(self.connection)

    @cached_property
    def team(self) -> Team:
        return Team(self.connection)

    @cached_property
    def turn_plans(self) -> TurnPlans:
        return TurnPlans(self.connection)

    @cached_property
    def turn_traces(self) -> TurnTraces:
        return TurnTraces(self.connection)
