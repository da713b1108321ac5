"""What must be true after a run, read from Postgres, the sandbox and Temporal; each fault is a sentence."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, text

from tests.chaos import effects, histories
from tests.chaos.effects import Effects
from tests.chaos.histories import Fault
from tests.chaos.people import Written
from tests.chaos.stage import Stage
from tests.chaos.trouble import Ended
from threadline.threads import messages
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import Message

_CASES = text("""
SELECT bug_id, thread_ts, status, closings, close_reason, summary_channel, summary_ts FROM cases
WHERE channel = :channel AND thread_ts = ANY(:roots)
""")
_MESSAGES = text("""
SELECT bug_id, seq, message_id, message_type, message_text, said_at, turn, wakes, channel,
       redacted_at IS NOT NULL AS redacted FROM bug_conversations
WHERE sender_type <> 'bot' AND bug_id = ANY(:cases) ORDER BY bug_id, seq
""")
_SETTLED = text("""
SELECT t.bug_id, t.turn, t.action, t.result, t.read_seqs, t.attempt, t.failure, t.session_id,
       (SELECT s.to_status || ': ' || s.reason FROM case_transitions s
        WHERE s.bug_id = t.bug_id AND s.at > t.finished_at
          AND NOT EXISTS (SELECT FROM agent_turns n WHERE n.bug_id = t.bug_id AND n.turn > t.turn
                          AND n.started_at < s.at)
        ORDER BY s.rev LIMIT 1) AS next_step,
       EXISTS (SELECT FROM case_transitions s
        WHERE s.bug_id = t.bug_id AND s.at > t.finished_at AND s.to_status = 'resolved'
          AND s.reason IN ('reporter_closed', 'operator_resolved', 'operator_cancelled')
          AND NOT EXISTS (SELECT FROM agent_turns n WHERE n.bug_id = t.bug_id AND n.turn > t.turn
                          AND n.started_at < s.at)) AS closed,
       (SELECT count(*) FROM case_transitions s
        WHERE s.bug_id = t.bug_id AND s.at < t.finished_at AND s.to_status = 'resolved') AS ends
FROM agent_turns t JOIN cases c USING (bug_id)
WHERE t.status = 'done' AND t.turn <= c.turn AND t.bug_id = ANY(:cases) ORDER BY t.bug_id, t.turn
""")
_HELD = text("""
SELECT bug_id, 'turn ' || turn || ' is still claimed' AS what FROM agent_turns
WHERE status = 'running' AND bug_id = ANY(:cases)
UNION ALL
SELECT bug_id, 'the post ' || key || ' is claimed and was never sent' FROM slack_posts
WHERE ts IS NULL AND bug_id = ANY(:cases) AND key NOT LIKE '%:forwarded:%'
""")
"""A notice that a message was forwarded is cosmetic: it is tried twice and left out."""
_SESSIONS = text("""
SELECT session_id, string_agg(entry, ' ') AS words FROM agent_session_entries
WHERE session_id = ANY(:sessions) GROUP BY session_id
""")

_OWN_WORD = re.compile(r"\bw\d\d[a-z]\w*")
_CLOSED = frozenset({"resolved: reporter_closed", "resolved: operator_resolved", "resolved: operator_cancelled"})


@dataclass
class Evidence:
    """What a run leaves behind: what people wrote by id, and the rows of the queries above."""

    written: Mapping[str, Written]
    posts: Sequence[Message]
    cases: list[Any] = field(default_factory=list)
    stored: list[Any] = field(default_factory=list)
    turns: list[Any] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    """The transcripts of the real agent, by session."""
    unheard: set[str] = field(default_factory=set)
    """Ids of what Slack gave up delivering, or a terminated run was told."""
    cut: set[str] = field(default_factory=set)
    """Cases of which a run was terminated."""
    effects: Effects = field(default_factory=Effects)
    attached: Mapping[str, bool] = field(default_factory=dict)

    @property
    def bug_ids(self) -> dict[str, str]:
        """Case numbers by the timestamp of their report."""
        return {row.thread_ts: row.bug_id for row in self.cases}


async def gather(
    stage: Stage,
    written: Mapping[str, Written],
    roots: Iterable[str],
    terminated: Sequence[Ended] = (),
    attached: Mapping[str, bool] | None = None,
) -> Evidence:
    """Look everything up, once nothing moves any more."""
    channel = stage.settings["THREADLINE_REPORTS_CHANNEL"]
    evidence = Evidence(written, posts_of_the_bot(stage), attached=attached or {})
    async with stage.database.begin() as work:
        found = await work.connection.execute(_CASES, {"channel": channel, "roots": list(roots)})
        evidence.cases = list(found)
        which = {"cases": [row.bug_id for row in evidence.cases]}
        evidence.stored = list(await work.connection.execute(_MESSAGES, which))
        evidence.turns = list(await work.connection.execute(_SETTLED, which))
        evidence.held = list(await work.connection.execute(_HELD, which))
        sessions = {"sessions": [turn.session_id for turn in evidence.turns]}
        evidence.sessions = {row.session_id: row.words for row in await work.connection.execute(_SESSIONS, sessions)}
    for run in terminated:
        evidence.unheard |= await histories.signalled(stage, run)
        evidence.cut |= {row.bug_id for row in evidence.cases if run.workflow_id.endswith(f"{channel}:{row.thread_ts}")}
    evidence.unheard |= histories.given_up(stage, written)
    evidence.effects = await effects.gather(stage, list(evidence.bug_ids.values()))
    return evidence


def judge(evidence: Evidence) -> list[Fault]:
    """Everything that is not as it must be in the database and in Slack. Pure."""
    found = [*storage(evidence), *_ends(evidence), *_use(evidence), *_posts(evidence), *_closings(evidence)]
    found += effects.judge(evidence.effects, list(evidence.bug_ids.values()), evidence.attached)
    return found + list(_held(evidence))


def _held(evidence: Evidence) -> Iterator[Fault]:
    """Terminate may end a run amid a post: when the case ends before the next run comes to it, the claim stays."""
    for row in evidence.held:
        if not (row.bug_id in evidence.cut and row.what.startswith("the post ")):
            yield Fault(row.bug_id, row.what)


def posts_of_the_bot(stage: Stage) -> list[Message]:
    places = stage.slack.workspace.channels.values()
    return [message for place in places for message in place.messages.values() if message.metadata]


def key_of(post: Message) -> str:
    return str((post.metadata or {})["event_payload"]["key"])


def storage(evidence: Evidence) -> Iterator[Fault]:
    """Each message once, in the case of its thread, as it reads now and when it was said."""
    rows = defaultdict(list)
    for row in evidence.stored:
        rows[row.message_id].append(row)
    for each, written in evidence.written.items():
        case = evidence.bug_ids.get(written.root, "")
        if each not in rows:
            if not _shown_no_more(evidence, written, set(rows)):
                yield Fault(case, f"{each} ({written.kind}, “{written.text}”) was never stored")
        elif len(rows[each]) > 1:
            yield Fault(case, f"{each} was stored {len(rows[each])} times")
        else:
            yield from _as_written(rows[each][0], written, case)
    for each, found in rows.items():
        if each not in evidence.written:
            yield Fault(found[0].bug_id, f"{each} was stored, and is nobody's")


def _shown_no_more(evidence: Evidence, written: Written, stored: set[str]) -> bool:
    """What Slack shows is what can be found: no message that is deleted, and of edits the last one.

    That the original reads as it does now is looked at with the original.
    """
    unheard = evidence.unheard
    match written.kind:
        case messages.EDIT:
            return bool({written.id, written.original} & unheard)
        case messages.DELETION:
            return written.original in unheard and written.original not in stored
        case _:
            return written.gone and written.id in unheard


def _as_written(row: Row[Any], written: Written, case: str) -> Iterator[Fault]:
    if row.bug_id != case:
        yield Fault(case, f"{written.id} is stored with {row.bug_id}")
    if row.message_type != written.kind:
        yield Fault(case, f"{written.id} is stored as {row.message_type}, and was a {written.kind}")
    if written.event[0] and row.channel != written.event[0]:
        yield Fault(case, f"{written.id} is stored as said in {row.channel}")
    if written.kind in (messages.REPORT, messages.MESSAGE) and f"{row.said_at:.6f}" != written.id.rpartition(":")[2]:
        yield Fault(case, f"{written.id} is stored as said at {row.said_at}")
    if written.gone and (row.message_text or not row.redacted):
        yield Fault(case, f"{written.id} was deleted, and still reads “{row.message_text}”")
    if written.kind != messages.CLOSE and written.text and row.message_text != written.text:
        yield Fault(case, f"{written.id} reads “{row.message_text}”, and was “{written.text}”")


def _ends(evidence: Evidence) -> Iterator[Fault]:
    known = evidence.bug_ids
    for root in {written.root for written in evidence.written.values()}:
        if root not in known:
            yield Fault("", f"the report {root} opened no case")
    for row in evidence.cases:
        if row.status != "resolved":
            yield Fault(row.bug_id, f"was left {row.status}")


def _use(evidence: Evidence) -> Iterator[Fault]:
    """A message is used by the one turn whose agent saw it, or by the closing that answered it."""
    seen = Counter(_seen(evidence))
    read = {(turn.bug_id, turn.turn, seq) for turn in evidence.turns for seq in turn.read_seqs}
    handed_over = {(turn.bug_id, turn.turn) for turn in evidence.turns if turn.failure}
    said_at = {(row.bug_id, row.seq): row.said_at for row in evidence.stored}
    for row in evidence.stored:
        times = seen[row.bug_id, row.seq] + (row.turn == 0) + ((row.bug_id, row.turn, row.seq) in read)
        times += (row.bug_id, row.turn) in handed_over  # people took over what this turn was to look at
        must = (row.wakes or row.message_type in (messages.REPORT, messages.MESSAGE)) and not row.redacted
        if times > 1 or (must and not times):
            yield Fault(row.bug_id, f"{row.message_id} ({row.message_type}) was used {times} times")
    for turn in evidence.turns:
        order = [said_at[turn.bug_id, seq] for seq in turn.result.get("seen", ()) if (turn.bug_id, seq) in said_at]
        if order != sorted(order):
            yield Fault(turn.bug_id, f"turn {turn.turn} was shown its batch in another order than it was said in")


def _seen(evidence: Evidence) -> Iterator[tuple[str, int]]:
    """Which messages each settled turn's agent has seen: by its own word, or by the transcript of the real one."""
    for turn in evidence.turns:
        if "seen" in turn.result:
            yield from ((turn.bug_id, seq) for seq in turn.result["seen"])
            continue
        if turn.failure:
            continue
        words = " ".join(
            evidence.sessions.get(head.session_id, "") for head in evidence.turns if head.bug_id == turn.bug_id
        )
        for row in evidence.stored:
            mine = (row.bug_id, row.turn) == (turn.bug_id, turn.turn) and row.seq not in turn.read_seqs
            if mine and (row.message_type == messages.CLOSE or _word(row.message_text) in words):
                yield turn.bug_id, row.seq


def _word(said: str) -> str:
    """The word that was in this message from the start and is in no other; an edit may come after the agent saw it."""
    found = _OWN_WORD.search(said)
    return found[0] if found else said


def _posts(evidence: Evidence) -> Iterator[Fault]:
    """Nothing twice; and once what each settled turn asks for, but for what was closed as the turn was settled."""
    posted = Counter(key_of(post) for post in evidence.posts)
    mine = set(evidence.bug_ids.values())
    yield from _misplaced(evidence)
    for key, times in posted.items():
        if times > 1 and key.partition(":")[0] in mine:
            yield Fault(key.partition(":")[0], f"{key} was posted {times} times")
    escalations, called_since = Counter[str](), dict[str, int]()
    for turn in evidence.turns:
        # A failure calls nobody whom an earlier turn has called, unless the case has ended since.
        if turn.action == "escalate" and not (turn.failure and called_since.get(turn.bug_id) == turn.ends):
            escalations[turn.bug_id] += 1
            called_since[turn.bug_id] = turn.ends
        due = {
            "ask_reporter": (f"turn:{turn.turn}:question",) if _asked(turn) else (),
            "escalate": (f"turn:{turn.turn}:findings", f"escalation:{escalations[turn.bug_id]}"),
            "post_findings": (f"turn:{turn.turn}:findings", *((f"turn:{turn.turn}:told",) if _tells(turn) else ())),
        }.get(turn.action, (f"turn:{turn.turn}:findings",))
        missing = [key for key in due if not posted[f"{turn.bug_id}:{key}"]]
        settled_late = turn.bug_id in evidence.cut  # its next step is not the first that was taken after it
        if missing and turn.next_step not in _CLOSED and not (settled_late and turn.closed):
            yield Fault(turn.bug_id, f"{' and '.join(missing)} was not posted; next: {turn.next_step}")


def _misplaced(evidence: Evidence) -> Iterator[Fault]:
    """What is for developers is not in the reporter's thread, and the other way round."""
    reports, summaries = identity.REPORTS, identity.SUMMARIES
    places = {"findings": summaries, "summary": summaries, "question": reports, "told": reports, "intake": reports}
    for post in evidence.posts:
        bug_id, _, what = key_of(post).partition(":")
        parts = what.split(":")
        about = parts[2] if parts[0] == "turn" else parts[0]
        if places.get(about, post.channel) != post.channel:
            yield Fault(bug_id, f"{key_of(post)} was posted in {post.channel}")


def _tells(turn: Row[Any]) -> bool:
    """The scripted agent always has something for the reporter; of the real one's words some are kept back."""
    return "seen" in turn.result


def _asked(turn: Row[Any]) -> bool:
    """A question is left unsaid when its answer may have just come."""
    return bool(turn.next_step == "awaiting_reporter: question_asked")


def _closings(evidence: Evidence) -> Iterator[Fault]:
    """The last end of a case is told in its threads, once."""
    posted = Counter(key_of(post) for post in evidence.posts)
    for row in evidence.cases:
        if row.status != "resolved":
            continue
        for channel in filter(None, (identity.REPORTS, row.summary_channel)):
            key = f"{row.bug_id}:closing:{row.closings}:{channel}"
            if posted[key] != 1:
                yield Fault(row.bug_id, f"{key} was posted {posted[key]} times")
