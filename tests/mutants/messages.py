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

DRAFTS = "tests/conversations/test_draft_activities.py"

MUTANTS: list[Mutant] = [
    Mutant(
        name="draft: the reply to another prompt is kept",
        file="threadline/conversations/draft.py",
        before="if prompt_of(call.deps, request, question) != call.prompt:",
        after="if False:",
        tests=(
            f"{DRAFTS}::test_draft_of_a_deleted_message_is_dropped",
            f"{DRAFTS}::test_draft_of_an_edited_message_is_dropped",
        ),
    ),
    Mutant(
        name="draft: its messages are taken up before the decision",
        file="threadline/conversations/draft.py",
        before="async with deps.database.begin_undone() as tx:",
        after="async with deps.database.begin() as tx:",
        tests=(f"{DRAFTS}::test_model_is_asked_for_the_answer_while_it_decides",),
    ),
    Mutant(
        name="draft: a draft is kept although a stop was requested",
        file="threadline/conversations/draft.py",
        before="if question.step != request.step or question.snapshot.stop_due:",
        after="if question.step != request.step:",
        tests=(f"{DRAFTS}::test_draft_is_dropped_when_a_stop_is_requested",),
    ),
    Mutant(
        name="intake: an event is acknowledged without waiting for Temporal",
        file="threadline/gateway/router.py",
        before=(
            "        await self._workflows.start(_start_of(replace(resolved, message=message)))\n"
        ),
        after=(
            "        start = self._workflows.start(_start_of(replace(resolved, "
            "message=message)))\n"
            "        self._later = asyncio.ensure_future(start)\n"
        ),
        tests=(f"{APP}::test_event_is_not_acknowledged_before_temporal_has_it",),
    ),
    Mutant(
        name="intake: a message after the end of a case is always refused",
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
        name="inbox: the queue is reversed",
        file="threadline/threads/inbox.py",
        before="self._pending.insert(0 if first else len(self._pending), message)",
        after="self._pending.insert(0, message)",
        tests=(f"{TALK}::test_burst_of_messages_is_one_turn_and_each_signal_counts_once",),
    ),
    Mutant(
        name="inbox: messages that arrive while a batch is stored are dropped with it",
        file="threadline/threads/inbox.py",
        before="del self._pending[:count]",
        after="self._pending.clear()",
        tests=(f"{TALK}::test_burst_of_messages_is_one_turn_and_each_signal_counts_once",),
    ),
    Mutant(
        name="inbox: a case's messages leave the queue before their write has returned",
        file="threadline/cases/workflow.py",
        before=(
            "        stored = await call(\n"
            '            CaseActivities.flush_messages, request, summary=f"store {len(batch)} '
            'messages"\n'
            "        )\n"
            "        self.inbox.stored(len(batch))\n"
        ),
        after=(
            "        self.inbox.stored(len(batch))\n"
            "        stored = await call(\n"
            '            CaseActivities.flush_messages, request, summary=f"store {len(batch)} '
            'messages"\n'
            "        )\n"
        ),
        tests=(f"{ENDURANCE}::test_storing_is_retried_after_a_fault_that_looks_permanent",),
    ),
    Mutant(
        name="inbox: an unexpected error fails the run and loses its queue",
        file="threadline/threads/run_loop.py",
        before=(
            "                    raise RuntimeError(\n"
            '                        "a step failed with an error that it does not handle"\n'
            "                    ) from error\n"
        ),
        after=("                    raise\n"),
        tests=(f"{TALK_ENDURANCE}::test_fault_in_a_step_fails_the_task_and_never_the_run",),
    ),
    Mutant(
        name="flush: stored messages are numbered again",
        file="threadline/threads/message_table.py",
        before=(
            "            if len(stored) < len(batch):\n                raise "
            "_StoredAlready(stored)\n"
        ),
        after="",
        tests=(f"{STORED}::test_repeated_batch_changes_nothing_but_the_revision",),
    ),
    Mutant(
        name="flush: a known message drops the new ones of its batch",
        file="threadline/threads/message_table.py",
        before="batch = [message for message in batch if message.id in known.others]",
        after="batch = []",
        tests=(f"{STORED}::test_two_flushes_at_once_open_one_case_and_store_each_message_once",),
    ),
    Mutant(
        name="flush: the last edit to arrive wins, not the newest",
        file="threadline/threads/message_table.py",
        before="ORDER BY correction_of, version DESC, seq DESC",
        after="ORDER BY correction_of, seq DESC",
        tests=(f"{STORED}::test_newest_edit_wins_in_any_order_of_arrival[order1]",),
    ),
    Mutant(
        name="claim: an overtaken attempt renews its lease without an error",
        file="threadline/investigator/store.py",
        before=(
            "        await agent_rows(\n"
            '            self._database, "SELECT agent_renew_lease($1, $2, $3, $4)", *held, '
            "lease_s\n"
            "        )\n"
        ),
        after=(
            "        try:\n"
            "            await agent_rows(\n"
            '                self._database, "SELECT agent_renew_lease($1, $2, $3, $4)", *held, '
            "lease_s\n"
            "            )\n"
            "        except ClaimLost:\n"
            "            return\n"
        ),
        tests=(f"{TURNS}::test_overtaken_attempt_can_write_nothing_more",),
    ),
    Mutant(
        name="claim: a late older attempt takes the turn from a live one",
        file="threadline/investigator/store.py",
        before=(
            "            self._database, statement, bug_id, turn, attempt, session_id, lease_s\n"
        ),
        after=(
            "            self._database, statement, bug_id, turn, max(attempt, 10), "
            "session_id, lease_s\n"
        ),
        tests=(f"{TURNS}::test_late_older_attempt_does_not_overtake_a_living_one",),
    ),
    Mutant(
        name="claim: messages that the agent read through its tool are delivered again",
        file="threadline/investigator/store.py",
        before='told["read_seqs"] = sorted(told.pop("read"))',
        after='told["read_seqs"] = sorted(told.pop("read"))[:0]',
        tests=(
            f"{TURNS}::test_read_message_of_the_reporter_is_used_and_a_developers_is_shown_again",
        ),
    ),
    Mutant(
        name="outbox: a retry posts without a search for the key",
        file="threadline/threads/outbox.py",
        before=(
            "            if found := await self._find(post, claim, find):\n                "
            "return found\n"
        ),
        after="",
        tests=(
            f"{POSTS}::test_failure_after_storing_ends_in_one_message_though_clocks_differ[0]",
        ),
    ),
    Mutant(
        name="outbox: a cancelled attempt does not record its call",
        file="threadline/threads/outbox.py",
        before="return await run_to_end(self._deliver(post, claim, send))",
        after="return await self._deliver(post, claim, send)",
        tests=(f"{POSTS}::test_cancelled_attempt_ends_its_call_and_records_it",),
    ),
    Mutant(
        name="outbox: a post that the first search misses is sent again at once",
        file="threadline/threads/outbox.py",
        before="        if early and not found:\n            raise self._too_early(post, claim)\n",
        after="",
        tests=(f"{POSTS}::test_failure_before_storing_ends_in_one_message",),
    ),
    Mutant(
        name="outbox: a post with a lost response releases its claim at once",
        file="threadline/threads/outbox.py",
        before="except (Permanent, NotDone):",
        after="except (Permanent, Transient):",
        tests=(
            f"{POSTS}::test_failure_after_storing_ends_in_one_message_though_clocks_differ[0]",
        ),
    ),
    Mutant(
        name="outbox: the age of a claim is a difference of two clocks",
        file="threadline/threads/outbox.py",
        before="self._clock() - claim.asked_at",
        after="self._clock() - claim.claimed_at",
        tests=(f"{POSTS}::test_attempt_that_was_frozen_after_its_claim_sends_nothing",),
    ),
    Mutant(
        name="outbox: a claim does not age while the machine is suspended",
        file="threadline/threads/outbox.py",
        before='getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)',
        after="time.CLOCK_MONOTONIC",
        tests=(
            f"{POSTS}::test_attempt_whose_machine_was_suspended_after_its_claim_sends_nothing",
        ),
    ),
    Mutant(
        name="outbox: every attempt that has searched takes the claim over",
        file="threadline/threads/store.py",
        before="update(posts).where(*_open(key, claimed_at))",
        after="update(posts).where(posts.c.key == key, posts.c.ts.is_(None))",
        tests=(f"{LEDGER}::test_one_of_many_concurrent_searches_leads_to_a_send",),
    ),
    Mutant(
        name="outbox: the second call of a post uses the claim of the first",
        file="threadline/threads/outbox.py",
        before="            await claim_anew()\n",
        after="",
        tests=(
            f"{POSTS}::test_second_call_of_a_post_has_the_whole_time_to_arrive",
            f"{POSTS}::test_attempt_that_was_overtaken_between_its_calls_does_not_make_the_second",
        ),
    ),
    Mutant(
        name="outbox: an overtaken attempt releases the claim of the other",
        file="threadline/threads/outbox.py",
        before='"pending": Steps(claimed=Step.SEARCH, searched=Step.WAIT, sending=Step.WAIT),',
        after='"pending": Steps(claimed=Step.SEARCH, searched=Step.WAIT, sending=Step.DROP),',
        tests=(f"{POSTS}::test_overtaken_attempt_does_not_release_the_claim_of_the_other[False]",),
    ),
    Mutant(
        name="outbox: a claim that was renewed too slowly is kept",
        file="threadline/threads/outbox.py",
        before="            claim = again\n",
        after="            self._check_age(post, again)\n            claim = again\n",
        tests=(f"{POSTS}::test_claim_that_was_renewed_too_slowly_is_released",),
    ),
    Mutant(
        name="outbox: the attempt that loses the race for a key sends too",
        file="threadline/threads/store.py",
        before="return await self._known(key) or await self.claim(key, channel, thread_ts)",
        after='return PostClaim("ours")',
        tests=(f"{LEDGER}::test_one_of_many_concurrent_claims_may_send",),
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
        tests=(f"{TURNS}::test_settling_fences_out_a_running_attempt",),
    ),
    Mutant(
        name="turn: tools run in a turn that has ended or was stopped",
        file="threadline/conversations/act.py",
        before="        if calls.is_over:\n            return []\n",
        after="",
        tests=(f"{TURN}::test_tools_are_not_run_once_the_turn_is_over[stopped]",),
    ),
    Mutant(
        name="settle: a question is asked after a stop",
        file="threadline/conversations/ending.py",
        before="_with_unreported_calls(_unless_stopped(asked, facts), facts)",
        after="_with_unreported_calls(asked, facts)",
        tests=(f"{SETTLING}::test_question_by_rule_is_not_asked_after_a_stop",),
    ),
    Mutant(
        name="sweep: a failing item ends the page, and later items are not repaired",
        file="threadline/threads/sweep.py",
        before=(
            '            _log.exception("sweep_item_failed", sweep=sweep.name, item=repr(item))\n'
        ),
        after="            raise\n",
        tests=(f"{SWEEPS}::test_row_that_fails_is_passed_over",),
    ),
    Mutant(
        name="sweep: no item is repaired while Temporal does not list its workflows",
        file="threadline/threads/sweep.py",
        before="reason=str(error))\n            return items\n",
        after="reason=str(error))\n            return []\n",
        tests=(f"{SWEEPS}::test_unlisted_workflow_is_started_if_it_does_not_run[True]",),
    ),
    Mutant(
        name="sweep: an item without a known workflow fails the page",
        file="threadline/threads/sweep.py",
        before="with suppress(Exception):",
        after="with suppress():",
        tests=(f"{SWEEPS}::test_row_without_a_known_workflow_is_passed_over",),
    ),
    Mutant(
        "inbox: a repeated message is kept",
        "threadline/threads/inbox.py",
        "        if is_new(self._seen, message.id, MAX_SEEN):\n            self._pending",
        "        if is_new(self._seen, message.id, MAX_SEEN) or True:\n            self._pending",
        (
            "tests/threads/test_inbox_rules.py::"
            "test_repeated_message_is_queued_once_also_after_it_is_stored",
        ),
    ),
    Mutant(
        "claim: an agent gets messages in the order of arrival",
        "threadline/investigator/store.py",
        "ORDER BY said_at, version, id",
        "ORDER BY id",
        ("tests/cases/test_turn_store.py::test_claim_gets_all_unused_messages_in_written_order",),
    ),
]
