"""The oracle of conversations sees what is planted, and the scripted model does as the oracle expects."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tests.chaos.claimants import Seen
from tests.chaos.people import Written
from tests.chaos.plan import plan_of
from tests.chaos.scripted_chat import SPEAK, SPOKEN, TOOL, reply_to
from tests.chaos.talk_evidence import TalkEvidence
from tests.chaos.talk_oracle import judge
from tests.chaos.talk_plan import ASIDE, BURST, MOST, Line
from threadline.conversations.model import answers
from threadline.conversations.prompt import NO_REPLY
from threadline.models.chat_model import Prompt
from threadline.models.model import Message, ModelReply, Role, ToolChoice
from threadline.threads import messages
from threadline.threads.addressing import Thread
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import Message as Post

ROOT, FIRST, AGAIN, STOP = "100.000001", "100.000002", "100.000003", "100.000004"
PLACE = f"{identity.GENERAL}:{ROOT}"
TALK = f"{identity.TEAM}:{PLACE}"
SAID = {ROOT: "Please add t00r to chaos-1.", FIRST: "It is about t00m00.", AGAIN: "It is about t00m00.", STOP: "stop"}


def _id(ts: str) -> str:
    return f"{identity.TEAM}:{identity.GENERAL}:{ts}"


def _row(ts: str, seq: int, **values: Any) -> Any:
    kind = messages.STOP if ts == STOP else messages.MESSAGE
    said = {"message_id": _id(ts), "message_type": kind, "message_text": SAID[ts], "said_at": float(ts)}
    used = {
        "addressed": True,
        "verdict": "ok",
        "turn": 1,
        "step": 1,
        "shown": 1,
        "place": seq,
        "redacted": False,
        "edited": False,
    }
    return SimpleNamespace(bug_id=TALK, seq=seq, sender_id="U1", channel=identity.GENERAL, **{**said, **used, **values})


def _post(key: str, thread_ts: str = ROOT) -> Post:
    metadata = {"event_payload": {"key": key}}
    return Post(identity.GENERAL, "101.000001", identity.BOT_USER, "", thread_ts=thread_ts, metadata=metadata)


def _turn(**values: Any) -> Any:
    ended = {"kind": "answered", "answer": "I have read t00r, t00m00.", "said": True}
    way = {"agent": "copilot", "rfp_id": "", "entries": 0}
    return SimpleNamespace(bug_id=TALK, turn=1, **{**ended, **way, **values})


def _whole() -> TalkEvidence:
    kinds = {ts: messages.STOP if ts == STOP else messages.MESSAGE for ts in SAID}
    said = [Written(_id(ts), kinds[ts], PLACE, SAID[ts], (identity.GENERAL, ts)) for ts in SAID]
    return TalkEvidence(
        {each.id: each for each in said},
        [_post(f"talk:{TALK}:turn:1")],
        talks=[SimpleNamespace(bug_id=TALK, thread_ts=PLACE, id=1, turn=1, taken_turn=1, stored=4)],
        stored=[
            _row(ROOT, 1),
            _row(FIRST, 2),
            _row(AGAIN, 3, verdict="duplicate", turn=None, step=None, shown=0, place=None),
            _row(STOP, 4, verdict=None, step=0, shown=0, place=None),
        ],
        turns=[_turn()],
        calls=[SimpleNamespace(bug_id=TALK, turn=1, step=1, tool_name=TOOL, status="ok", title="t00r")],
        items={"t00r": 1},
    )


def _seen(**changed: Any) -> str:
    return "\n".join(map(str, judge(replace(_whole(), **changed))))


def _stored(at: int, **values: Any) -> list[Any]:
    rows = _whole().stored
    rows[at] = SimpleNamespace(**{**vars(rows[at]), **values})
    return rows


def test_the_oracle_sees_nothing_where_all_is_well() -> None:
    assert _seen() == ""


def test_the_oracle_sees_what_was_lost_doubled_or_changed() -> None:
    whole = _whole()
    assert f"{_id(STOP)} (stop, “stop”) was never stored" in _seen(stored=whole.stored[:3])
    assert f"{_id(ROOT)} was stored 2 times" in _seen(stored=[*whole.stored, whole.stored[0]])
    assert "are stored" in _seen(stored=whole.stored[1:])
    assert "reads “something else t00m00”" in _seen(stored=_stored(1, message_text="something else t00m00"))
    assert "is nobody's" in _seen(written={_id(ts): whole.written[_id(ts)] for ts in (ROOT, FIRST, AGAIN)})
    assert "is nobody's" not in _seen(
        written={_id(ts): whole.written[_id(ts)] for ts in (ROOT, FIRST, AGAIN)}, signs={_id(STOP)}
    )
    assert f"nothing was stored of what people said in {PLACE}" in _seen(talks=[], stored=[], turns=[])


def test_the_oracle_sees_what_did_not_reach_the_other_side_of_a_hand_over() -> None:
    thread = Thread(identity.TEAM, identity.GENERAL, ROOT)
    whole, escalated = Seen(thread, 1, {"h00a0": 1}, {"h00q0": 1}), [_turn(kind="escalated")]
    assert _seen(claims=[whole], turns=escalated) == ""
    assert "were asked 0 times to take it over" in _seen(claims=[replace(whole, cards=0)], turns=escalated)
    assert "were asked 2 times to take it over" in _seen(claims=[replace(whole, cards=2)], turns=escalated)
    assert "h00a0, was said there 2 times" in _seen(claims=[replace(whole, answers={"h00a0": 2})], turns=escalated)
    assert "h00q0, was said there 0 times" in _seen(claims=[replace(whole, asks={"h00q0": 0})], turns=escalated)
    assert "the agent has answered in [1]" in _seen(claims=[whole])


def test_direct_messages_that_slack_never_delivered_are_missed_by_nobody() -> None:
    lost = Written("T:D1:9.1", messages.MESSAGE, "D1:9.1", "t01r", ("D1", "9.1"))
    written = {**_whole().written, lost.id: lost}
    assert "nothing was stored" in _seen(written=written)
    assert _seen(written=written, unheard={lost.id}) == ""


def test_the_oracle_sees_what_was_not_answered_or_more_than_once() -> None:
    assert "was never answered" in _seen(stored=_stored(1, turn=None, shown=0))
    assert "was never answered" in _seen(stored=_stored(1, turn=2))
    assert "was shown to nobody" in _seen(stored=_stored(1, shown=0))
    assert "was shown 2 times" in _seen(stored=_stored(1, shown=2))
    assert "is duplicate, and was shown in turn 1" in _seen(stored=_stored(2, turn=1, shown=1, place=3))
    assert "is still to stop something" in _seen(stored=_stored(3, turn=None))
    assert "which say the same, 2 passed" in _seen(stored=_stored(2, verdict="ok"))
    assert "which say the same, 0 passed" in _seen(stored=_stored(1, verdict="duplicate"))
    assert "say the same" not in _seen(stored=_stored(2, verdict="ok"), guards_opened=True)
    overheard = _stored(2, verdict="ok", addressed=False)
    assert "say the same" in _seen(stored=overheard)
    overheard[0].sender_id = "U2"
    assert "say the same" not in _seen(stored=overheard)
    assert "was judged throttled" in _seen(stored=_stored(1, verdict="throttled"))
    assert "was judged None" in _seen(stored=_stored(1, verdict=None))
    assert "in another order" in _seen(stored=_stored(1, place=0))
    assert "its answer is not about it" in _seen(turns=[_turn(answer="I have read t00r.")])


def test_the_oracle_sees_an_answer_that_comes_again() -> None:
    whole = _whole()
    again = SimpleNamespace(**{**vars(_turn(answer="I have read t00m00.")), "turn": 2})
    talk = SimpleNamespace(**{**vars(whole.talks[0]), "turn": 2, "taken_turn": 2})
    posts = [*whole.posts, _post(f"talk:{TALK}:turn:2")]
    seen = _seen(talks=[talk], turns=[*whole.turns, again], posts=posts)
    assert seen == f"{TALK}: {_id(FIRST)} of turn 1 is answered in turn 2, too"
    silent = [_turn(kind="silent", answer=""), again]
    assert "answered in turn 2" not in _seen(talks=[talk], turns=silent, posts=posts)


def test_the_oracle_sees_a_turn_without_its_end_and_an_answer_that_is_not_there_or_twice() -> None:
    whole, key = _whole(), f"talk:{TALK}:turn:1"
    begun = SimpleNamespace(**{**vars(whole.talks[0]), "taken_turn": 2})
    assert "turn 2 was begun and never settled" in _seen(talks=[begun])
    assert "it is at turn 1, and settled []" in _seen(turns=[])
    assert "turn 1 is silent, and its answer" in _seen(turns=[_turn(kind="silent")])
    assert "turn 1 is answered, and its answer “”" in _seen(turns=[_turn(answer="")])
    assert "was never said" in _seen(turns=[_turn(said=False)])
    assert f"{key} was posted 0 times" in _seen(posts=[])
    assert f"{key} was posted 2 times" in _seen(posts=[*whole.posts, *whole.posts])
    assert "under 1.1" in _seen(posts=[_post(key, "1.1")])
    assert "is no answer" in _seen(posts=[*whole.posts, _post(f"talk:{TALK}:turn:7")])
    assert "never sent" in _seen(claimed=[f"talk:{TALK}:turn:1#2"])
    assert _seen(posts=[*whole.posts, _post(f"{key}#2"), _post("BUG-1:turn:1:findings")]) == ""


def test_the_oracle_sees_an_effect_that_came_twice_or_never_or_from_nobody() -> None:
    (call,) = _whole().calls
    failed = SimpleNamespace(**{**vars(call), "status": "error"})
    assert "is there 2 times, of 1 calls" in _seen(items={"t00r": 2})
    assert "was added, and is there 0 times" in _seen(items={})
    assert "is there 1 times, of 0 calls" in _seen(calls=[])
    assert "was called for 2 times" in _seen(calls=[call, failed])
    assert _seen(calls=[failed], items={}) == ""


def test_the_oracle_knows_who_stopped_a_turn() -> None:
    by_operator = answers.stopped([], by_operator=True)
    stopped = [_turn(kind="stopped", answer=answers.stopped([]))]
    assert _seen(turns=stopped) == ""
    whole = _whole()
    nobody = {_id(ts): whole.written[_id(ts)] for ts in (ROOT, FIRST, AGAIN)}
    talk = SimpleNamespace(**{**vars(whole.talks[0]), "stored": 3})
    seen = _seen(turns=stopped, written=nobody, stored=whole.stored[:3], talks=[talk])
    assert seen == f"{TALK}: turn 1 says that somebody stopped it, and nobody did"
    cancelled = [_turn(kind="stopped", answer=by_operator)]
    assert "1 turns say that an operator stopped them, who cancelled 0 runs" in _seen(turns=cancelled)
    assert _seen(turns=cancelled, cancelled=Counter([TALK])) == ""


def test_after_terminate_alone_the_sweep_may_mend_a_conversation_and_a_word_stay_unsaid() -> None:
    word, terminated = [f"talk:{TALK}:model_away:1"], Counter([TALK])
    assert "the sweep had to revive it" in _seen(revived={TALK})
    assert "never sent" in _seen(claimed=word)
    assert _seen(revived={TALK}, claimed=word, terminated=terminated) == ""
    assert "never sent" in _seen(claimed=[f"talk:{TALK}:turn:1"], terminated=terminated)


def _prompt(*dialogue: Message, choice: ToolChoice = ToolChoice.AUTO) -> Prompt:
    return Prompt("", dialogue, ({"name": TOOL},), choice)


def test_the_scripted_model_orders_each_thing_once_and_names_what_was_said() -> None:
    order, aside = Message(Role.USER, SAID[ROOT]), Message(Role.USER, f"{ASIDE}, t00m01.")
    reply = reply_to(_prompt(order, order))
    assert [call.name for call in reply.calls] == [TOOL]
    called = Message(Role.ASSISTANT, calls=reply.calls)
    assert reply_to(_prompt(order, called)).text == "I have read t00r."
    answered = Message(Role.ASSISTANT, "I have read t00r.")
    corrected = Message(Role.USER, f"[Corrected] {order.content} (that is, t00m02)")
    assert reply_to(_prompt(order, called, answered, corrected)).text == "I have read t00r, t00m02."
    assert reply_to(_prompt(order, called, answered, aside)).text == NO_REPLY
    assert reply_to(_prompt(aside, choice=ToolChoice.NONE)).text == "I have read t00m01."
    left = Message(Role.ASSISTANT, NO_REPLY)
    assert reply_to(_prompt(aside, left, Message(Role.USER, SAID[FIRST]))).text == "I have read t00m01, t00m00."


def test_nobody_asks_more_than_the_guards_allow_and_every_line_is_spoken() -> None:
    talks = [talk for seed in range(100) for talk in plan_of(seed).talks]
    for talk in talks:
        lines = [cue.line for cue in talk.cues]
        silent = {Line.REPEATS, Line.EDITS, Line.DELETES, Line.STOPS, Line.STOP_SIGN}
        asked = sum(line not in silent for line in lines) + (BURST - 1) * lines.count(Line.BURSTS)
        assert 1 + asked <= MOST
    assert {cue.line for talk in talks for cue in talk.cues} == set(Line)
    assert {talk.direct for talk in talks} == {True, False}
    assert {plan_of(seed).away is None for seed in range(20)} == {True, False}


def test_the_oracle_sees_what_an_operator_has_said_and_not_written_down() -> None:
    spoken = {"kind": "spoken", "agent": "operator", "rfp_id": "rfp_chaos1"}
    assert "its journal has nothing of it" in _seen(turns=[_turn(**spoken)])
    assert _seen(turns=[_turn(**spoken, entries=1)]) == ""
    assert "its answer is not about it" in _seen(turns=[_turn(**spoken, entries=1, answer="I have read t00r.")])


def test_the_oracle_sees_a_change_of_the_state_that_was_lost_or_made_twice() -> None:
    change = SimpleNamespace(
        bug_id=TALK, turn=1, step=1, tool_name="opportunity.patch", status="ok", title="change t00r"
    )
    calls, items = [*_whole().calls, change], _whole().items
    assert _seen(calls=calls, items=items | {"change t00r": 1}) == ""
    assert "was added, and is there 0 times" in _seen(calls=calls)
    assert "versions that have added nothing" in _seen(doubled=1)


def test_a_link_has_its_answer_by_rule() -> None:
    whole = _whole().written
    written = {**whole, _id(ROOT): replace(whole[_id(ROOT)], text="link rfp_chaos1")}
    rows = _stored(0, message_text="link rfp_chaos1")
    assert _seen(written=written, stored=rows, turns=[_turn(answer="I have read t00m00.")]) == ""


def test_the_model_loads_writes_down_and_speaks_in_one_reply_and_once() -> None:
    tools = ({"name": SPEAK},)
    noted = Message(Role.USER, "Please note t00r of rfp_chaos1.")
    prompt = Prompt("rfp_id_scope: rfp_chaos1", (noted,), tools)
    calls = reply_to(prompt).calls
    assert [call.name for call in calls] == ["opportunity_load", "opportunity_patch", "journal_append", SPEAK]
    assert "t00r" in calls[-1].arguments
    refused = replace(prompt, messages=(noted, Message(Role.ASSISTANT, "", calls), Message(Role.TOOL, "refused")))
    assert reply_to(refused) == ModelReply("I have read t00r.")
    later = Message(Role.USER, "It is about t00m00.")
    said = (noted, Message(Role.ASSISTANT, "", calls), Message(Role.TOOL, f"It is {SPOKEN}."), later)
    again = reply_to(replace(prompt, messages=said)).calls
    assert [call.name for call in again] == ["opportunity_load", SPEAK]
    assert "t00r" not in again[-1].arguments
