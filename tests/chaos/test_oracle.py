"""The oracle sees every loss that is planted, and none in a clean run. The scripted model behaves
as the oracle expects.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import pytest_asyncio

from tests.chaos import live_checks, oracle, timeline
from tests.chaos.evidence import Evidence
from tests.chaos.oracle import Fault, judge
from tests.chaos.people import RelayedHandover, Written
from tests.chaos.plan import ASKED, MOST_ASKED, Action, plan_of
from tests.chaos.run import Outcome, play
from tests.chaos.scripted import ASIDE, CREATE_ITEMS, POST_SUMMARY, POSTED, reply_to
from tests.chaos.stack import ChaosStack
from threadline.conversations.model import answers
from threadline.models.model import NO_REPLY, Message, ModelReply, Prompt, Role, ToolChoice
from threadline.slack.model import Thread
from threadline.threads.model import MessageKind
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import SandboxMessage as Post

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

Changes = dict[str, Any]

ROOT = "100.000001"
FIRST = "100.000002"
AGAIN = "100.000003"
STOP = "100.000004"
PLACE = f"{identity.GENERAL}:{ROOT}"
TALK = f"{identity.TEAM}:{PLACE}"
TEXTS = {
    ROOT: "Please add t00r to chaos-1.",
    FIRST: "It is about t00m00.",
    AGAIN: "It is about t00m00.",
    STOP: "stop",
}
KEY = f"conversation:{TALK}:turn:1"


def _judged(evidence: Evidence, **changes: Any) -> str:
    return "\n".join(map(str, judge(replace(evidence, **changes))))


def _changed(row: Any, **values: Any) -> Any:
    return SimpleNamespace(
        **{**(row._mapping if hasattr(row, "_mapping") else vars(row)), **values}
    )


# -- planted in a conversation made by hand


def _id(ts: str) -> str:
    return f"{identity.TEAM}:{identity.GENERAL}:{ts}"


def _written() -> list[Written]:
    kinds = {ts: MessageKind.STOP if ts == STOP else MessageKind.MESSAGE for ts in TEXTS}
    return [Written(_id(ts), kinds[ts], PLACE, TEXTS[ts], (identity.GENERAL, ts)) for ts in TEXTS]


def _row(written: Written, seq: int, **values: Any) -> Any:
    said: Changes = {
        "message_id": written.id,
        "message_type": written.kind,
        "message_text": written.text,
    }
    said |= {"said_at": float(written.event[1]), "thread": TALK, "seq": seq, "sender_id": "U1"}
    used = {"addressed": True, "verdict": "ok", "turn": 1, "step": 1, "shown": 1, "position": seq}
    state = {"redacted": False, "edited": False, "channel": identity.GENERAL}
    return SimpleNamespace(**{**said, **used, **state, **values})


def _post(key: str, thread_ts: str = ROOT, channel: str = identity.GENERAL) -> Post:
    metadata = {"event_payload": {"key": key}}
    return Post(
        channel, "101.000001", identity.BOT_USER, "", thread_ts=thread_ts, metadata=metadata
    )


def _turn(**values: Any) -> Any:
    ended = {"kind": "answered", "answer": "I have read t00r, t00m00.", "said": True}
    route = {"agent": "assistant", "rfp_id": "", "entries": 0}
    return SimpleNamespace(**{"thread": TALK, "turn": 1, **ended, **route, **values})


ROWS = [
    _row(_written()[0], 1),
    _row(_written()[1], 2),
    _row(_written()[2], 3, verdict="duplicate", turn=None, step=None, shown=0, position=None),
    _row(_written()[3], 4, verdict=None, step=0, shown=0, position=None),
]
CONVERSATION = SimpleNamespace(thread=TALK, place=PLACE, id=1, turn=1, reading_turn=1, stored=4)
CALL = SimpleNamespace(
    thread=TALK, turn=1, step=1, tool_name=CREATE_ITEMS, status="ok", title="t00r"
)
PATCH = SimpleNamespace(
    thread=TALK, turn=1, step=1, tool_name="opportunity.patch", status="ok", title="change t00r"
)
WHOLE = Evidence(
    {each.id: each for each in _written()},
    [_post(KEY)],
    conversations=[CONVERSATION],
    messages=ROWS,
    turns=[_turn()],
    calls=[CALL],
    items={"t00r": 1},
)


def _rows(at: int, **values: Any) -> list[Any]:
    return [_changed(row, **values) if number == at else row for number, row in enumerate(ROWS)]


THREE = {each.id: each for each in _written()[:3]}
DIRECT = Written("T:D1:9.1", MessageKind.MESSAGE, "D1:9.1", "t01r", ("D1", "9.1"))
UNDELIVERED = {"written": {**WHOLE.written, DIRECT.id: DIRECT}}
HANDOVER = RelayedHandover(
    Thread(identity.TEAM, identity.GENERAL, ROOT), 1, {"h00a0": 1}, {"h00q0": 1}
)
ESCALATED = [_turn(kind="escalated")]
SPOKEN = {"kind": "posted_by_tool", "agent": "operator", "rfp_id": "rfp_chaos1"}
STOPPED = [_turn(kind="stopped", answer=answers.stopped_text([]))]
CANCELLED = [_turn(kind="stopped", answer=answers.stopped_text([], by_admin=True))]
NOTICE = [(TALK, f"conversation:{TALK}:model_away:1")]
TERMINATED = Counter([TALK])
SECOND_TURN: Changes = {
    "conversations": [_changed(CONVERSATION, turn=2, reading_turn=2)],
    "posts": [*WHOLE.posts, _post(f"conversation:{TALK}:turn:2")],
}
REPEATED = _turn(answer="I have read t00m00.", turn=2)
ANSWER = _rows(2, verdict="answer", turn=2, step=1, shown=1, position=3)
ASKED_BACK = _turn(kind="clarified", answer="What is it about?")
OVERHEARD = _rows(2, verdict="ok", addressed=False)
OVERHEARD_OF_TWO = [_changed(OVERHEARD[0], sender_id="U2"), *OVERHEARD[1:]]
LINKED: Changes = {
    "written": {**WHOLE.written, _id(ROOT): replace(_written()[0], text="link rfp_chaos1")},
    "messages": _rows(0, message_text="link rfp_chaos1"),
    "turns": [_turn(answer="I have read t00m00.")],
}

PLANTED: dict[str, list[tuple[str, Changes]]] = {
    "lost, doubled or changed": [
        (f"{_id(STOP)} (stop, “stop”) was never stored", {"messages": ROWS[:3]}),
        (f"{_id(ROOT)} was stored 2 times", {"messages": [*ROWS, ROWS[0]]}),
        ("are stored", {"messages": ROWS[1:]}),
        (
            "reads “something else t00m00”",
            {"messages": _rows(1, message_text="something else t00m00")},
        ),
        ("nobody wrote it", {"written": THREE}),
        (
            f"nothing was stored of what people said in {PLACE}",
            {"conversations": [], "messages": [], "turns": []},
        ),
        ("nothing was stored", UNDELIVERED),
        (
            "turn 1 has read t01r, which was said in D1:9.1",
            {**UNDELIVERED, "turns": [_turn(answer="I have read t00r, t00m00, t01r.")]},
        ),
    ],
    "relayed in a handover": [
        (
            "were asked 0 times to take it over",
            {"handovers": [replace(HANDOVER, cards=0)], "turns": ESCALATED},
        ),
        (
            "were asked 2 times to take it over",
            {"handovers": [replace(HANDOVER, cards=2)], "turns": ESCALATED},
        ),
        (
            "h00a0, was said there 2 times",
            {"handovers": [replace(HANDOVER, answers={"h00a0": 2})], "turns": ESCALATED},
        ),
        (
            "h00q0, was said there 0 times",
            {"handovers": [replace(HANDOVER, asks={"h00q0": 0})], "turns": ESCALATED},
        ),
        (
            "h00m0 was meant for colleagues",
            {"handovers": [replace(HANDOVER, remarks={"h00m0": 1})], "turns": ESCALATED},
        ),
        ("the agent has answered in [1]", {"handovers": [HANDOVER]}),
    ],
    "not answered, or more than once": [
        ("was never answered", {"messages": _rows(1, turn=None, shown=0)}),
        ("was never answered", {"messages": _rows(1, turn=2)}),
        ("was shown to nobody", {"messages": _rows(1, shown=0)}),
        ("was shown 2 times", {"messages": _rows(1, shown=2)}),
        (
            "is duplicate, and was shown in turn 1",
            {"messages": _rows(2, turn=1, shown=1, position=3)},
        ),
        ("is still to stop something", {"messages": _rows(3, turn=None)}),
        ("which say the same, 2 passed", {"messages": _rows(2, verdict="ok")}),
        ("which say the same, 0 passed", {"messages": _rows(1, verdict="duplicate")}),
        ("which say the same, 2 passed", {"messages": OVERHEARD}),
        ("was judged throttled", {"messages": _rows(1, verdict="throttled")}),
        ("was judged None", {"messages": _rows(1, verdict=None)}),
        ("and nothing was asked before", {"messages": _rows(1, verdict="answer")}),
        (
            "and nothing was asked before",
            {**SECOND_TURN, "messages": ANSWER, "turns": [_turn(), REPEATED]},
        ),
        ("was never answered", {"messages": ANSWER, "turns": [ASKED_BACK]}),
        ("in another order", {"messages": _rows(1, position=0)}),
        ("its answer is not about it", {"turns": [_turn(answer="I have read t00r.")]}),
    ],
    "a turn without its end, an answer missing or twice": [
        (
            "turn 2 was begun and never settled",
            {"conversations": [_changed(CONVERSATION, reading_turn=2)]},
        ),
        ("it is at turn 1, and settled []", {"turns": []}),
        ("turn 1 is silent, and its answer", {"turns": [_turn(kind="silent")]}),
        ("turn 1 is answered, and its answer “”", {"turns": [_turn(answer="")]}),
        ("was never said", {"turns": [_turn(said=False)]}),
        (f"{KEY} was posted 0 times", {"posts": []}),
        (f"{KEY} was posted 2 times", {"posts": [*WHOLE.posts, *WHOLE.posts]}),
        ("under 1.1", {"posts": [_post(KEY, "1.1")]}),
        ("is no answer", {"posts": [*WHOLE.posts, _post(f"conversation:{TALK}:turn:7")]}),
        ("never sent", {"unsent": [(TALK, f"{KEY}#2")]}),
        ("never sent", {"unsent": NOTICE}),
        ("never sent", {"unsent": [(TALK, KEY)], "terminated": TERMINATED}),
        (
            "the sweep had to repair it: workflow_restarted",
            {"repaired": [(TALK, "workflow_restarted")]},
        ),
    ],
    "an effect twice, never or without a call": [
        ("is there 2 times, of 1 calls", {"items": {"t00r": 2}}),
        ("was added, and is there 0 times", {"items": {}}),
        ("is there 1 times, of 0 calls", {"calls": []}),
        ("was called for 2 times", {"calls": [CALL, _changed(CALL, status="error")]}),
        ("was added, and is there 0 times", {"calls": [CALL, PATCH]}),
        ("versions that have added nothing", {"empty_versions": 1}),
        ("its journal has nothing of it", {"turns": [_turn(**SPOKEN)]}),
        (
            "its answer is not about it",
            {"turns": [_turn(**SPOKEN, entries=1, answer="I have read t00r.")]},
        ),
    ],
    "stopped without a request": [
        ("1 turns say that an operator stopped them, who cancelled 0 runs", {"turns": CANCELLED}),
    ],
}
NO_FAULT: dict[str, Changes] = {
    "no fault": {},
    "a stop sign": {"written": THREE, "stop_signs": {_id(STOP)}},
    "direct messages that were never delivered": {**UNDELIVERED, "unheard": {DIRECT.id}},
    "a handover": {"handovers": [HANDOVER], "turns": ESCALATED},
    "an answer in parts, a post of a case": {
        "posts": [
            *WHOLE.posts,
            _post(f"{KEY}#2"),
            _post("BUG-1:turn:1:findings", channel=identity.SUMMARIES),
        ]
    },
    "a call that failed": {"calls": [_changed(CALL, status="error")], "items": {}},
    "a change of the state": {"calls": [CALL, PATCH], "items": {"t00r": 1, "change t00r": 1}},
    "a journal entry": {"turns": [_turn(**SPOKEN, entries=1)]},
    "a stop": {"turns": STOPPED},
    "a cancelled run": {"turns": CANCELLED, "cancelled": Counter([TALK])},
    "a terminated run": {
        "repaired": [(TALK, "workflow_restarted")],
        "unsent": NOTICE,
        "terminated": TERMINATED,
    },
    "a link, which is answered by rule": LINKED,
    "a question and its answer": {
        **SECOND_TURN,
        "messages": ANSWER,
        "turns": [ASKED_BACK, REPEATED],
    },
}
ONE_FAULT: dict[str, Changes] = {
    f"{TALK}: turn 1 says that somebody stopped it, and nobody did": {
        "turns": STOPPED,
        "written": THREE,
        "messages": ROWS[:3],
        "conversations": [_changed(CONVERSATION, stored=3)],
    },
    f"{TALK}: {_id(FIRST)} of turn 1 is answered in turn 2, too": {
        **SECOND_TURN,
        "turns": [_turn(), REPEATED],
    },
}
ABSENT: list[tuple[str, Changes]] = [
    ("say the same", {"messages": _rows(2, verdict="ok"), "guards_opened": True}),
    ("say the same", {"messages": OVERHEARD_OF_TWO}),
    ("answered in turn 2", {**SECOND_TURN, "turns": [_turn(kind="silent", answer=""), REPEATED]}),
]


def _cases(planted: dict[str, list[tuple[str, Changes]]]) -> list[Any]:
    return [
        pytest.param(*case, id=f"{name}: {case[0]}")
        for name, cases in planted.items()
        for case in cases
    ]


@pytest.mark.parametrize(("fault", "changes"), _cases(PLANTED))
async def test_oracle_sees_each_fault_planted_in_a_conversation(
    fault: str, changes: Changes
) -> None:
    assert fault in _judged(WHOLE, **changes)


@pytest.mark.parametrize(("fault", "changes"), ONE_FAULT.items())
async def test_oracle_sees_one_fault_and_no_other(fault: str, changes: Changes) -> None:
    assert _judged(WHOLE, **changes) == fault


@pytest.mark.parametrize("changes", NO_FAULT.values(), ids=NO_FAULT)
async def test_oracle_sees_no_fault_in_a_correct_conversation(changes: Changes) -> None:
    assert _judged(WHOLE, **changes) == ""


@pytest.mark.parametrize(("fault", "changes"), ABSENT)
async def test_oracle_allows_effects_of_a_failed_guard_and_of_a_silent_turn(
    fault: str, changes: Changes
) -> None:
    assert fault not in _judged(WHOLE, **changes)


# -- planted in the effects of two cases made by hand

BRANCH = "threadline/bug-1"
FILE = SimpleNamespace(thread="BUG-1", file_id="F1", name="log.txt", there=True, error="", turn=2)
MENDED = Evidence(
    {},
    [
        _post(f"{case}:closing:1:{identity.REPORTS}", channel=identity.REPORTS)
        for case in ("BUG-1", "BUG-2")
    ],
    cases=[
        SimpleNamespace(
            thread=case,
            place=f"{identity.REPORTS}:{case}",
            status="resolved",
            closings=1,
            summary_channel="",
        )
        for case in ("BUG-1", "BUG-2")
    ],
    fixes=[SimpleNamespace(thread="BUG-1", turn=2, branch=BRANCH, commit="a" * 40)],
    branches={BRANCH: ("a" * 40, 1)},
    files=[FILE],
    attached={"F1": True},
)


OTHER = {"T:C:9": Written("T:C:9", MessageKind.REPORT, "C:BUG-3", "It fails, w01r.")}
READING = SimpleNamespace(
    thread="BUG-1",
    turn=1,
    action="post_findings",
    result={"seen": [], "said": ["It fails, w01r."], "summary": "Turn 1 found this."},
    read_seqs=[],
    failure="",
    session_id="",
    next_step="",
    closed=False,
    closed_at=None,
    finished=1.0,
    ends=0,
)


async def test_oracle_sees_no_fault_in_a_fix_and_a_file() -> None:
    assert _judged(MENDED) == ""


@pytest.mark.parametrize(
    ("fault", "changes"),
    [
        ("2 commits were pushed for 1 fixes", {"branches": {BRANCH: ("a" * 40, 2)}}),
        ("its branch is at bbbbbbbb", {"branches": {BRANCH: ("b" * 40, 1)}}),
        ("BUG-1: its branch is not there", {"branches": {}}),
        (
            "BUG-2: its branch is there",
            {"branches": {**MENDED.branches, "threadline/bug-2": ("c" * 40, 0)}},
        ),
        ("stored 2 times", {"files": [FILE, FILE]}),
        ("stored 0 times", {"files": []}),
        ("log.txt is kept", {"attached": {"F1": False}}),
        ("nobody fetched it", {"files": [_changed(FILE, there=False)]}),
        (
            "the sweep had to repair it: answer_missing",
            {"repaired": [("BUG-1", "answer_missing")]},
        ),
        (
            "BUG-1: turn 1 has read w01r, which was said in C:BUG-3",
            {"written": OTHER, "case_turns": [READING]},
        ),
    ],
)
async def test_oracle_sees_a_fix_pushed_twice_or_nowhere_and_a_missing_file(
    fault: str, changes: Changes
) -> None:
    assert fault in _judged(MENDED, **changes)


# -- planted in the evidence of a real run


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcome(stack: ChaosStack) -> AsyncIterator[Outcome]:
    yield await play(stack, plan_of(4, threads=8, kinds=("duplicates",)))


FAULT_ROW = SimpleNamespace(
    id=7, kind="no_worker", subject="agents", told_open=True, told_over=False, over=False
)
TOLD, TOLD_OVER = (_post(f"fault:7{end}", channel=identity.ESCALATIONS) for end in ("", ":over"))
ELSEWHERE = _post("fault:7")
OVER: Changes = {"over": True, "told_over": True}


@pytest.mark.parametrize(
    ("posts", "row", "fault"),
    [
        ([TOLD], {}, ""),
        ([TOLD, TOLD_OVER], OVER, ""),
        ([TOLD_OVER], OVER | {"told_open": True}, ""),
        ([TOLD, TOLD], {}, "told 2 times of no_worker agents, and 0 times of its end"),
        (
            [TOLD, TOLD_OVER, TOLD_OVER],
            OVER,
            "told 1 times of no_worker agents, and 2 times of its end",
        ),
        (
            [],
            {"told_open": False},
            "no_worker agents is not over, and the admin was told 0 times of it",
        ),
        ([ELSEWHERE], {}, "no_worker agents is not over, and the admin was told 0 times of it"),
        (
            [TOLD],
            {"over": True},
            "no_worker agents is over, and the admin was told 1 times of it, and 0 times",
        ),
    ],
)
async def test_oracle_counts_the_admins_notices(
    posts: list[Post], row: Changes, fault: str
) -> None:
    found = _judged(Evidence({}, posts, installation_faults=[_changed(FAULT_ROW, **row)]))
    assert fault in found
    assert bool(found) is bool(fault)


@pytest.mark.parametrize(
    ("failure", "given_up"),
    [
        ("git init failed: No space left on device", True),
        ("The disk under the agent's workspaces is full: free some space there.", True),
        ("The repository shop cannot be fetched", True),
        ("The worker that ran this step was lost.", False),
    ],
)
async def test_oracle_sees_a_case_that_escalated_for_a_fault_of_the_installation(
    failure: str, given_up: bool
) -> None:
    turn = SimpleNamespace(
        thread="BUG-1", turn=1, failure=failure, action="", result={}, read_seqs=[], next_step=""
    )
    assert bool([*oracle._given_up(Evidence({}, case_turns=[turn]))]) is given_up


@pytest.mark.parametrize(
    ("finished", "closed_at", "is_fault"),
    [
        (15.0, 25.0, False),
        (5.0, 11.0, False),
        (5.0, 9.0, True),
        (21.0, 25.0, True),
        (15.0, None, True),
    ],
)
async def test_oracle_allows_a_close_to_drop_refused_posts(
    finished: float, closed_at: float | None, *, is_fault: bool
) -> None:
    turn = _changed(
        READING, next_step="investigating: new_messages", finished=finished, closed_at=closed_at
    )
    evidence = Evidence({}, case_turns=[turn], refusals=[(10.0, 20.0)])
    assert bool([*oracle._case_posts(evidence)]) is is_fault


@pytest.mark.parametrize(
    ("shown", "is_fault"),
    [
        ("## Summary\n\nTurn 2 found this.", False),
        ("## Summary\n\nTurn 1 found this.", True),
    ],
)
async def test_oracle_sees_findings_that_were_not_replaced(shown: str, *, is_fault: bool) -> None:
    later = {"seen": [], "summary": "Turn 2 found this."}
    turns = [READING, _changed(READING, turn=2, result=later)]
    findings = _post("BUG-1:turn:1:findings", channel=identity.SUMMARIES)
    findings.blocks = [{"type": "markdown", "text": shown}]
    note = _post("BUG-1:turn:2:reply", channel=identity.SUMMARIES)
    evidence = Evidence({}, case_turns=turns, posts=[findings, note])
    assert bool([*oracle._case_findings(evidence)]) is is_fault


def _with_written(whole: Evidence, **values: Any) -> Changes:
    place = whole.cases[0].place
    added = Written(
        **{
            "id": "T:C:1",
            "kind": MessageKind.MESSAGE,
            "place": place,
            "text": "who saw me?",
            **values,
        }
    )
    return {"written": {**whole.written, added.id: added}}


def _with_first(whole: Evidence, **values: Any) -> Changes:
    return {
        "case_messages": [_changed(whole.case_messages[0], **values), *whole.case_messages[1:]]
    }


def _without_first(whole: Evidence) -> Changes:
    return {
        "written": {
            id_: each
            for id_, each in whole.written.items()
            if id_ != whole.case_messages[0].message_id
        }
    }


def _with_first_deleted(whole: Evidence) -> Changes:
    first = whole.written[whole.case_messages[0].message_id]
    return {"written": {**whole.written, first.id: replace(first, text="", gone=True)}}


def _with_seen(whole: Evidence, times: int) -> Changes:
    turn = next(turn for turn in whole.case_turns if turn.result["seen"])
    other = _changed(turn, result={"seen": turn.result["seen"] * times})
    return {"case_turns": [other if each is turn else each for each in whole.case_turns]}


def _with_unsent(whole: Evidence) -> Changes:
    case = whole.cases[0].thread
    return {"unsent": [(case, f"{case}:summary")], "terminated": Counter(["BUG-0"])}


def _with_running_turn(whole: Evidence) -> Changes:
    case = whole.cases[0].thread
    return {"running_turns": [SimpleNamespace(thread=case, turn=3)], "terminated": Counter([case])}


EDIT: Changes = {
    "id": "T:C:2:e3",
    "kind": MessageKind.EDIT,
    "text": "other words",
    "original": "T:C:2",
}


@pytest.mark.parametrize(
    ("fault", "plant"),
    [
        ("T:C:1 (message, “who saw me?”) was never stored", _with_written),
        (
            "T:C:2:e3 (edit, “other words”) was never stored",
            lambda whole: _with_written(whole, **EDIT),
        ),
        (
            "was stored 2 times",
            lambda whole: {"case_messages": [whole.case_messages[0], *whole.case_messages]},
        ),
        (
            "reads “something else”",
            lambda whole: _with_first(whole, message_text="something else"),
        ),
        ("was stored, and nobody wrote it", _without_first),
        ("was deleted, and still reads", _with_first_deleted),
        ("was used 0 times", lambda whole: _with_seen(whole, 0)),
        ("was used 2 times", lambda whole: _with_seen(whole, 2)),
        ("posted 2 times", lambda whole: {"posts": [*whole.posts, *whole.posts]}),
        ("was not posted", lambda whole: {"posts": []}),
        (":closing:", lambda whole: {"posts": []}),
        ("was posted 0 times", lambda whole: {"posts": []}),
        (
            "was left investigating",
            lambda whole: {
                "cases": [_changed(whole.cases[0], status="investigating"), *whole.cases[1:]]
            },
        ),
        ("nothing was stored of what people said in", lambda whole: {"cases": []}),
        ("turn 3 is still claimed", _with_running_turn),
        ("never sent", _with_unsent),
        ("was called for 2 times", lambda whole: {"calls": [*whole.calls, *whole.calls]}),
        ("was added, and is there 0 times", lambda whole: {"items": {}}),
        (
            "was shown to nobody",
            lambda whole: {"messages": [_changed(row, shown=0) for row in whole.messages]},
        ),
    ],
)
async def test_oracle_sees_each_fault_planted_in_a_real_run(
    outcome: Outcome, fault: str, plant: Callable[[Evidence], Changes]
) -> None:
    assert fault in _judged(outcome.evidence, **plant(outcome.evidence))


async def test_oracle_sees_no_fault_in_a_clean_run_and_allows_undelivered_events(
    outcome: Outcome,
) -> None:
    assert not outcome.faults, outcome.report
    whole = outcome.evidence
    assert whole.items
    assert judge(whole) == []
    assert _judged(whole, **_with_written(whole, **EDIT), unheard={EDIT["id"]}) == ""


async def test_timeline_shows_a_conversation_from_all_sources(
    stack: ChaosStack, outcome: Outcome
) -> None:
    concerned = outcome.evidence.calls[0].thread
    words = await timeline.timeline_of(stack, outcome.evidence, (), [Fault(concerned, "planted")])
    for source in ("slack", "stored", "said", "turn", "tool", "ledger", "chaos"):
        assert f" {source} " in words


async def test_leftover_workspace_and_process_are_found(
    stack: ChaosStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_checks, "CLEANUP", 0.5)
    await stack.use(real=False, http=False)
    left = stack.workspaces / "cases" / "BUG-1"
    begin = "import os, time; print(os.getpid(), flush=True); os.close(1); time.sleep(60)"
    fork = f"import os, sys; os.fork() and os._exit(0); exec({begin!r})"
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", fork),
        cwd=stack.home.root,
        env={"PATH": os.defpath},
        stdout=asyncio.subprocess.PIPE,
    )
    orphan = psutil.Process(int((await parent.communicate())[0]))
    try:
        async with stack._hold("agents"):
            await stack.family.stop("agents")  # its sweep would remove the workspace
            left.mkdir(parents=True, exist_ok=True)
            found = "\n".join(map(str, await live_checks.judge_leftovers(stack, ["BUG-1"])))
            left.rmdir()
        assert str(left) in found
        assert f"process {orphan.pid}" in found
    finally:
        orphan.kill()
    assert await live_checks.judge_leftovers(stack, ["BUG-1"]) == []


async def test_stuck_case_is_reported_with_its_timeline(stack: ChaosStack) -> None:
    await stack.use(real=False, http=False)
    async with stack._hold("agents"):
        await stack.family.stop("agents")
        outcome = await play(
            stack, plan_of(6, threads=2, kinds=("equal timestamps",)), longest=3.0
        )
    assert "has no end" in outcome.report
    assert "was left investigating" in outcome.report
    for source in ("slack", "stored", "status", "temporal", "chaos"):
        assert f" {source} " in outcome.report
    assert "make chaos SEED=6" in outcome.report


# -- the plan and the scripted model


async def test_plans_stay_within_the_guards_and_use_every_action() -> None:
    plans = [plan_of(seed) for seed in range(100)]
    conversations = [each for plan in plans for each in plan.conversations]
    for each in conversations:
        assert (
            1 + each.about_rfp + sum(ASKED.get(step.action, 0) for step in each.steps)
            <= MOST_ASKED
        )
    steps = [step for each in conversations for step in each.steps]
    steps += [step for plan in plans for each in plan.cases for step in each.steps]
    assert {step.action for step in steps} == set(Action)
    assert {each.direct for each in conversations} == {True, False}
    assert {plan.outage is None for plan in plans[:20]} == {True, False}


async def test_scripted_model_makes_each_order_once_and_names_the_messages() -> None:
    def prompt(*dialogue: Message, choice: ToolChoice = ToolChoice.AUTO) -> Prompt:
        return Prompt("", dialogue, ({"name": CREATE_ITEMS},), choice)

    order = Message(Role.USER, TEXTS[ROOT])
    aside = Message(Role.USER, f"{ASIDE}, t00m01.")
    reply = reply_to(prompt(order, order))
    assert [call.name for call in reply.calls] == [CREATE_ITEMS]
    called = Message(Role.ASSISTANT, calls=reply.calls)
    assert reply_to(prompt(order, called)).text == "I have read t00r."
    answered = Message(Role.ASSISTANT, "I have read t00r.")
    corrected = Message(Role.USER, f"[Corrected] {order.content} (that is, t00m02)")
    assert reply_to(prompt(order, called, answered, corrected)).text == "I have read t00r, t00m02."
    assert reply_to(prompt(order, called, answered, aside)).text == NO_REPLY
    assert reply_to(prompt(aside, choice=ToolChoice.NONE)).text == "I have read t00m01."
    silent = Message(Role.ASSISTANT, NO_REPLY)
    assert (
        reply_to(prompt(aside, silent, Message(Role.USER, TEXTS[FIRST]))).text
        == "I have read t00m01, t00m00."
    )


async def test_scripted_operator_loads_notes_and_posts_in_one_reply_and_once() -> None:
    noted = Message(Role.USER, "Please note t00r of rfp_chaos1.")
    prompt = Prompt("rfp_id_scope: rfp_chaos1", (noted,), ({"name": POST_SUMMARY},))
    calls = reply_to(prompt).calls
    assert [call.name for call in calls] == [
        "opportunity_load",
        "opportunity_patch",
        "journal_append",
        POST_SUMMARY,
    ]
    assert "t00r" in calls[-1].arguments
    called = Message(Role.ASSISTANT, "", calls)
    refused = replace(prompt, messages=(noted, called, Message(Role.TOOL, "refused")))
    assert reply_to(refused) == ModelReply("I have read t00r.")
    posted = (
        noted,
        called,
        Message(Role.TOOL, f"It is {POSTED}."),
        Message(Role.USER, "It is about t00m00."),
    )
    again = reply_to(replace(prompt, messages=posted)).calls
    assert [call.name for call in again] == ["opportunity_load", POST_SUMMARY]
    assert "t00r" not in again[-1].arguments
