"""The oracle: the guarantees that must hold after a run. Pure rules over the evidence; each fault
is a sentence.

Some rules hold for all threads, some for cases, and some for conversations.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.chaos.evidence import Evidence, is_case, thread_of_post
from tests.chaos.people import Written
from tests.chaos.scripted import words_of
from tests.chaos.stack import key_of
from threadline.conversations.model import answers
from threadline.threads.model import ABSENT, MessageKind
from threadline_devstack.slack import identity

_CASE_WORD = re.compile(r"\bw\d\d+[a-z]\w*")
_OF_THE_INSTALLATION = re.compile(
    r"disk|space left|\bgit\b|clone|fetched|workspace", re.IGNORECASE
)
_CLOSED = frozenset(
    {"resolved: reporter_closed", "resolved: admin_resolved", "resolved: admin_cancelled"}
)
_BY_ADMIN = answers.stopped_text([], by_admin=True).removesuffix(" Nothing was done yet.")
"""The beginning of the answer of a turn that an operator has stopped."""
_ANSWERING = ("answered", "posted_by_tool")
_JOURNALLED = (*_ANSWERING, "summarised", "failed")
"""Kinds of turns that make a statement about an RFP. A stopped turn may have none to make."""
_ASKING = ("clarified", "asked")
_PASSED = ("ok", "answer")
"""Verdicts that lead to an answer. `answer`: the message answers the bot's question, so it is
never treated as a duplicate.
"""


@dataclass(frozen=True)
class Fault:
    """A violated guarantee. `thread` is the case's number or the conversation's key, or empty."""

    thread: str
    words: str

    def __str__(self) -> str:
        return f"{self.thread}: {self.words}" if self.thread else self.words


def judge(evidence: Evidence) -> list[Fault]:
    """Return all violations in the database, in Slack and in the repository."""
    rules = (
        *(
            _storage,
            _unwritten,
            _single_posts,
            _unsent_posts,
            _repaired,
            _mixed_up,
            _told_to_admin,
        ),
        *(
            _case_ends,
            _given_up,
            _case_use,
            _case_posts,
            _case_findings,
            _case_places,
            _case_closings,
            _pushes,
            _files,
        ),
        *(_numbers, _use, _verdicts, _asked, _order, _turns, _answers, _answer_posts),
        *(_tool_effects, _journal, _stops, _handovers),
    )
    return [fault for rule in rules for fault in rule(evidence)]


# -- rules for all threads


def _storage(evidence: Evidence) -> Iterator[Fault]:
    """Each message is stored once, in its thread, with its current text and its original time.

    The gateway may have ignored messages from before the mention that began a conversation. The
    catch-up finds them as Slack shows them then: with their last edit, and without deleted ones.
    """
    threads = evidence.threads
    written = _expected(evidence)
    fleeting = {each.id for each in written.values() if each.gone or each.kind == MessageKind.EDIT}
    unheard = evidence.unheard | {each for each in fleeting if not is_case(written[each].place)}
    rows = defaultdict(list)
    for row in _stored_once(evidence):
        rows[_as_seen(row.message_id)].append(row)
    for place in {each.place for each in written.values()} - set(threads):
        yield Fault("", f"nothing was stored of what people said in {place}")
    for each, said in written.items():
        thread = threads.get(said.place, "")
        if each not in rows:
            if not _shown_no_more(said, unheard, stored=set(rows)):
                yield Fault(thread, f"{each} ({said.kind}, “{said.text}”) was never stored")
        elif len(rows[each]) > 1:
            yield Fault(thread, f"{each} was stored {len(rows[each])} times")
        else:
            yield from _as_written(rows[each][0], said, thread)


def _stored_once(evidence: Evidence) -> Iterator[Any]:
    """Return the stored rows, except inferred deletions whose event arrived later after all."""
    rows = (*evidence.case_messages, *evidence.messages)
    ids = {row.message_id for row in rows}
    return (
        row
        for row in rows
        if row.message_id == _as_seen(row.message_id) or _as_seen(row.message_id) not in ids
    )


def _as_seen(message_id: str) -> str:
    """Return the id that an inferred deletion has when its event is delivered."""
    return f"{message_id.removesuffix(ABSENT)}:d" if message_id.endswith(ABSENT) else message_id


def _unwritten(evidence: Evidence) -> Iterator[Fault]:
    known = {*_expected(evidence), *evidence.stop_signs}
    for row in (*evidence.case_messages, *evidence.messages):
        if _as_seen(row.message_id) not in known:
            yield Fault(row.thread, f"{row.message_id} was stored, and nobody wrote it")


def _expected(evidence: Evidence) -> dict[str, Written]:
    silent = _never_heard(evidence) - set(evidence.threads)
    return {each.id: each for each in evidence.written.values() if each.place not in silent}


def _never_heard(evidence: Evidence) -> set[str]:
    """Return the direct messages for which Slack delivered no message that addresses the bot, or
    delivered them only to a terminated run.

    The catch-up only scans channels.
    """
    heard = set()
    direct = set()
    for each in evidence.written.values():
        if not is_case(each.place) and not each.place.startswith(identity.GENERAL):
            direct.add(each.place)
            if (
                each.kind == MessageKind.MESSAGE
                and not each.gone
                and each.id not in evidence.unheard
            ):
                heard.add(each.place)
    return direct - heard


def _shown_no_more(written: Written, unheard: set[str], stored: set[str]) -> bool:
    """Return whether Slack no longer shows this to the catch-up: it shows no deleted message, and
    only the last edit.

    The original's current text is checked with the original.
    """
    match written.kind:
        case MessageKind.EDIT:
            return bool({written.id, written.original} & unheard)
        case MessageKind.DELETION:
            return written.original in unheard and written.original not in stored
        case _:
            return written.gone and written.id in unheard


def _as_written(row: Any, written: Written, thread: str) -> Iterator[Fault]:
    if row.thread != thread:
        yield Fault(thread, f"{written.id} is stored with {row.thread}")
    if row.message_type != written.kind:
        yield Fault(
            thread, f"{written.id} is stored as {row.message_type}, and was a {written.kind}"
        )
    if written.event[0] and row.channel != written.event[0]:
        yield Fault(thread, f"{written.id} is stored as said in {row.channel}")
    if (
        written.kind in (MessageKind.REPORT, MessageKind.MESSAGE)
        and f"{row.said_at:.6f}" != written.id.rpartition(":")[2]
    ):
        yield Fault(thread, f"{written.id} is stored as said at {row.said_at}")
    if written.gone and (row.message_text or not row.redacted):
        yield Fault(thread, f"{written.id} was deleted, and still reads “{row.message_text}”")
    if written.kind != MessageKind.CLOSE and written.text and row.message_text != written.text:
        yield Fault(thread, f"{written.id} reads “{row.message_text}”, and was “{written.text}”")


def _single_posts(evidence: Evidence) -> Iterator[Fault]:
    threads = set(evidence.threads.values())
    for key, times in Counter(map(key_of, evidence.posts)).items():
        if times > 1 and thread_of_post(key) in threads:
            yield Fault(thread_of_post(key), f"{key} was posted {times} times")


def _unsent_posts(evidence: Evidence) -> Iterator[Fault]:
    """Each claimed post is sent. A run that is terminated in the middle of one may leave the
    claim.

    The exception holds for a case's posts, because a case may end before its next run, and for a
    conversation's notices, because no other run repeats them, but not for the answer of its turn.
    """
    threads = set(evidence.threads.values())
    for thread, key in evidence.unsent:
        repeated = key.startswith("conversation:") and ":turn:" in key
        if thread in threads and (repeated or not evidence.terminated[thread]):
            yield Fault(thread, f"the post {key} is claimed and was never sent")


def _repaired(evidence: Evidence) -> Iterator[Fault]:
    """The sweep repairs only after a termination: anywhere else a repair would hide an earlier
    error.
    """
    threads = set(evidence.threads.values())
    for thread, event in evidence.repaired:
        if thread in threads and not evidence.terminated[thread]:
            yield Fault(thread, f"the sweep had to repair it: {event}")


def _mixed_up(evidence: Evidence) -> Iterator[Fault]:
    """Messages that a turn reports as read were written in its own thread. Each word belongs to
    one thread.
    """
    said_in = {
        word: each.place
        for each in evidence.written.values()
        for word in (*words_of(each.text), *_CASE_WORD.findall(each.text))
    }
    places = {thread: place for place, thread in evidence.threads.items()}
    read = [(turn, words_of(turn.answer)) for turn in evidence.turns if turn.kind in _ANSWERING]
    read += [
        (turn, _CASE_WORD.findall(" ".join(turn.result.get("said", ()))))
        for turn in evidence.case_turns
    ]
    for turn, words in read:
        for word in words:
            if (place := said_in.get(word)) and place != places.get(turn.thread):
                yield Fault(
                    turn.thread, f"turn {turn.turn} has read {word}, which was said in {place}"
                )


def _told_to_admin(evidence: Evidence) -> Iterator[Fault]:
    """The admin's channel gets one message for each fault of the installation, and one for its
    end.
    """
    told = Counter(key_of(post) for post in evidence.posts if post.channel == identity.ESCALATIONS)
    for row in evidence.installation_faults:
        begun = told[f"fault:{row.id}"]
        over = told[f"fault:{row.id}:over"]
        name = f"{row.kind} {row.subject}".strip()
        if begun > 1 or over > 1:
            yield Fault(
                "", f"the admin was told {begun} times of {name}, and {over} times of its end"
            )
        if (
            not (begun or over)
            or (row.told_open and not row.over and not begun)
            or (row.over and not over)
        ):
            end = "is over" if row.over else "is not over"
            yield Fault(
                "",
                (
                    f"{name} {end}, and the admin was told {begun} times of it, and {over} times "
                    "of its end"
                ),
            )


# -- rules for cases


def _case_ends(evidence: Evidence) -> Iterator[Fault]:
    for row in evidence.cases:
        if row.status != "resolved":
            yield Fault(row.thread, f"was left {row.status}")
    for row in evidence.running_turns:
        yield Fault(row.thread, f"turn {row.turn} is still claimed")


def _given_up(evidence: Evidence) -> Iterator[Fault]:
    """A full disk or an unreachable repository escalates no case: the case waits for the admin."""
    for turn in evidence.case_turns:
        if turn.failure and _OF_THE_INSTALLATION.search(turn.failure):
            yield Fault(
                turn.thread,
                f"turn {turn.turn} was given up for a fault of the installation: {turn.failure}",
            )


def _case_use(evidence: Evidence) -> Iterator[Fault]:
    """Each message is used by the one turn whose agent saw it, or by the close that answered
    it.
    """
    seen = Counter(_seen(evidence))
    read = {
        (turn.thread, turn.turn, seq) for turn in evidence.case_turns for seq in turn.read_seqs
    }
    handed_over = {(turn.thread, turn.turn) for turn in evidence.case_turns if turn.failure}
    said_at = {(row.thread, row.seq): row.said_at for row in evidence.case_messages}
    for row in evidence.case_messages:
        times = (
            seen[row.thread, row.seq] + (row.turn == 0) + ((row.thread, row.turn, row.seq) in read)
        )
        times += (
            row.thread,
            row.turn,
        ) in handed_over  # people took over the messages of this turn
        must = (
            row.wants_turn or row.message_type in (MessageKind.REPORT, MessageKind.MESSAGE)
        ) and not row.redacted
        if times > 1 or (must and not times):
            yield Fault(
                row.thread, f"{row.message_id} ({row.message_type}) was used {times} times"
            )
    for turn in evidence.case_turns:
        order = [
            said_at[turn.thread, seq]
            for seq in turn.result.get("seen", ())
            if (turn.thread, seq) in said_at
        ]
        if order != sorted(order):
            yield Fault(
                turn.thread,
                f"turn {turn.turn} was shown its batch in another order than it was said in",
            )


def _seen(evidence: Evidence) -> Iterator[tuple[str, int]]:
    """Yield the messages that each settled turn's agent saw: the script reports them, the real
    agent has a transcript.
    """
    for turn in evidence.case_turns:
        if "seen" in turn.result:
            yield from ((turn.thread, seq) for seq in turn.result["seen"])
            continue
        if turn.failure:
            continue
        sessions = (each.session_id for each in evidence.case_turns if each.thread == turn.thread)
        transcript = " ".join(evidence.sessions.get(session, "") for session in sessions)
        for row in evidence.case_messages:
            mine = (row.thread, row.turn) == (
                turn.thread,
                turn.turn,
            ) and row.seq not in turn.read_seqs
            if mine and (
                row.message_type == MessageKind.CLOSE or _case_word(row.message_text) in transcript
            ):
                yield turn.thread, row.seq


def _case_word(text: str) -> str:
    """Return the word that was in this message from the start: an edit may arrive after the agent
    saw it.
    """
    found = _CASE_WORD.search(text)
    return found[0] if found else text


def _case_posts(evidence: Evidence) -> Iterator[Fault]:
    """Each post that a settled turn asks for is sent, unless the case was closed while the turn
    settled.

    Posts that Slack refused are retried until the case is closed, also during later turns.
    """
    posted = set(map(key_of, evidence.posts))
    escalations = Counter[str]()
    called_since = dict[str, int]()
    for turn in evidence.case_turns:
        # A failure does not call people whom an earlier turn has called, unless the case has ended
        # since.
        if turn.action == "escalate" and not (
            turn.failure and called_since.get(turn.thread) == turn.ends
        ):
            escalations[turn.thread] += 1
            called_since[turn.thread] = turn.ends
        due = _due_posts(turn, escalations[turn.thread])
        missing = [
            keys[0] for keys in due if not any(f"{turn.thread}:{key}" in posted for key in keys)
        ]
        settled_late = evidence.terminated[
            turn.thread
        ]  # its next step is not the first one after the turn
        dropped = (
            turn.next_step in _CLOSED
            or (settled_late and turn.closed)
            or _refused_until_closed(evidence, turn)
        )
        if missing and not dropped:
            yield Fault(
                turn.thread, f"{' and '.join(missing)} was not posted; next: {turn.next_step}"
            )


def _refused_until_closed(evidence: Evidence, turn: Any) -> bool:
    """Return whether Slack refused posts between the end of a turn and a close by people."""
    if turn.closed_at is None:
        return False
    return any(
        turn.finished < until and since < turn.closed_at for since, until in evidence.refusals
    )


def _due_posts(turn: Any, escalation: int) -> list[tuple[str, ...]]:
    """Return the posts that a turn asks for, each with the keys that it may have."""
    if turn.action == "ask_reporter":
        # A question is not posted when its answer may have just arrived.
        was_asked = turn.next_step == "awaiting_reporter: question_asked"
        return [(f"turn:{turn.turn}:question",)] if was_asked else []
    due: list[tuple[str, ...]] = []
    if turn.failure or turn.result.get("summary") or turn.result.get("reply"):
        due.append((f"turn:{turn.turn}:findings", f"turn:{turn.turn}:reply"))
    if turn.action == "escalate":
        due.append((f"escalation:{escalation}",))
    if turn.action == "post_findings" and "seen" in turn.result:
        # The real agent's text for the reporter may be withheld.
        due.append((f"turn:{turn.turn}:told",))
    return due


def _case_findings(evidence: Evidence) -> Iterator[Fault]:
    """The findings of a case are in Slack as the last turn that gave any wrote them, once it has
    posted its words about them.
    """
    posted = set(map(key_of, evidence.posts))
    newest: dict[str, Any] = {}
    for turn in evidence.case_turns:
        gives = turn.action != "ask_reporter" and not turn.failure and turn.result.get("summary")
        if gives and "seen" in turn.result:
            newest[turn.thread] = turn
    for thread, turn in newest.items():
        keys = {f"{thread}:turn:{turn.turn}:{name}" for name in ("findings", "reply")}
        shown = (
            str(post.blocks)
            for post in evidence.posts
            if re.fullmatch(rf"{thread}:turn:\d+:findings", key_of(post))
        )
        words = f"\\n\\n{turn.result['summary']}"
        if keys & posted and not any(words in each for each in shown):
            yield Fault(thread, f"the findings of turn {turn.turn} are not in Slack")


def _case_places(evidence: Evidence) -> Iterator[Fault]:
    """Posts for developers are not in the reporter's thread, and vice versa."""
    reports = identity.REPORTS
    summaries = identity.SUMMARIES
    places = {
        "findings": summaries,
        "reply": summaries,
        "summary": summaries,
        "question": reports,
        "told": reports,
        "intake": reports,
    }
    for post in evidence.posts:
        thread, _, what = key_of(post).partition(":")
        parts = what.split(":")
        about = parts[2] if parts[0] == "turn" else parts[0]
        if places.get(about, post.channel) != post.channel:
            yield Fault(thread, f"{key_of(post)} was posted in {post.channel}")


def _case_closings(evidence: Evidence) -> Iterator[Fault]:
    """Both threads of a case get its last end, once."""
    posted = Counter(map(key_of, evidence.posts))
    for row in evidence.cases:
        for channel in (
            filter(None, (identity.REPORTS, row.summary_channel))
            if row.status == "resolved"
            else ()
        ):
            key = f"{row.thread}:closing:{row.closings}:{channel}"
            if posted[key] != 1:
                yield Fault(row.thread, f"{key} was posted {posted[key]} times")


def _pushes(evidence: Evidence) -> Iterator[Fault]:
    """A fix is one commit on the case's branch, and its pull request names that branch and
    commit.
    """
    fixes = Counter(row.thread for row in evidence.fixes)
    recorded = {row.thread: row for row in evidence.fixes if row.branch}
    for case in (row.thread for row in evidence.cases):
        tip, commits = evidence.branches.get(f"threadline/{case.lower()}", ("", 0))
        if commits > fixes[case]:
            yield Fault(case, f"{commits} commits were pushed for {fixes[case]} fixes")
        if tip and case in recorded and recorded[case].commit != tip:
            yield Fault(
                case,
                f"its branch is at {tip[:8]}, and its pull request at {recorded[case].commit[:8]}",
            )
        if bool(tip) is not (case in recorded):
            yield Fault(
                case,
                f"its branch is {'' if tip else 'not '}there, and its pull request is otherwise",
            )


def _files(evidence: Evidence) -> Iterator[Fault]:
    """A file is stored once with its content, and goes with its message."""
    known = defaultdict(list)
    for row in evidence.files:
        known[row.file_id].append(row)
    for each, there in evidence.attached.items():
        rows = known[each]
        if len(rows) > 1 or (there and len(rows) != 1):
            yield Fault(
                rows[0].thread if rows else "", f"the file {each} was stored {len(rows)} times"
            )
        elif rows and rows[0].there and not there:
            yield Fault(
                rows[0].thread, f"the file {rows[0].name} is kept, and its message was deleted"
            )
        elif rows and there and rows[0].turn and not rows[0].there:
            words = rows[0].error or "nobody fetched it"
            yield Fault(
                rows[0].thread,
                f"turn {rows[0].turn} was shown {rows[0].name} without its content: {words}",
            )


# -- rules for conversations


def _numbers(evidence: Evidence) -> Iterator[Fault]:
    for row in evidence.conversations:
        numbers = [each.seq for each in evidence.messages if each.thread == row.thread]
        if numbers != list(range(1, row.stored + 1)):
            yield Fault(
                row.thread, f"its messages are numbered {numbers}, and {row.stored} are stored"
            )


def _use(evidence: Evidence) -> Iterator[Fault]:
    """Messages that the guards let pass are in one turn each, which has shown them to the model
    once; no turn contains any other message.
    """
    settled = {row.thread: row.turn for row in evidence.conversations}
    for row in evidence.messages:
        match row.message_type:
            case MessageKind.STOP if row.turn is None:
                yield Fault(
                    row.thread, f"{row.message_id} stopped nothing, and is still to stop something"
                )
            case MessageKind.MESSAGE if row.verdict not in _PASSED and (
                row.turn is not None or row.shown
            ):
                yield Fault(
                    row.thread,
                    f"{row.message_id} is {row.verdict}, and was shown in turn {row.turn}",
                )
            case MessageKind.MESSAGE if row.shown > 1 or (row.shown and not row.turn):
                yield Fault(
                    row.thread,
                    f"{row.message_id} was shown {row.shown} times, and used in turn {row.turn}",
                )
            case MessageKind.MESSAGE if row.verdict in _PASSED and not row.redacted:
                if row.turn is None or row.turn > settled[row.thread]:
                    yield Fault(
                        row.thread,
                        f"{row.message_id} was never answered: it is in turn {row.turn}",
                    )
                elif not row.shown:
                    yield Fault(
                        row.thread,
                        f"{row.message_id} is in turn {row.turn}, and was shown to nobody",
                    )


def _verdicts(evidence: Evidence) -> Iterator[Fault]:
    """One of two messages with the same words is refused, and none for its rate.

    Messages between people are not judged, and two answers to a question of the bot may be equal.
    """
    alike = defaultdict(list)
    people = defaultdict(set)
    for row in evidence.messages:
        if row.message_type in (MessageKind.MESSAGE, MessageKind.STOP):
            people[row.thread].add(row.sender_id)
        if row.message_type != MessageKind.MESSAGE or row.redacted or row.verdict == "answer":
            continue
        if row.verdict not in ("ok", "duplicate"):
            yield Fault(row.thread, f"{row.message_id} was judged {row.verdict}")
        alike[row.thread, row.sender_id, row.message_text].append(row)
    for rows in alike.values():
        passed = sum(row.verdict == "ok" for row in rows)
        overheard = len(people[rows[0].thread]) > 1 and not all(row.addressed for row in rows)
        if not passed or (passed > 1 and not (evidence.guards_opened or overheard)):
            same = " and ".join(row.message_id for row in rows)
            yield Fault(rows[0].thread, f"of {same}, which say the same, {passed} passed")


def _asked(evidence: Evidence) -> Iterator[Fault]:
    asking = [(turn.thread, turn.turn) for turn in evidence.turns if turn.kind in _ASKING]
    for row in evidence.messages:
        before = (thread == row.thread and turn < (row.turn or 0) for thread, turn in asking)
        if row.verdict == "answer" and not row.redacted and not any(before):
            yield Fault(
                row.thread,
                f"{row.message_id} was taken for an answer, and nothing was asked before",
            )


def _order(evidence: Evidence) -> Iterator[Fault]:
    """One model call was first shown its messages in the order in which they were written."""
    together = defaultdict(list)
    for row in evidence.messages:
        if row.message_type == MessageKind.MESSAGE and row.position is not None:
            together[row.thread, row.turn, row.step].append((row.position, row.said_at))
    for (thread, turn, step), shown in together.items():
        if any(earlier[1] > later[1] for earlier, later in pairwise(sorted(shown))):
            yield Fault(
                thread, f"turn {turn} showed in step {step} what was said in another order"
            )


def _turns(evidence: Evidence) -> Iterator[Fault]:
    for row in evidence.conversations:
        numbers = [turn.turn for turn in evidence.turns if turn.thread == row.thread]
        if numbers != list(range(1, row.turn + 1)):
            yield Fault(row.thread, f"it is at turn {row.turn}, and settled {numbers}")
        if row.reading_turn > row.turn:
            yield Fault(row.thread, f"turn {row.reading_turn} was begun and never settled")
    for turn in evidence.turns:
        if bool(turn.answer) is (turn.kind == "silent"):
            yield Fault(
                turn.thread, f"turn {turn.turn} is {turn.kind}, and its answer “{turn.answer}”"
            )
        if turn.answer and not turn.said:
            yield Fault(turn.thread, f"the answer of turn {turn.turn} was never said")


def _answers(evidence: Evidence) -> Iterator[Fault]:
    """An answer of the model names all messages that its turn has used, and none that an earlier
    turn answered.

    A repeated message that is not refused gets another answer.
    """
    silent = {(turn.thread, turn.turn) for turn in evidence.turns if turn.kind == "silent"}
    used = [
        row
        for row in evidence.messages
        if row.message_type == MessageKind.MESSAGE and row.turn and not row.redacted
    ]
    for turn in evidence.turns:
        if turn.kind not in _ANSWERING:
            continue
        named = set(words_of(turn.answer))
        mine = [row for row in used if row.thread == turn.thread]
        again = {
            word for row in mine if row.turn == turn.turn for word in words_of(row.message_text)
        }
        for row in mine:
            own = next(iter(words_of(row.message_text)), "")
            if not own:
                continue  # the message was about the thread, and a rule answered it
            if row.turn == turn.turn and own not in named:
                yield Fault(
                    turn.thread,
                    f"turn {turn.turn} used {row.message_id}, and its answer is not about it",
                )
            answered = row.turn < turn.turn and (row.thread, row.turn) not in silent
            if answered and own in named - again and not row.edited and not evidence.guards_opened:
                yield Fault(
                    turn.thread,
                    f"{row.message_id} of turn {row.turn} is answered in turn {turn.turn}, too",
                )


def _answer_posts(evidence: Evidence) -> Iterator[Fault]:
    """Each answer is posted, each post is in its thread, and a turn without an answer has no
    post.
    """
    places = {row.thread: row.place for row in evidence.conversations}
    keyed = [
        (key_of(post), post) for post in evidence.posts if key_of(post).startswith("conversation:")
    ]
    mine = [(key, post) for key, post in keyed if thread_of_post(key) in places]
    due = {
        f"conversation:{turn.thread}:turn:{turn.turn}" for turn in evidence.turns if turn.answer
    }
    for key in due - {key for key, _ in mine}:
        yield Fault(thread_of_post(key), f"{key} was posted 0 times")
    for key, post in mine:
        if f"{post.channel}:{post.thread_ts}" != places[thread_of_post(key)]:
            yield Fault(
                thread_of_post(key), f"{key} was posted in {post.channel} under {post.thread_ts}"
            )
        if ":turn:" in key and key.partition("#")[0] not in due:
            yield Fault(thread_of_post(key), f"{key} was posted, and is no answer")


def _tool_effects(evidence: Evidence) -> Iterator[Fault]:
    """Each tool call that reports a work item, entry or change has created exactly one, and there
    are no others.
    """
    called = defaultdict(list)
    for call in evidence.calls:
        if call.title:
            called[call.title].append(call)
    for title, times in evidence.items.items():
        thread = called[title][0].thread if called[title] else ""
        if times > 1 or not thread:
            yield Fault(
                thread,
                f"the work item {title} is there {times} times, of {len(called[title])} calls",
            )
    for title, calls in called.items():
        done = any(call.status == "ok" for call in calls)
        there = evidence.items.get(title, 0)
        if done and there != 1:
            yield Fault(
                calls[0].thread, f"the work item {title} was added, and is there {there} times"
            )
        if len(calls) > 1:
            yield Fault(
                calls[0].thread, f"the work item {title} was called for {len(calls)} times"
            )


def _journal(evidence: Evidence) -> Iterator[Fault]:
    """A statement of an operator's turn about an RFP is in its journal, and each change was made
    once in its state.
    """
    if evidence.empty_versions:
        yield Fault(
            "",
            f"the state of the RFP has {evidence.empty_versions} versions that have added nothing",
        )
    for turn in evidence.turns:
        if (
            turn.agent == "operator"
            and turn.rfp_id
            and turn.kind in _JOURNALLED
            and not turn.entries
        ):
            yield Fault(
                turn.thread,
                f"turn {turn.turn} has said “{turn.answer}”, and its journal has nothing of it",
            )


def _stops(evidence: Evidence) -> Iterator[Fault]:
    """A stopped turn was stopped by a person in the thread, or by an operator.

    Cancel ends the turn in progress, and one more for the messages that this turn had not read.
    Later messages are answered.
    """
    by_operators = Counter[str]()
    said = {row.thread for row in evidence.messages if row.message_type == MessageKind.STOP}
    for turn in evidence.turns:
        if turn.kind == "stopped" and _BY_ADMIN in turn.answer:
            by_operators[turn.thread] += 1
        elif turn.kind == "stopped" and turn.thread not in said:
            yield Fault(
                turn.thread, f"turn {turn.turn} says that somebody stopped it, and nobody did"
            )
    for thread, times in by_operators.items():
        if times > 2 * (cancels := evidence.cancelled[thread]):
            yield Fault(
                thread,
                f"{times} turns say that an operator stopped them, who cancelled {cancels} runs",
            )


def _handovers(evidence: Evidence) -> Iterator[Fault]:
    """One card asks people to take a thread over; from then on each reply and question reaches the
    other side once.

    Remarks under the card stay there. While a person has the thread, the agent is silent.
    """
    for handover in evidence.handovers:
        key = handover.thread.key
        if handover.cards != 1:
            yield Fault(key, f"people were asked {handover.cards} times to take it over")
        for word, times in (handover.answers | handover.asks).items():
            if times != 1:
                yield Fault(
                    key, f"what was said to the other side, {word}, was said there {times} times"
                )
        for word, times in handover.remarks.items():
            if times:
                yield Fault(
                    key, f"the remark {word} was meant for colleagues, and was shown to the author"
                )
        if answered := [
            turn.turn for turn in evidence.turns if turn.thread == key and turn.kind in _ANSWERING
        ]:
            yield Fault(key, f"a person has it, and the agent has answered in {answered}")
