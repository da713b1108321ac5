"""`threadline explain` shows turns that ran through the activities, found by the addresses of
their messages.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.cli.command import run_command
from tests.support.case_store import THREAD as CASE_THREAD
from tests.support.case_store import report
from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from tests.support.recording import create
from threadline.cases.store.messages import CaseMessageStore
from threadline.conversations.contract import FinishRequest, ThreadNotice
from threadline.conversations.model.conversation import NoticeReason, OutcomeKind
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.operator.model.protocol import ProtocolState
from threadline.rfps.store import RfpStore
from threadline.slack.model import UserProfile
from threadline.slack.store import UserStore
from threadline.threads.model import IncomingMessage, MessageKind, deletion_id
from threadline.threads.store import PostStore
from threadline.tools.model import Author, Change, Operation
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import GENERAL, REPORTER, TEAM

__all__ = ["make_talk", "talk"]

CITY = "rfp_abc123"
REPORT = report()
STATE = ProtocolState(scope=CITY, loaded=(CITY,), did_load=True)
LAYERS = [
    {"layer": "user", "bytes": 3, "cut": "", "milliseconds": 2},
    {"layer": "thread", "bytes": 9, "missing": "x"},
]
SECRET = "xoxb-123456789012-123456789012-abcdefghijklmnopqrstuvwx"


class Explain:
    def __init__(self, url: str, folder: Path) -> None:
        self._given = {
            "DATABASE_URL": url,
            "THREADLINE_TEMPORAL_UI": "http://ui.example:8233/",
            "COLUMNS": "200",
        }
        self._folder = folder

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_command(("explain", *arguments), self._given, self._folder)

    def told(self, *arguments: str) -> dict[str, Any]:
        done = self(*arguments, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        return dict(json.loads(done.stdout))

    def refused(self, *arguments: str) -> str:
        done = self(*arguments)
        assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (1, 1, "")
        return done.stderr


@pytest.fixture
def explain(database_url: str, tmp_path: Path) -> Explain:
    return Explain(database_url, tmp_path)


def link(ts: str, thread_ts: str = "") -> str:
    query = f"?thread_ts={thread_ts}&cid={GENERAL}" if thread_ts else ""
    return f"https://acme.slack.com/archives/{GENERAL}/p{ts.replace('.', '')}{query}"


def answer_of(talk: ConversationActivityScene) -> str:
    (post,) = [each for each in talk.posted() if each.thread_ts == talk.thread.ts]
    return post.ts


@pytest.fixture
async def asked(talk: ConversationActivityScene) -> IncomingMessage:
    """The message of an operator's turn that has ended; only the model's replies are scripted."""
    await create(talk.database, "c1", team=TEAM, rfp_id=CITY, title="City website")
    question = talk.message(f"what is the status of {CITY}?")
    await talk.said(question)
    await talk.begin()
    async with talk.database.begin() as tx:
        await TurnStore(tx).set_context(talk.thread, 1, "Everything about the city.", "", LAYERS)
        await UserStore(tx).save(TEAM, UserProfile(REPORTER, "", "Rae Porter", "", 1.0))
        author = Author(REPORTER, f"{talk.thread.key}:1")
        change = Change(Operation(talk.thread, 1, 1, "e1"), author, 1.0)
        await RfpStore(tx).append_event(change, CITY, "looked", {"at": "status"})

    async def work_on_it(turn: ScriptTurn) -> None:
        await turn.call_together(
            ("lamps_list", {}), ("lamps_create", {"title": f"A lamp for {SECRET}"})
        )

    talk.model.script(work_on_it)
    for call in (await talk.think()).reply.calls:
        await talk.act(call)
    request = FinishRequest(
        talk.thread, 1, OutcomeKind.SUMMARISED, "It is new.", model_calls=1, protocol=STATE
    )
    await talk.run(talk.activities.finish_turn, request)
    await talk.post()
    return question


async def test_turn_is_shown_with_all_stored_data(
    talk: ConversationActivityScene, asked: IncomingMessage, explain: Explain
) -> None:
    answer = answer_of(talk)
    told = explain.told(link(answer, talk.thread.ts))
    assert told["workflow_id"] == f"conversation:{talk.thread.key}"
    assert (
        told["workflow_url"]
        == f"http://ui.example:8233/namespaces/default/workflows/conversation:{talk.thread.key}"
    )
    assert (told["turn"], told["correlation_id"]) == (1, f"{talk.thread.key}:1")
    assert told["asker"] == {"user_id": REPORTER, "name": "Rae Porter"}
    assert [each["text"] for each in told["said"]] == [asked.text]
    assert (told["route"]["branch"], told["route"]["agent"]) == ("D", "operator")
    assert told["route"]["scope"] == {"rfp_id": CITY, "origin": "message", "others": []}
    assert told["route"]["requirement"] == {
        "required": False,
        "step": 4,
        "phrase": "rfp",
        "exception": "what is",
    }
    assert told["layers"] == LAYERS
    calls = [(each["tool_name"], each["status"]) for each in told["tool_calls"]]
    assert calls == [("lamps.list", "ok"), ("lamps.create", "ok")]
    assert "N-1" in told["tool_calls"][0]["result"]
    assert told["tool_calls"][0]["milliseconds"] is not None
    assert told["protocol"]["did_load"] is True
    assert [(each["kind"], each["what"]) for each in told["journal"]] == [("said", "It is new.")]
    assert [(each["kind"], each["what"]) for each in told["events"]] == [
        ("looked", {"at": "status"})
    ]
    assert [each["purpose"] for each in told["model_calls"]] == ["think"]
    assert told["spent"]["tokens"] == told["result"]["tokens"] > 0
    assert (told["ended"]["kind"], told["ended"]["answer"]) == ("summarised", "It is new.")
    assert told["ended"]["posted_at"]
    assert SECRET not in json.dumps(told)
    for address in (
        f"{GENERAL}/{answer}",
        link(asked.ts),
        f"<{link(asked.ts)}|the message>",
        f"{GENERAL}/{asked.ts}",
    ):
        assert explain.told(address) == told, address


async def test_turn_is_shown_to_people_as_text(
    talk: ConversationActivityScene, asked: IncomingMessage, explain: Explain
) -> None:
    done = explain(f"{GENERAL}/{asked.ts}")
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        f"http://ui.example:8233/namespaces/default/workflows/conversation:{talk.thread.key}",
        f"Rae Porter ({REPORTER})",
        "step 4 by 'rfp', with 'what is'",
        f"{CITY} (from the message)",
        "milliseconds",
        "2. step 1: lamps.create, ok",
        "scope: rfp_abc123\nloaded: rfp_abc123\ndid_load: True",
        "said: It is new.",
        'looked: {"at": "status"}',
        "tokens, $",
        "summarised, steps: 1",
    ):
        assert part in done.stdout, done.stdout
    assert SECRET not in done.stdout


async def test_deleted_message_and_texts_that_may_quote_it_are_withheld(
    talk: ConversationActivityScene, asked: IncomingMessage, explain: Explain
) -> None:
    identity = deletion_id(TEAM, GENERAL, asked.ts)
    gone = talk.message(
        "", id=identity, kind=MessageKind.DELETION, correction_of=asked.id, ts=asked.ts
    )
    await talk.said(gone)
    told = explain.told(link(answer_of(talk), talk.thread.ts))
    assert told["withheld"] is True
    assert [(each["text"], each["deleted"]) for each in told["said"]] == [("", True)]
    whole = json.dumps(told) + explain(link(asked.ts)).stdout
    assert "what is the status" not in whole
    assert "It is new." not in whole
    assert "N-1" not in whole
    assert [each["tool_name"] for each in told["tool_calls"]] == ["lamps.list", "lamps.create"], (
        "a completed action is shown"
    )


async def test_running_turn_is_shown_up_to_its_present_step(
    talk: ConversationActivityScene, explain: Explain
) -> None:
    question = talk.message("what is the weather like?")
    await talk.said(question)
    await talk.begin()
    assert "The turn has not ended yet." in explain(link(question.ts)).stdout
    told = explain.told(link(question.ts))
    assert (told["ended"], told["result"], told["protocol"]) == (None, None, None)
    assert told["asker"]["user_id"] == REPORTER


async def test_turn_without_a_stored_route_is_shown(
    talk: ConversationActivityScene, explain: Explain
) -> None:
    await talk.said("any news there")
    outcome = await talk.answer()
    assert outcome.kind in tuple(OutcomeKind)
    told = explain.told(link(answer_of(talk), talk.thread.ts))
    assert (told["route"], told["result"], told["layers"]) == (None, None, [])
    assert told["ended"]["kind"] == outcome.kind
    assert told["model_calls"]
    assert "not on record" in explain(link(answer_of(talk), talk.thread.ts)).stdout


async def test_forgotten_conversation_is_reported(
    talk: ConversationActivityScene, asked: IncomingMessage, explain: Explain
) -> None:
    answer = answer_of(talk)
    async with talk.database.begin() as tx:
        await tx.execute(text("UPDATE conversations SET last_at = now() - interval '200 days'"))
        assert await ConversationStore(tx).prune(talk.at - 86_400) == 1
    assert await talk.rows("SELECT * FROM conversation_turns") == []
    assert "is no longer on record" in explain.refused(link(answer, talk.thread.ts))
    assert "is not on record" in explain.refused(f"{GENERAL}/{answer}"), (
        "a bare address names no thread"
    )


@pytest.mark.parametrize("ts", [REPORT.ts, "1700000900.000100"])
async def test_message_of_a_case_names_the_command_that_shows_it(
    database: Database, explain: Explain, ts: str
) -> None:
    async with database.begin() as tx:
        await CaseMessageStore(tx).flush(CASE_THREAD, [REPORT])
        claimed = await PostStore(tx).claim("BUG-1:ack", REPORT.channel, REPORT.ts)
        assert claimed.state == "ours"
        await PostStore(tx).record_posted("BUG-1:ack", "1700000900.000100")
    done = explain(f"{REPORT.channel}/{ts}")
    assert (done.returncode, "`threadline cases show BUG-1`" in done.stdout) == (0, True)
    told = explain.told(f"{REPORT.channel}/{ts}")
    assert told == {"case": "BUG-1", "command": "threadline cases show BUG-1"}


async def test_notice_of_the_bot_belongs_to_no_turn(
    talk: ConversationActivityScene, explain: Explain
) -> None:
    await talk.said("any news")
    await talk.run(
        talk.activities.post_thread_notice, ThreadNotice(talk.thread, NoticeReason.MODEL_AWAY, "1")
    )
    assert "a notice from the bot" in explain.refused(link(answer_of(talk), talk.thread.ts))


async def test_waiting_message_belongs_to_no_turn_yet(
    talk: ConversationActivityScene, explain: Explain
) -> None:
    question = talk.message("what is the weather like?")
    await talk.said(question)
    assert "no turn has used it" in explain.refused(link(question.ts))


@pytest.mark.parametrize(
    "address",
    [
        "any news",
        "C0123456789/17",
        "https://example.com/",
        "https://acme.slack.com/archives/C0123456789",
        "https://acme.slack.com/archives/C0123456789/pabc",
    ],
)
def test_invalid_address_is_refused_with_an_example(explain: Explain, address: str) -> None:
    assert "C0123456789/1700000000.000100" in explain.refused(address)


def test_unknown_message_is_reported(explain: Explain) -> None:
    assert "is not on record" in explain.refused("C0123456789/1700000000.000100")


@pytest.fixture
async def failed(talk: ConversationActivityScene) -> IncomingMessage:
    """The message of a running turn whose model was refused twice, with a secret in the API's
    error text.
    """
    question = talk.message("what is the weather like?")
    await talk.said(question)
    await talk.begin()
    for _ in range(2):
        talk.model.fail_next(1, status=422, code=f"strange {SECRET}")
        with pytest.raises(Permanent):
            await talk.think()
    return question


async def test_failed_model_call_is_shown_with_the_reason_of_the_api(
    talk: ConversationActivityScene, failed: IncomingMessage, explain: Explain
) -> None:
    told = explain.told(link(failed.ts))
    assert [(each["step"], each["purpose"]) for each in told["model_calls"]] == [(1, "think")] * 2
    assert all("refused the request as invalid" in each["failure"] for each in told["model_calls"])
    assert all("Error code: 422" in each["failure"] for each in told["model_calls"])
    shown = explain(link(failed.ts)).stdout
    assert "Failed model calls" in shown
    assert "step 1, think, 2 times" in shown
    assert "Error code: 422" in shown
    assert SECRET not in json.dumps(told) + shown

    await talk.think()
    await talk.answer()
    told = explain.told(link(failed.ts))
    assert ["failure" in each and bool(each["failure"]) for each in told["model_calls"]][:3] == [
        True,
        True,
        False,
    ]


async def test_reason_of_a_failed_call_is_deleted_with_the_message(
    talk: ConversationActivityScene, failed: IncomingMessage, explain: Explain
) -> None:
    await talk.said(talk.deletion(failed))
    rows = await talk.rows("SELECT failure FROM model_calls")
    assert len(rows) == 2
    assert all("422" not in row["failure"] for row in rows)
    told = explain.told(link(failed.ts))
    assert "422" not in re.sub(r"\d{10}\.\d{6}", "", json.dumps(told)), (
        "beside the times of messages"
    )
