"""`threadline decisions` on a real database: the report, its plot, and proposed thresholds."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import MACHINE, Command
from tests.decisions.outcome_samples import surely
from tests.support.conversation_store import REPORTER, THREAD, StoredConversation, mention
from threadline.cli.decisions import draw_calibration
from threadline.conversations.store.conversation import ConversationStore
from threadline.db.engine import Database
from threadline.decisions.model import (
    Decision,
    DecisionOutcome,
    DecisionRound,
    DecisionType,
    EscalationReason,
    Judgement,
    NextStep,
    Thresholds,
    escalation,
)
from threadline.decisions.reports import Calibration, calibrate
from threadline.decisions.store import DecisionStore
from threadline.errors import Permanent
from threadline.threads.model import IncomingMessage, MessageKind, SenderType, message_id
from threadline.threads.store import PostStore

SMALL_PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def run(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setitem(MACHINE, "COLUMNS", "200")
    return Command("decisions", database_url, tmp_path)


@pytest.fixture
async def talk(database: Database) -> StoredConversation:
    talk = StoredConversation(database)
    await talk.hear(mention(0, "What does Starter cost?"))
    return talk


async def decided(
    talk: StoredConversation,
    turn: int,
    confidence: float,
    thumb: str = "",
    verdict: Judgement | None = None,
    outcome: DecisionOutcome = DecisionOutcome.ANSWERED,
    **more: Any,
) -> None:
    """Store a turn with that confidence, and a thumb on its answer."""
    made = DecisionRound(
        1,
        Decision(DecisionType.REASON_ONLY, f"It is thanks {turn}."),
        Thresholds(),
        "abc",
        "v1",
        **more,
    )
    async with talk.database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        store = DecisionStore(tx)
        await store.add(row.id, turn, made)
        told = verdict or Judgement(NextStep.PROCEED, confidence)
        await store.add_judgement(row.id, turn, 1, surely(confidence), told)
        await store.close(row.id, turn, outcome, 0.01)
        key = f"conversation:{THREAD.key}:turn:{turn}"
        ts = f"1700001000.{turn:06}"
        await PostStore(tx).claim(key, THREAD.channel, THREAD.ts)
        await PostStore(tx).record_posted(key, ts)
    if thumb:
        about = message_id(THREAD.team, THREAD.channel, ts)
        moment = f"1700002000.{turn:06}"
        put = (SenderType.UNKNOWN, REPORTER, thumb, THREAD.channel, moment, about)
        await talk.store(IncomingMessage(f"{about}:thumb", MessageKind.REACTION_ADDED, *put))


async def test_without_decisions_report_and_tune_report_none(
    run: Command, database: Database
) -> None:
    for command in ("report", "tune"):
        done = run(command)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("There are no decisions in this time")


async def test_report_shows_counts_calibration_and_wrong_decisions(
    run: Command, talk: StoredConversation
) -> None:
    await decided(talk, 1, 0.9, "+1", variant="calm")
    await decided(talk, 2, 0.8, "-1", variant="bold")
    await decided(
        talk,
        3,
        0.4,
        "-1",
        escalation(0.4, EscalationReason.LOW_CONFIDENCE),
        DecisionOutcome.ESCALATED,
        variant="bold",
    )
    done = run("report", "--since", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "REASON_ONLY" in done.stdout
    assert "33% of 3" in done.stdout
    # By hand: the squares 0.01, 0.64 and 0.36 through three, and the distances 0.1, 0.8 and 0.6.
    assert "3 judged, Brier 0.337, ECE 0.500" in done.stdout
    assert (
        f"Escalated without need: 1\n  {THREAD.key}:3: REASON_ONLY, 0.35, "
        "confidence_below_threshold."
    ) in done.stdout
    assert (
        f"should have been escalated: 1\n  {THREAD.key}:2: REASON_ONLY, 0.80. It is thanks 2."
        in done.stdout
    )
    assert "calm, prompt v1" in done.stdout
    assert "$0.0300" in done.stdout


async def test_calibration_is_drawn_as_a_picture(run: Command, talk: StoredConversation) -> None:
    await decided(talk, 1, 0.9)
    none = run("report", "--plot", "calibration.png")
    assert "There is no plot" in none.stdout
    await decided(talk, 2, 0.9, "+1")
    done = run("report", "--plot", "calibration.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert (run.folder / "calibration.png").read_bytes().startswith(SMALL_PNG)


@pytest.fixture
def some() -> Calibration:
    found = calibrate([(0.9, True), (0.4, False)])
    assert found
    return found


def test_plot_without_its_library_names_the_package(
    some: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(Permanent, match=r"install threadline\[plot\]"):
        draw_calibration(some, tmp_path / "a.png")


def test_plot_that_cannot_be_written_is_refused(some: Calibration, tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="cannot be written"):
        draw_calibration(some, tmp_path / "missing" / "a.png")
    with pytest.raises(Permanent, match="must end in"):
        draw_calibration(some, tmp_path / "a.docx")


async def test_tune_needs_30_judged_decisions(run: Command, talk: StoredConversation) -> None:
    await decided(talk, 1, 0.9, "+1")
    assert "29 more are needed" in run("tune").stdout
    assert "no decisions of the variant bold" in run("tune", "--variant", "bold").stdout


async def test_tune_shows_a_proposal_and_changes_nothing(
    run: Command, talk: StoredConversation
) -> None:
    for turn in range(1, 41):
        await decided(talk, turn, 0.92 if turn % 2 else 0.78, "+1" if turn % 2 else "-1")
    before = await talk.rows("SELECT * FROM decisions ORDER BY turn")
    done = run("tune")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "Judged decisions by confidence: 40. Now: high 0.75, low 0.5 (cost 0.500)." in done.stdout
    )
    assert "Of 40 decisions 20 would change:\n  20: proceed → " in done.stdout
    assert "Nothing was changed" in done.stdout
    assert await talk.rows("SELECT * FROM decisions ORDER BY turn") == before
