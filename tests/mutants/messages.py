"""Planted faults that lose, double or reorder a message, a turn or a post."""

from tests.mutants.mutant import Mutant

APP = "tests/gateway/test_app.py"
DISPATCH = "tests/gateway/test_dispatch.py"
PEOPLE = "tests/gateway/test_external_people.py"
STOPS = "tests/conversations/test_stop_workflow.py"
TURN = "tests/conversations/test_turn_activities.py"
TALK = "tests/conversations/test_conversation_workflow.py"
ENDURANCE = "tests/cases/test_endurance_workflow.py"
TALK_ENDURANCE = "tests/conversations/test_endurance_workflow.py"
STORED = "tests/cases/test_message_store.py"
TURNS = "tests/cases/test_turn_store.py"
LEDGER = "tests/threads/test_post_store.py"
POSTS = "tests/threads/test_outbox_activities.py"
SWEEPS = "tests/threads/test_sweep_activities.py"
SETTLING = "tests/operator/test_settle_activities.py"

MUTANTS: list[Mutant] = [
    Mutant(
        name="intake: an event is acknowledged without waiting for Temporal",
        file="threadline/gateway/router.py",
        before=("        await self._workflows.start(_start_of(replace(resolved, message=message)))\n"),
        after=(
            "        start = self._workflows.start(_start_of(replace(resolved, message=message)))\n"
            "        self._later = asyncio.ensure_future(start)\n"
        ),
        tests=(f"{APP}::test_event_is_not_acknowledged_before_temporal_has_it",),
    ),
    Mutant(
        name="intake: a message after the end of a case is refused for ever",
        file="threadline/threads/workflow_client.py",
        before="WorkflowIDReusePolicy.ALLOW_DUPLICATE,",
        after="WorkflowIDReusePolicy.REJECT_DUPLICATE,",
        tests=(f"{DISPATCH}::test_message_after_the_end_starts_a_new_run",),
    ),
    Mutant(
        name="intake: a developer's reply is lost while the database does not answer",
        file="threadline/gateway/router.py",
        before="CASE_LOOKUP_TIMEOUT = 0.3",
        after="CASE_LOOKUP_TIMEOUT = 10.0",
        tests=(f"{DISPATCH}::test_reply_whose_case_is_not_found_is_kept[hanging]",),
    ),
    Mutant(
        name="turn: tools run although somebody has said to stop before the reply came",
        file="threadline/conversations/activities.py",
        before="status, unless_stopped=True)",
        after="status, unless_stopped=False)",
        tests=(f"{TURN}::test_a_reply_that_a_stop_has_overtaken_has_nothing_run",),
    ),
    Mutant(
        name="turn: what a tool does in a cancelled activity is not told",
        file="threadline/conversations/contract.py",
        before="long_wait_in_workflow=True, ends_itself=True)",
        after="long_wait_in_workflow=True)",
        tests=(f"{STOPS}::test_a_cancelled_run_tells_what_a_tool_has_done_until_then",),
    ),
    Mutant(
        name="inbox: the queue is turned round",
        file="threadline/threads/inbox.py",
        before="self._pending.insert(0 if first else len(self._pending), message)",
        after="self._pending.insert(0, message)",
        tests=(f"{TALK}::test_burst_of_messages_is_one_turn_and_each_signal_counts_once",),
    ),
    Mutant(
        name="inbox: what comes while a batch is stored goes with it",
        file="threadline/threads/inbox.py",
        before="del self._pending[:count]",
        after="self._pending.clear()",
        tests=(f"{TALK}::test_burst_of_messages_is_one_turn_and_each_signal_counts_once",),
    ),
    Mutant(
        name="inbox: a case's messages are let go before their write returned",
        file="threadline/cases/workflow.py",
        before=(
            '        stored = await call(CaseActivities.flush_messages, request, summary=f"store '
            '{len(batch)} messages")\n'
            "        self.inbox.stored(len(batch))\n"
        ),
        after=(
            "        self.inbox.stored(len(batch))\n"
            '        stored = await call(CaseActivities.flush_messages, request, summary=f"store '
            '{len(batch)} messages")\n'
        ),
        tests=(f"{ENDURANCE}::test_storing_is_tried_again_after_a_fault_that_looks_permanent",),
    ),
    Mutant(
        name="inbox: an unforeseen fault fails the run with what it holds",
        file="threadline/threads/run_loop.py",
        before='raise RuntimeError("a step failed with an error that it does not handle") from error',
        after="raise",
        tests=(f"{TALK_ENDURANCE}::test_fault_in_a_step_fails_the_task_and_never_the_run",),
    ),
    Mutant(
        name="flush: what is stored already is numbered again",
        file="threadline/threads/message_table.py",
        before="            if len(stored) < len(batch):\n                raise _StoredAlready(stored)\n",
        after="",
        tests=(f"{STORED}::test_repeated_batch_changes_nothing_but_the_revision",),
    ),
    Mutant(
        name="flush: with a message that is known the new ones of its batch are dropped",
        file="threadline/threads/message_table.py",
        before="batch = [message for message in batch if message.id in known.others]",
        after="batch = []",
        tests=(f"{STORED}::test_two_flushes_at_once_open_one_case_and_store_each_message_once",),
    ),
    Mutant(
        name="flush: the edit that came last wins, not the newest",
        file="threadline/threads/message_table.py",
        before="ORDER BY correction_of, version DESC, seq DESC",
        after="ORDER BY correction_of, seq DESC",
        tests=(f"{STORED}::test_newest_edit_wins_in_any_order_of_arrival[order1]",),
    ),
    Mutant(
        name="claim: an attempt that was overtaken is not told so when it renews",
        file="threadline/investigator/store.py",
        before='        await agent_rows(self._database, "SELECT agent_renew_lease($1, $2, $3, $4)", *held, lease_s)\n',
        after=(
            "        try:\n"
            '            await agent_rows(self._database, "SELECT agent_renew_lease($1, $2, $3, $4)", *held, lease_s)\n'
            "        except ClaimLost:\n"
            "            return\n"
        ),
        tests=(f"{TURNS}::test_overtaken_attempt_can_write_nothing_more",),
    ),
    Mutant(
        name="claim: a late older attempt takes the turn from a living one",
        file="threadline/investigator/store.py",
        before="statement, bug_id, turn, attempt, session_id, lease_s)",
        after="statement, bug_id, turn, max(attempt, 10), session_id, lease_s)",
        tests=(f"{TURNS}::test_late_older_attempt_does_not_overtake_a_living_one",),
    ),
    Mutant(
        name="claim: what the agent read through its tool comes again",
        file="threadline/investigator/store.py",
        before='told["read_seqs"] = sorted(told.pop("read"))',
        after='told["read_seqs"] = sorted(told.pop("read"))[:0]',
        tests=(f"{TURNS}::test_read_message_of_the_reporter_is_used_and_a_developers_comes_again",),
    ),
    Mutant(
        name="outbox: a retry posts without looking for the key",
        file="threadline/threads/outbox.py",
        before="            if found := await self._find(post, claim, find):\n                return found\n",
        after="",
        tests=(f"{POSTS}::test_failure_after_storing_ends_in_one_message_though_clocks_differ[0]",),
    ),
    Mutant(
        name="outbox: an attempt that is cancelled leaves its call without a record",
        file="threadline/threads/outbox.py",
        before="return await run_to_end(self._deliver(post, claim, send))",
        after="return await self._deliver(post, claim, send)",
        tests=(f"{POSTS}::test_cancelled_attempt_ends_its_call_and_records_it",),
    ),
    Mutant(
        name="outbox: what is not found at once is sent again at once",
        file="threadline/threads/outbox.py",
        before="        if early and not found:\n            raise self._too_early(post, claim)\n",
        after="",
        tests=(f"{POSTS}::test_failure_before_storing_ends_in_one_message",),
    ),
    Mutant(
        name="outbox: a post whose answer was lost gives its claim up at once",
        file="threadline/threads/outbox.py",
        before="except (Permanent, NotDone):",
        after="except (Permanent, Transient):",
        tests=(f"{POSTS}::test_failure_after_storing_ends_in_one_message_though_clocks_differ[0]",),
    ),
    Mutant(
        name="outbox: the age of a claim is taken from two clocks",
        file="threadline/threads/outbox.py",
        before="self._clock() - claim.asked_at",
        after="self._clock() - claim.claimed_at",
        tests=(f"{POSTS}::test_attempt_that_was_frozen_behind_its_claim_sends_nothing",),
    ),
    Mutant(
        name="outbox: a machine that is suspended does not grow a claim old",
        file="threadline/threads/outbox.py",
        before='getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)',
        after="time.CLOCK_MONOTONIC",
        tests=(f"{POSTS}::test_attempt_whose_machine_was_suspended_behind_its_claim_sends_nothing",),
    ),
    Mutant(
        name="outbox: of several who searched each takes the claim over",
        file="threadline/threads/store.py",
        before="update(posts).where(*_open(key, claimed_at))",
        after="update(posts).where(posts.c.key == key, posts.c.ts.is_(None))",
        tests=(f"{LEDGER}::test_of_many_who_searched_at_once_one_sends",),
    ),
    Mutant(
        name="outbox: a second call is made on the claim of the first",
        file="threadline/threads/outbox.py",
        before="            await claim_anew()\n",
        after="",
        tests=(
            f"{POSTS}::test_second_call_of_a_post_has_the_whole_time_to_arrive",
            f"{POSTS}::test_attempt_that_was_overtaken_between_its_calls_does_not_make_the_second",
        ),
    ),
    Mutant(
        name="outbox: an attempt that was overtaken gives up the other one's claim",
        file="threadline/threads/outbox.py",
        before='if again.state not in ("ours", "invalid"):',
        after="if False:",
        tests=(f"{POSTS}::test_claim_of_the_attempt_that_has_overtaken_another_is_not_given_up_by_it[False]",),
    ),
    Mutant(
        name="outbox: a claim that was taken anew too slowly is kept",
        file="threadline/threads/outbox.py",
        before="            claim = again\n            self._check(post, claim)\n",
        after="            self._check(post, again)\n            claim = again\n",
        tests=(f"{POSTS}::test_claim_that_was_taken_anew_too_slowly_is_given_up",),
    ),
    Mutant(
        name="outbox: whoever loses the race for a key sends too",
        file="threadline/threads/store.py",
        before="return await self._known(key) or await self.claim(key, channel, thread_ts)",
        after='return PostClaim("ours")',
        tests=(f"{LEDGER}::test_of_many_claims_at_once_one_may_send",),
    ),
    Mutant(
        name="settle: a turn that is settled twice counts twice",
        file="threadline/cases/store/case.py",
        before="if turn > case.turn and case.status",
        after="if turn >= case.turn and case.status",
        tests=(f"{TURNS}::test_outcome_whose_answer_was_lost_is_found_and_settled_once",),
    ),
    Mutant(
        name="settle: a running attempt keeps its claim",
        file="threadline/cases/store/case.py",
        before="                await self._tx.execute(_REVOKE, which)\n",
        after="",
        tests=(f"{TURNS}::test_settling_fences_a_running_attempt_out",),
    ),
    Mutant(
        name="settle: a question is asked although somebody said to stop",
        file="threadline/conversations/finish.py",
        before="        await self._obey_stop()\n",
        after="",
        tests=(f"{SETTLING}::test_question_by_rule_is_not_asked_after_a_stop",),
    ),
    Mutant(
        name="sweep: an item that fails ends the page, and nothing behind it is repaired",
        file="threadline/threads/sweep.py",
        before='            _log.exception("sweep_item_failed", sweep=sweep.name, item=repr(item))\n',
        after="            raise\n",
        tests=(f"{SWEEPS}::test_row_that_fails_is_passed_over",),
    ),
    Mutant(
        name="sweep: while Temporal does not list its workflows, nothing is repaired",
        file="threadline/threads/sweep.py",
        before="reason=str(error))\n            return items\n",
        after="reason=str(error))\n            return []\n",
        tests=(f"{SWEEPS}::test_of_workflows_that_the_list_does_not_show_those_are_started_that_do_not_run[True]",),
    ),
    Mutant(
        name="sweep: an item whose workflow cannot be told fails the page",
        file="threadline/threads/sweep.py",
        before="with suppress(Exception):",
        after="with suppress():",
        tests=(f"{SWEEPS}::test_row_whose_workflow_cannot_be_told_is_passed_over",),
    ),
    Mutant(
        "inbox: a repeated message is kept",
        "threadline/threads/inbox.py",
        "        if is_new(self._seen, message.id, MAX_SEEN):\n            self._pending",
        "        if is_new(self._seen, message.id, MAX_SEEN) or True:\n            self._pending",
        ("tests/threads/test_inbox_rules.py::test_repeated_message_is_queued_once_also_after_it_is_stored",),
    ),
    Mutant(
        "claim: an agent gets messages in the order of arrival",
        "threadline/investigator/store.py",
        "ORDER BY said_at, version, id",
        "ORDER BY id",
        ("tests/cases/test_turn_store.py::test_claim_gets_all_unused_messages_in_written_order",),
    ),
]
