"""What must be true of the conversations after a run; each fault is a sentence."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.chaos import oracle
from tests.chaos.histories import Fault
from tests.chaos.oracle import Evidence, key_of
from tests.chaos.scripted_chat import words_of
from tests.chaos.talk_evidence import TalkEvidence
from threadline.conversations.model import answers
from threadline.threads import messages
from threadline_devstack.slack import identity

_BY_OPERATOR = answers.stopped([], by_operator=True).removesuffix(" Nothing was done yet.")
"""How the account of a turn begins that whoever runs the house has ended."""
_ANSWERING = ("answered", "spoken")
_SAYING = (*_ANSWERING, "summarised", "failed")
"""Kinds of turns that tell of an RFP; one that was stopped may have nothing to tell."""


def judge(evidence: TalkEvidence) -> list[Fault]:
    """Everything that is not as it must be. Pure."""
    found = [*_storage(evidence), *_use(evidence), *_verdicts(evidence), *_order(evidence)]
    found += [*_turns(evidence), *_answers(evidence), *_posts(evidence), *_effects(evidence)]
    return [*found, *_written_down(evidence), *_stops(evidence), *_revived(evidence), *_claims(evidence)]


def _storage(evidence: TalkEvidence) -> Iterator[Fault]:
    """As with cases, but that the gateway may have left alone what came before the mention that began it.

    The catch-up finds that as Slack shows it then: of edits the last, of what was deleted nothing.
    """
    known, rows = {talk.thread_ts for talk in evidence.talks}, evidence.stored
    nobody_heard = _never_heard(evidence) - known
    said = {each.id: each for each in evidence.written.values() if each.root not in nobody_heard}
    for place in {each.root for each in said.values()} - known:
        yield Fault("", f"nothing was stored of what people said in {place}")
    fleeting = {each.id for each in said.values() if each.gone or each.kind == messages.EDIT}
    yield from oracle.storage(
        Evidence(
            said,
            (),
            cases=evidence.talks,
            stored=[row for row in rows if row.message_id not in evidence.signs],
            unheard=evidence.unheard | fleeting,
        )
    )
    for talk in evidence.talks:
        numbers = [row.seq for row in rows if row.bug_id == talk.bug_id]
        if numbers != list(range(1, talk.stored + 1)):
            yield Fault(talk.bug_id, f"its messages are numbered {numbers}, and {talk.stored} are stored")


def _never_heard(evidence: TalkEvidence) -> set[str]:
    """Direct messages of which Slack delivered none that speaks to the bot, or only to a run that was terminated.

    In no channel would they be found.
    """
    heard, direct = set(), set()
    for each in evidence.written.values():
        if each.root.startswith(identity.GENERAL):
            continue
        direct.add(each.root)
        if each.kind == messages.MESSAGE and not each.gone and each.id not in evidence.unheard:
            heard.add(each.root)
    return direct - heard


def _use(evidence: TalkEvidence) -> Iterator[Fault]:
    """What the guards let pass is in one turn, which has shown it to the model once; nothing else is in any."""
    settled = {talk.bug_id: talk.turn for talk in evidence.talks}
    for row in evidence.stored:
        match row.message_type:
            case messages.STOP if row.turn is None:
                yield Fault(row.bug_id, f"{row.message_id} stopped nothing, and is still to stop something")
            case messages.MESSAGE if row.verdict != "ok" and (row.turn is not None or row.shown):
                yield Fault(row.bug_id, f"{row.message_id} is {row.verdict}, and was shown in turn {row.turn}")
            case messages.MESSAGE if row.shown > 1 or (row.shown and not row.turn):
                yield Fault(row.bug_id, f"{row.message_id} was shown {row.shown} times, and used in turn {row.turn}")
            case messages.MESSAGE if row.verdict == "ok" and not row.redacted:
                if row.turn is None or row.turn > settled[row.bug_id]:
                    yield Fault(row.bug_id, f"{row.message_id} was never answered: it is in turn {row.turn}")
                elif not row.shown:
                    yield Fault(row.bug_id, f"{row.message_id} is in turn {row.turn}, and was shown to nobody")


def _verdicts(evidence: TalkEvidence) -> Iterator[Fault]:
    """Of what somebody says twice in the same words one is refused; nobody asks too often.

    What people say to each other is not judged.
    """
    alike, people = defaultdict(list), defaultdict(set)
    for row in evidence.stored:
        if row.message_type in (messages.MESSAGE, messages.STOP):
            people[row.bug_id].add(row.sender_id)
        if row.message_type != messages.MESSAGE or row.redacted:
            continue
        if row.verdict not in ("ok", "duplicate"):
            yield Fault(row.bug_id, f"{row.message_id} was judged {row.verdict}")
        alike[row.bug_id, row.sender_id, row.message_text].append(row)
    for rows in alike.values():
        passed = sum(row.verdict == "ok" for row in rows)
        overheard = len(people[rows[0].bug_id]) > 1 and not all(row.addressed for row in rows)
        if not passed or (passed > 1 and not (evidence.guards_opened or overheard)):
            same = " and ".join(row.message_id for row in rows)
            yield Fault(rows[0].bug_id, f"of {same}, which say the same, {passed} passed")


def _order(evidence: TalkEvidence) -> Iterator[Fault]:
    """What one call of the model was shown first stood there in the order in which it was said."""
    together = defaultdict(list)
    for row in evidence.stored:
        if row.message_type == messages.MESSAGE and row.place is not None:
            together[row.bug_id, row.turn, row.step].append((row.place, row.said_at))
    for (talk, turn, step), shown in together.items():
        if any(earlier[1] > later[1] for earlier, later in pairwise(sorted(shown))):
            yield Fault(talk, f"turn {turn} showed in step {step} what was said in another order")


def _turns(evidence: TalkEvidence) -> Iterator[Fault]:
    for talk in evidence.talks:
        numbers = [turn.turn for turn in evidence.turns if turn.bug_id == talk.bug_id]
        if numbers != list(range(1, talk.turn + 1)):
            yield Fault(talk.bug_id, f"it is at turn {talk.turn}, and settled {numbers}")
        if talk.taken_turn > talk.turn:
            yield Fault(talk.bug_id, f"turn {talk.taken_turn} was begun and never settled")
    for turn in evidence.turns:
        if bool(turn.answer) is (turn.kind == "silent"):
            yield Fault(turn.bug_id, f"turn {turn.turn} is {turn.kind}, and its answer “{turn.answer}”")
        if turn.answer and not turn.said:
            yield Fault(turn.bug_id, f"the answer of turn {turn.turn} was never said")


def _answers(evidence: TalkEvidence) -> Iterator[Fault]:
    """An answer of the model names all that its turn has used, and nothing that an earlier turn answered.

    What is said again in the same words, and is not refused, is answered again.
    """
    silent = {(turn.bug_id, turn.turn) for turn in evidence.turns if turn.kind == "silent"}
    used = [row for row in evidence.stored if row.message_type == messages.MESSAGE and row.turn and not row.redacted]
    for turn in evidence.turns:
        if turn.kind not in _ANSWERING:
            continue
        named, mine = set(words_of(turn.answer)), [row for row in used if row.bug_id == turn.bug_id]
        again = {word for row in mine if row.turn == turn.turn for word in words_of(row.message_text)}
        for row in mine:
            own = next(iter(words_of(row.message_text)), "")
            if not own:
                continue  # it was about the thread, and has its answer by rule
            if row.turn == turn.turn and own not in named:
                yield Fault(turn.bug_id, f"turn {turn.turn} used {row.message_id}, and its answer is not about it")
            answered = row.turn < turn.turn and (row.bug_id, row.turn) not in silent
            if answered and own in named - again and not row.edited and not evidence.guards_opened:
                yield Fault(turn.bug_id, f"{row.message_id} of turn {row.turn} is answered in turn {turn.turn}, too")


def _posts(evidence: TalkEvidence) -> Iterator[Fault]:
    """Each answer once, in its thread, and no post of a turn that has none."""
    places = {talk.bug_id: talk.thread_ts for talk in evidence.talks}
    keyed = [(key_of(post), post) for post in evidence.posts]
    mine = [(key, post) for key, post in keyed if key.startswith("talk:") and _talk_of(key) in places]
    due = {f"talk:{turn.bug_id}:turn:{turn.turn}" for turn in evidence.turns if turn.answer}
    posted = Counter(key for key, _ in mine)
    for key in due | set(posted):
        if posted[key] != 1:
            yield Fault(_talk_of(key), f"{key} was posted {posted[key]} times")
    for key, post in mine:
        if f"{post.channel}:{post.thread_ts}" != places[_talk_of(key)]:
            yield Fault(_talk_of(key), f"{key} was posted in {post.channel} under {post.thread_ts}")
        if ":turn:" in key and key.partition("#")[0] not in due:
            yield Fault(_talk_of(key), f"{key} was posted, and is no answer")
    for key in evidence.claimed:
        # Terminate may end a run amid a word that no other run says: that its model was away, or that it was too much.
        dropped = ":turn:" not in key and evidence.terminated[_talk_of(key)]
        if _talk_of(key) in places and not dropped:
            yield Fault(_talk_of(key), f"the post {key} is claimed and was never sent")


def _talk_of(key: str) -> str:
    """The conversation that a post belongs to; of a case's post nothing that is one."""
    return ":".join(key.split(":")[1:4])


def _effects(evidence: TalkEvidence) -> Iterator[Fault]:
    """A work item, entry or change for each call that says so, none twice, and none that nobody called for."""
    called = defaultdict(list)
    for call in evidence.calls:
        if call.title:
            called[call.title].append(call)
    for title, times in evidence.items.items():
        talk = called[title][0].bug_id if called[title] else ""
        if times > 1 or not talk:
            yield Fault(talk, f"the work item {title} is there {times} times, of {len(called[title])} calls")
    for title, calls in called.items():
        done = sum(call.status == "ok" for call in calls)
        if done and evidence.items.get(title, 0) != 1:
            there = evidence.items.get(title, 0)
            yield Fault(calls[0].bug_id, f"the work item {title} was added, and is there {there} times")
        if len(calls) > 1:
            yield Fault(calls[0].bug_id, f"the work item {title} was called for {len(calls)} times")


def _written_down(evidence: TalkEvidence) -> Iterator[Fault]:
    """What an operator's turn about an RFP has said is in its journal, and each change was made once in its state."""
    if evidence.doubled:
        yield Fault("", f"the state of the RFP has {evidence.doubled} versions that have added nothing")
    for turn in evidence.turns:
        operated = turn.agent == "operator" and turn.rfp_id and turn.kind in _SAYING
        if operated and not turn.entries:
            yield Fault(turn.bug_id, f"turn {turn.turn} has said “{turn.answer}”, and its journal has nothing of it")


def _stops(evidence: TalkEvidence) -> Iterator[Fault]:
    """Whoever stopped a turn did so: somebody in the thread, or an operator.

    By Cancel the turn under way ends, and one more for who was not heard in it; what is said later is answered.
    """
    by_operators = Counter[str]()
    said = {row.bug_id for row in evidence.stored if row.message_type == messages.STOP}
    for turn in evidence.turns:
        if turn.kind == "stopped" and _BY_OPERATOR in turn.answer:
            by_operators[turn.bug_id] += 1
        elif turn.kind == "stopped" and turn.bug_id not in said:
            yield Fault(turn.bug_id, f"turn {turn.turn} says that somebody stopped it, and nobody did")
    for talk, times in by_operators.items():
        if times > 2 * (cancels := evidence.cancelled[talk]):
            yield Fault(talk, f"{times} turns say that an operator stopped them, who cancelled {cancels} runs")


def _claims(evidence: TalkEvidence) -> Iterator[Fault]:
    """One card asks people to take a thread over, and what either side says then reaches the other once.

    While a person has it, the agent says nothing.
    """
    for claim in evidence.claims:
        key = claim.thread.key
        if claim.cards != 1:
            yield Fault(key, f"people were asked {claim.cards} times to take it over")
        for word, times in (claim.answers | claim.asks).items():
            if times != 1:
                yield Fault(key, f"what was said to the other side, {word}, was said there {times} times")
        if answered := [turn.turn for turn in evidence.turns if turn.bug_id == key and turn.kind in _ANSWERING]:
            yield Fault(key, f"a person has it, and the agent has answered in {answered}")


def _revived(evidence: TalkEvidence) -> Iterator[Fault]:
    """What the sweep had to mend where nobody had terminated a run: it would hide what went wrong before."""
    for talk in evidence.talks:
        if talk.bug_id in evidence.revived and not evidence.terminated[talk.bug_id]:
            yield Fault(talk.bug_id, "the sweep had to revive it")
