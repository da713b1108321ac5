"""What the conversations of a run leave behind, as Postgres, the sandbox and the logs tell it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import text

from tests.chaos import histories, oracle
from tests.chaos.claimants import Claimants, Seen
from tests.chaos.people import Written
from tests.chaos.stage import CORES, Stage
from tests.chaos.talkers import Talkers
from tests.chaos.trouble import Ended, Trouble
from threadline_devstack.slack.model import Message

_TALK = "talk:"
_PLACE = "c.channel || ':' || c.thread_ts"
_KEY = f"c.team || ':' || {_PLACE}"
_TALKS = text(f"""
SELECT {_KEY} AS bug_id, {_PLACE} AS thread_ts, id, turn, taken_turn, stored FROM conversations c
WHERE stored > 0 AND {_PLACE} = ANY(:places)
""")  # noqa: S608 - all parts are written here
_SAID = text(f"""
SELECT {_KEY} AS bug_id, m.seq, m.message_id, m.message_type, m.message_text, m.sender_id, m.said_at, m.channel,
       m.addressed, m.verdict, m.wakes, m.turn, m.step,
       m.redacted_at IS NOT NULL AS redacted, m.edited_at IS NOT NULL AS edited,
       (SELECT count(*) FROM transcript t WHERE t.conversation_id = c.id AND t.key = 'u:' || m.message_id) AS shown,
       (SELECT min(place) FROM transcript t WHERE t.conversation_id = c.id AND t.key = 'u:' || m.message_id) AS place
FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.conversation_id = ANY(:talks) ORDER BY m.conversation_id, m.seq
""")  # noqa: S608 - as above
_TURNS = text(f"""
SELECT {_KEY} AS bug_id, t.turn, t.kind, t.answer, t.said_at IS NOT NULL AS said,
       p.route->>'agent' AS agent, coalesce(p.route->'scope'->>'rfp_id', '') AS rfp_id,
       (SELECT count(*) FROM journal_entries j WHERE j.correlation_id = {_KEY} || ':' || t.turn) AS entries
FROM conversation_turns t JOIN conversations c ON c.id = t.conversation_id
LEFT JOIN turn_plans p ON p.conversation_id = c.id AND p.turn = t.turn
WHERE c.id = ANY(:talks) ORDER BY c.id, t.turn
""")  # noqa: S608 - as above
_CALLS = text(f"""
SELECT {_KEY} AS bug_id, turn, step, tool_name, status, CASE tool_name
       WHEN 'journal.append' THEN parameters->>'text'
       WHEN 'opportunity.patch' THEN 'change ' || substring(parameters->>'patch' FROM 't[0-9]+[mr][0-9]*')
       ELSE parameters->'items'->0->>'title' END AS title
FROM agent_tool_executions c WHERE {_PLACE} = ANY(:places)
""")  # noqa: S608 - as above
_ITEMS = text("""
SELECT i.title, count(*) AS times FROM estimate_items i JOIN estimate_projects p USING (project_id)
WHERE p.name = :project GROUP BY i.title
UNION ALL
SELECT text, count(*) FROM journal_entries WHERE rfp_id = :rfp AND kind = 'note' GROUP BY text
UNION ALL
SELECT 'change ' || word, 1 FROM opportunity_states, jsonb_object_keys(document->'noted') word WHERE rfp_id = :rfp
""")
_CHANGES = text("""
SELECT coalesce(max(version), 1) - 1 - (SELECT count(*) FROM opportunity_states, jsonb_object_keys(document->'noted')
                                        WHERE rfp_id = :rfp)
FROM opportunity_states WHERE rfp_id = :rfp
""")
"""Versions of the RFP's state that have added nothing to it."""
_CLAIMED = text("SELECT key FROM slack_posts WHERE ts IS NULL AND key LIKE 'talk:%'")
_UNFINISHED = text(f"""
SELECT count(*) FROM conversations c WHERE {_PLACE} = ANY(:places) AND (
    EXISTS (SELECT FROM conversation_messages m
            WHERE m.conversation_id = c.id AND m.wakes AND (m.turn IS NULL OR m.turn > c.turn))
    OR EXISTS (SELECT FROM conversation_turns t
               WHERE t.conversation_id = c.id AND t.said_at IS NULL AND t.answer <> ''))
""")  # noqa: S608 - as above


@dataclass
class TalkEvidence:
    """What people wrote by id, and the rows of the queries above.

    A thread's name (`bug_id`, as that of a case is called) is its key; `thread_ts` is its place, with the channel.
    """

    written: Mapping[str, Written]
    posts: Sequence[Message] = ()
    signs: set[str] = field(default_factory=set)
    talks: list[Any] = field(default_factory=list)
    stored: list[Any] = field(default_factory=list)
    turns: list[Any] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    items: dict[str, int] = field(default_factory=dict)
    doubled: int = 0
    """Changes of the RFP's state that were made more than once, or written over."""
    claimed: list[str] = field(default_factory=list)
    unheard: set[str] = field(default_factory=set)
    """Ids of what Slack gave up delivering, or a terminated run was told."""
    cancelled: Counter[str] = field(default_factory=Counter)
    terminated: Counter[str] = field(default_factory=Counter)
    """How often an operator ended a run, by conversation."""
    revived: set[str] = field(default_factory=set)
    """Conversations for which the sweep had to start a run."""
    claims: Sequence[Seen] = ()
    guards_opened: bool = False
    """A guard could not be asked, so it let something pass."""

    @property
    def happened(self) -> dict[str, int]:
        kinds = Counter(turn.kind for turn in self.turns)
        verdicts = Counter(row.verdict for row in self.stored)
        return {
            "talks": len(self.talks),
            "talked": len(self.written),
            "talk_turns": len(self.turns),
            "items": sum(self.items.values()),
            "answered": kinds["answered"],
            "spoken": kinds["spoken"],
            "told": kinds["told"],
            "silent": kinds["silent"],
            "stopped": kinds["stopped"],
            "repeated": verdicts["duplicate"],
            "relayed": sum(sum(each.answers.values()) + sum(each.asks.values()) for each in self.claims),
            "talks_cancelled": self.cancelled.total(),
            "talks_terminated": self.terminated.total(),
        }


async def unfinished(stage: Stage, talkers: Talkers) -> int:
    """Conversations in which something waits for an answer, or an answer for being said."""
    async with stage.database.begin() as work:
        places = [exchange.place for exchange in talkers.exchanges]
        return int(await work.connection.scalar(_UNFINISHED, {"places": places}) or 0)


async def gather(
    stage: Stage, talkers: Talkers, claimants: Claimants, since: datetime, trouble: Trouble
) -> TalkEvidence:
    """Look everything up, once nothing moves any more."""
    evidence = TalkEvidence(talkers.written, oracle.posts_of_the_bot(stage), talkers.signs)
    places = {"places": [exchange.place for exchange in talkers.exchanges]}
    async with stage.database.begin() as work:
        evidence.talks = list(await work.connection.execute(_TALKS, places))
        which = {"talks": [talk.id for talk in evidence.talks]}
        evidence.stored = list(await work.connection.execute(_SAID, which))
        evidence.turns = list(await work.connection.execute(_TURNS, which))
        evidence.calls = list(await work.connection.execute(_CALLS, places))
        items = await work.connection.execute(_ITEMS, {"project": talkers.project, "rfp": talkers.rfp})
        evidence.items = {row.title: row.times for row in items}
        evidence.doubled = int(await work.connection.scalar(_CHANGES, {"rfp": talkers.rfp}) or 0)
        evidence.claimed = list((await work.connection.execute(_CLAIMED)).scalars())
    evidence.claims = claimants.seen()
    evidence.unheard = histories.given_up(stage, talkers.written)
    cut = [run for run in trouble.terminated if _is_talk(run)]
    for run in cut:
        evidence.unheard |= await histories.signalled(stage, run)
    evidence.terminated = Counter(map(_thread_of, cut))
    evidence.cancelled = Counter(_thread_of(run) for run in trouble.cancelled if _is_talk(run))
    for name in CORES:
        evidence.guards_opened |= any(stage.told(name, since, "guard_failed_open"))
        evidence.revived |= {each["slack_thread"] for each in stage.told(name, since, "conversation_revived")}
    return evidence


def _is_talk(run: Ended) -> bool:
    return run.workflow_id.startswith(_TALK)


def _thread_of(run: Ended) -> str:
    return run.workflow_id.removeprefix(_TALK)
