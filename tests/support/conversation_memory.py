"""A conversation in memory, with the keys and the rules of the database's; a scripted model, tools and a Slack."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from temporalio import activity
from temporalio.exceptions import ApplicationError

from tests.support.engine_memory import EngineDesk
from threadline.conversations.contract import (
    ActRequest,
    ConversationActivities,
    ConversationOpened,
    Marker,
    Refusal,
    Refused,
    SettleRequest,
    SpeakingActivities,
    Status,
    Stored,
    StoreRequest,
    TalkTurn,
    ThinkRequest,
    Thought,
    Word,
)
from threadline.conversations.model.conversation import ConversationLimits, ConversationMarks
from threadline.conversations.operator_contract import Begun, OperatorActivities, PassOn
from threadline.models.model import Execution, ExecutionStatus, ModelReply, OutcomeKind, ToolCall, ToolChoice
from threadline.operator.model import protocol
from threadline.operator.model.protocol import Asked, ProtocolState
from threadline.operator.model.routing import Agent
from threadline.threads import messages
from threadline.threads.addressing import Thread
from threadline.threads.messages import IncomingMessage

Reply = ModelReply | Exception | Callable[[ThinkRequest], Awaitable[ModelReply]]
Tool = Exception | Callable[[ActRequest], Awaitable[str]]
Hook = Callable[[], Awaitable[None]]

AWAY = ApplicationError("The model is overloaded.", 0.0, type="Transient", non_retryable=True)
"""What is left of the last attempt at a model that does not answer."""
SILENT = ModelReply("NO_REPLY", silent=True)
_SHOWN = 200
"""Characters of a reply's text that travel."""


def calls(*names: str, read_only: bool = False, critical: bool = False, text: str = "") -> ModelReply:
    """A reply that asks for tools; each call's id is made of its name and what follows a colon: `create:1`."""
    wanted = (
        ToolCall(name, name.partition(":")[0], '{"much": "text"}', read_only, critical=critical) for name in names
    )
    return ModelReply(text, tuple(wanted))


@dataclass
class Row:
    message: IncomingMessage
    wakes: bool
    turn: int = 0


@dataclass
class Desk(EngineDesk, ConversationActivities, SpeakingActivities, OperatorActivities):
    """One conversation in memory: what is stored, thought, done and said, each once under its key."""

    replies: list[Reply] = field(default_factory=list)
    tools: dict[str, Tool] = field(default_factory=dict)
    limits: ConversationLimits = field(default_factory=ConversationLimits)
    judge: Callable[[IncomingMessage], Refusal | None] = lambda _: None
    hooks: dict[str, list[Hook]] = field(default_factory=dict)
    """By the name of an activity: what happens, once each, after it has written and before it answers."""

    opened: bool = False
    rows: dict[str, Row] = field(default_factory=dict)
    quarantined: list[str] = field(default_factory=list)
    passed_on: tuple[str, ...] = ()
    """Ids of words to stop that are for a person who has the thread."""
    reworded: tuple[int, ...] = ()
    """Turns of which a person is to see something anew, whenever something is stored."""
    judged_late: tuple[Refused, ...] = ()
    """What the guards refuse of what an earlier run has stored."""
    transcript: dict[str, ModelReply] = field(default_factory=dict)
    results: dict[str, Execution] = field(default_factory=dict)
    settled: dict[int, SettleRequest] = field(default_factory=dict)
    said: dict[int, str] = field(default_factory=dict)
    """What Slack shows, by turn."""
    taken: list[tuple[int, int]] = field(default_factory=list)
    """Turns and steps whose first try has taken up what was unused by then."""
    rev: int = 0
    turn: int = 0
    crowded: bool = False

    asked: list[ThinkRequest] = field(default_factory=list)
    """Each time the model itself was asked."""
    prompts: list[tuple[int, str]] = field(default_factory=list)
    """What the model was shown of people, with the turn that took it up."""
    ran: list[str] = field(default_factory=list)
    """Ids of calls, each time a tool itself ran."""
    under_way: int = 0
    most_under_way: int = 0
    words: list[Word] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    summarised: list[int] = field(default_factory=list)
    """Turns, each time the transcript was to be summarised before one."""
    ways: dict[int, Begun] = field(default_factory=dict)
    """Of turns that are not the conversational agent's."""
    around: list[str] = field(default_factory=list)
    """What was asked for around the loop of an operator's turn, with the turn's number."""

    # -- what the database would know --------------------------------------------------------------------------------

    def marks(self) -> ConversationMarks:
        due = self._due()
        people = {row.message.sender_id for row in self.rows.values()}
        unsaid = [turn for turn in self.settled if turn not in self.said and self._answer(turn)]
        question = self._answer(self.turn) if not due else ""
        return ConversationMarks(
            rev=self.rev,
            opened=self.opened,
            stored=len(self.rows),
            turn=self.turn,
            turn_due=bool(due),
            addressed_due=bool(due) and (len(people) == 1 or any(row.message.addressed for row in due)),
            stop_due=bool(self._stops()),
            unsaid=min(unsaid, default=0),
            unsaid_then=tuple(sorted(unsaid)[1:]),
            question=question if question.endswith("?") else "",
            crowded=self.crowded,
        )

    def _due(self) -> list[Row]:
        return [row for row in self.rows.values() if row.wakes and not 0 < row.turn <= self.turn]

    def _stops(self) -> list[Row]:
        """Unused words to stop that were said after something that is due."""
        oldest = min((row.message.ts for row in self._due()), default="")
        stops = [row for row in self.rows.values() if row.message.kind == messages.STOP and not row.turn]
        return [row for row in stops if oldest and oldest < row.message.ts]

    def _answer(self, turn: int) -> str:
        request = self.settled.get(turn)
        if request is None:
            return ""
        if request.kind in (OutcomeKind.CLARIFIED, OutcomeKind.ESCALATED):
            return f"({request.kind} by the engine)"
        return self.transcript[f"a:{turn}:{request.answered_at}"].text if request.answered_at else request.text

    async def _answered(self, name: str) -> None:
        """Every change raises `rev`, and its answer may be lost on the way."""
        self.rev += 1
        await self._happens(name)

    async def _happens(self, name: str) -> None:
        if hooks := self.hooks.get(name):
            await hooks.pop(0)()

    # -- activities --------------------------------------------------------------------------------------------------

    @activity.defn
    async def open_conversation(self, thread: Thread) -> ConversationOpened:
        return ConversationOpened(self.marks(), self.limits, self.judged_late)

    @activity.defn
    async def store_messages(self, request: StoreRequest) -> Stored:
        asked = (each for each in request.messages if each.addressed and each.kind == messages.MESSAGE)
        self.opened = self.opened or any(asked)
        refused = [self._store(message) for message in request.messages] if self.opened else []
        for row in self.rows.values():
            if row.message.kind == messages.STOP and not row.turn and row not in self._stops():
                row.turn = self.turn or -1
        marks = self.marks()
        await self._answered("store_messages")
        people = {row.message.sender_id for row in self.rows.values()}
        heard = (each.id for each in request.messages if len(people) > 1 and not each.addressed)
        told = tuple(each for each in refused if each)
        return Stored(replace(marks, rev=self.rev), told, tuple(heard), self.passed_on, self.reworded)

    def _store(self, message: IncomingMessage) -> Refused | None:
        if message.kind == messages.QUARANTINED:
            self.quarantined.append(message.text)
            return None
        why = self.judge(message) if message.kind == messages.MESSAGE else None
        wakes = message.kind == messages.MESSAGE and why is None
        self.rows.setdefault(message.id, Row(message, wakes))
        return Refused(message.channel, message.ts, message.sender_id, why) if why else None

    @activity.defn
    async def summarise(self, turn: TalkTurn) -> ConversationMarks:
        self.summarised.append(turn.turn)
        await self._happens("summarise")
        self.crowded = False
        self.rev += 1
        return self.marks()

    @activity.defn
    async def think(self, request: ThinkRequest) -> Thought:
        request = replace(request, step=self._step_of(request))
        key = f"a:{request.turn}:{request.step}"
        if key not in self.transcript:
            if (request.turn, request.step) not in self.taken:
                self._take_up(request)
            self.asked.append(request)
            reply = await self._play(self.replies.pop(0) if self.replies else ModelReply("Done."), request)
            self.transcript.setdefault(key, reply)
            await self._answered("think")
        reply = self.transcript[key]
        travels = replace(reply, text=reply.text[:_SHOWN], calls=tuple(each.reference() for each in reply.calls))
        return Thought(travels, self.marks(), request.step)

    def _step_of(self, request: ThinkRequest) -> int:
        """The step that has a reply from this one on, or the last that took up what people said."""
        steps = [step for turn, step in self.taken if turn == request.turn and step >= request.step]
        replied = [step for step in steps if f"a:{request.turn}:{step}" in self.transcript]
        return min(replied, default=max(steps, default=request.step))

    def _take_up(self, request: ThinkRequest) -> None:
        self.taken.append((request.turn, request.step))
        for row in self._due():
            if not row.turn:
                row.turn = request.turn
                self.prompts.append((request.turn, row.message.text))

    async def _play(self, reply: Reply, request: ThinkRequest) -> ModelReply:
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, ModelReply) else await reply(request)

    @activity.defn
    async def begin_turn(self, turn: TalkTurn) -> Begun:
        if not any(taken == turn.turn for taken, _ in self.taken):
            self._take_up(ThinkRequest(turn.thread, turn.turn, 1, ToolChoice.AUTO))
        way = self.ways.get(turn.turn, Begun(self.marks()))
        await self._answered("begin_turn")
        return replace(way, marks=self.marks())

    @activity.defn
    async def pass_on(self, request: PassOn) -> Begun:
        self.around.append(f"pass on {request.turn} behind {request.step}")
        way = Begun(self.marks(), Agent.OPERATOR, ProtocolState(), max_turns=8, behind=request.step)
        self.ways[request.turn] = way
        return way

    @activity.defn
    async def prepare_turn(self, turn: TalkTurn) -> str:
        self.around.append(f"prepare {turn.turn}")
        await self._happens("prepare_turn")
        return ""

    @activity.defn
    async def analyse_request(self, turn: TalkTurn) -> ConversationMarks:
        self.around.append(f"analyse {turn.turn}")
        return self.marks()

    @activity.defn
    async def remember_turn(self, turn: TalkTurn) -> None:
        self.around.append(f"remember {turn.turn}")
        await self._happens("remember_turn")

    @activity.defn
    async def act(self, request: ActRequest) -> Execution:
        key = f"t:{request.turn}:{request.step}:{request.call.id}"
        assert request.call.arguments == "", "they stay in the transcript"
        asked = {call.id: call for call in self.transcript[f"a:{request.turn}:{request.step}"].calls}
        call = asked[request.call.id]
        assert call.arguments
        if key not in self.results:
            self.ran.append(call.id)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            try:
                note = await self._use(self.tools.get(call.name), request)
            finally:
                self.under_way -= 1
            done = Execution(
                call.id, call.name, ExecutionStatus.OK, note[:_SHOWN], call.read_only, critical=call.critical
            )
            self.results[key] = replace(done, protocol=_after(request, call))
            await self._answered("act")
        return self.results[key]

    async def _use(self, tool: Tool | None, request: ActRequest) -> str:
        if isinstance(tool, Exception):
            raise tool
        return await tool(request) if tool else "done"

    @activity.defn
    async def settle_turn(self, request: SettleRequest) -> ConversationMarks:
        if request.turn not in self.settled:
            self.settled[request.turn] = request
            stops = self._stops()
            last = max((row.message.ts for row in stops), default="")
            if not any(row.turn == request.turn for row in self.rows.values()):
                for row in self._due():
                    if not last or request.kind is not OutcomeKind.STOPPED or row.message.ts < last:
                        row.turn = request.turn
            for row in stops:
                row.turn = request.turn
            self.turn = max(self.turn, request.turn)
        await self._answered("settle_turn")
        return replace(self.marks(), left=request.turn in self.left)

    @activity.defn
    async def post_answer(self, turn: TalkTurn) -> ConversationMarks:
        if turn.turn not in self.said:
            self.said[turn.turn] = self._answer(turn.turn)
        await self._answered("post_answer")
        return self.marks()

    @activity.defn
    async def post_word(self, word: Word) -> None:
        await self._happens("post_word")
        if word not in self.words:
            self.words.append(word)

    @activity.defn
    async def mark_messages(self, marker: Marker) -> None:
        self.markers.append(marker)

    @activity.defn
    async def show_status(self, status: Status) -> None:
        self.statuses.append(status.words)
        await self._happens("show_status")


def _after(request: ActRequest, call: ToolCall) -> ProtocolState | None:
    """The protocol's state behind a call that went well, of the RFP that the turn is about."""
    if request.protocol is None:
        return None
    kind = protocol.kind_of(call.name, read_only=call.read_only)
    return protocol.after(request.protocol, Asked(kind, request.protocol.scope), True)
