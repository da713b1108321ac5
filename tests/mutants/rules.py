"""Planted faults in rules: steps of a case, rights and texts of agents, secrets, fixes, approvals,
evidence.
"""

from tests.mutants.mutant import Mutant

PLAIN_CHANGES = "tests/forge/test_patches.py::test_other_than_a_plain_change_of_text_is_refused"
WORST_AND_BEST = "tests/decisions/test_confidence_rules.py::test_worst_evidence_is_0_and_best_is_1"

ABSENCE = "tests/threads/test_absence_rules.py"
FORGETTING = "tests/threads/test_forgetting_slack_workflow.py"
RESTORED = "tests/cli/test_messages.py"

MUTANTS: list[Mutant] = [
    Mutant(
        (
            "transitions: the table has a step from an escalation to its reporter, which the "
            "database refuses"
        ),
        "threadline/cases/model.py",
        "    CaseStatus.ESCALATED: frozenset({CaseStatus.INVESTIGATING, CaseStatus.RESOLVED}),",
        "    CaseStatus.ESCALATED: frozenset(\n"
        "        {CaseStatus.INVESTIGATING, CaseStatus.AWAITING_REPORTER, CaseStatus.RESOLVED}\n"
        "    ),",
        (
            "tests/cases/test_case_store.py::test_trigger_and_store_allow_exactly_the_steps_of_the_model[escalated]",
        ),
    ),
    Mutant(
        "transitions: a case ends over a message that a running turn has not answered yet",
        "threadline/cases/store/case.py",
        "AND m.sender_type <> 'bot' AND m.turn > c.turn) m",
        "AND m.sender_type <> 'bot' AND m.turn > c.turn + 1) m",
        ("tests/cases/test_case_store.py::test_message_in_a_running_turn_prevents_an_end",),
    ),
    Mutant(
        (
            "transitions: an escalation that a developer has answered breaches the target for an "
            "answer"
        ),
        "threadline/cases/sla.py",
        "not (acknowledged and kind in _ACKNOWLEDGE)",
        "not (acknowledged and kind is SlaEventKind.ACKNOWLEDGE_REMINDER)",
        (
            "tests/cases/test_sla_rules.py::test_acknowledged_escalation_is_only_measured_by_its_resolution",
        ),
    ),
    Mutant(
        "policy: a symbolic link leads the agent out of its workspace",
        "threadline/investigator/policy.py",
        "real = (self._root / path).resolve()",
        "real = (self._root / path).absolute()",
        (
            "tests/investigator/test_policy_rules.py::test_path_elsewhere_or_of_git_is_refused[Read-file_path-out/a]",
            "tests/investigator/test_policy_rules.py::test_path_elsewhere_or_of_git_is_refused[Read-file_path-innocent]",
        ),
    ),
    Mutant(
        "policy: a hook that breaks lets the agent's call through",
        "threadline/investigator/policy.py",
        'hooks=[self._before], on_failure="block", timeout=10',
        "hooks=[self._before], timeout=10",
        (
            "tests/investigator/test_policy_rules.py::test_refusal_reaches_the_model_and_a_broken_hook_blocks",
        ),
    ),
    Mutant(
        ("policy: the assistant, which has no protocol, may post by a tool and propose actions"),
        "threadline/tools/registry.py",
        "protocol_tool = each.kind.changes_rfp or each.kind in (ToolKind.SPEAK, ToolKind.PROPOSE)",
        "protocol_tool = each.kind.changes_rfp",
        ("tests/tools/test_access_rules.py::test_conversational_agent_has_no_protocol_tools",),
    ),
    Mutant(
        "protocol: an event counts as a journal entry, so a turn without one may post",
        "threadline/operator/model/protocol.py",
        "(succeeded and call.kind is ToolKind.JOURNAL)",
        "(succeeded and call.kind in (ToolKind.JOURNAL, ToolKind.EVENT))",
        (
            "tests/operator/test_protocol_rules.py::"
            "test_scoped_turn_says_nothing_before_something_is_written[event only]",
        ),
    ),
    Mutant(
        "protocol: the text of a status turn is not journalled when it ends",
        "threadline/operator/model/protocol.py",
        "return FinalTextRule(text, about, checked=",
        "return FinalTextRule(text, (), checked=",
        (
            "tests/operator/test_protocol_tools.py::"
            "test_status_turn_may_speak_and_its_words_are_journalled_when_it_ends",
        ),
    ),
    Mutant(
        "protocol: a post with an unknown outcome counts as unsent, and a second one follows",
        "threadline/operator/enforcement.py",
        "_UNKNOWN = (ErrorCode.OUTCOME_UNKNOWN, ErrorCode.TOOL_EXECUTION_FAILED)",
        "_UNKNOWN = (ErrorCode.OUTCOME_UNKNOWN,)",
        (
            "tests/operator/test_protocol_tools.py::test_message_that_may_have_been_posted_is_the_only_one",
        ),
    ),
    Mutant(
        "redaction: a rule compares its hint with the case of letters, and misses capitals",
        "threadline/privacy/redaction.py",
        "searched = folded if rule.folds else text",
        "searched = text",
        (
            "tests/privacy/test_redaction_rules.py::"
            "test_secret_of_known_format_is_replaced_by_its_mark[Password in bold]",
        ),
    ),
    Mutant(
        "redaction: the detector's rules read an address first, and leave the end of its password",
        "threadline/privacy/secret_rules.py",
        "RULES = (*SHAPES, *URLS, *VENDOR_SHAPES, *CONTEXT)",
        "RULES = (*SHAPES, *VENDOR_SHAPES, *URLS, *CONTEXT)",
        (
            "tests/privacy/test_redaction_rules.py::"
            "test_secret_of_known_format_is_replaced_by_its_mark[MySQL with an @]",
        ),
    ),
    Mutant(
        (
            "redaction: a rule searches the rest of the text from each command, and blocks the "
            "gateway"
        ),
        "threadline/privacy/secret_rules.py",
        r"""{BEGIN}curl\b[^\n]{{0,200}}?[ ]""",
        r"""{BEGIN}curl\b[^\n]*?[ ]""",
        (
            "tests/privacy/test_redaction_rules.py::"
            "test_long_text_is_redacted_in_linear_time[-curl -u ]",
        ),
    ),
    Mutant(
        "patches: the path of a deleted or renamed file is not checked",
        "threadline/forge/patches.py",
        "        check_path(path)\n",
        "        if info.split()[1] != _NONE.encode():\n            check_path(path)\n",
        (
            "tests/forge/test_patch_rules.py::test_forbidden_path_is_refused[.github/workflows/x.yml]",
        ),
    ),
    Mutant(
        "patches: an existing symbolic link may get another target",
        "threadline/forge/patches.py",
        "for mode in {old, new} - {_NONE, *REGULAR}:",
        "for mode in {new} - {old, _NONE, *REGULAR}:",
        (f"{PLAIN_CHANGES}[link elsewhere]",),
    ),
    Mutant(
        "patches: the files that git reads from a diff may have any path",
        "threadline/forge/patches.py",
        "        check_path(path)\n        old, new =",
        "        old, new =",
        (f"{PLAIN_CHANGES}[another name of a rename]",),
    ),
    Mutant(
        "patches: a hidden or CI file may be copied to an ordinary path",
        "threadline/forge/pull_requests.py",
        "        patches.check_sources(sources)\n",
        "",
        ("tests/forge/test_patches.py::test_hidden_or_ci_file_is_not_copied_to_an_ordinary_path",),
    ),
    Mutant(
        "patches: git copies big files without limit before their size is checked",
        "threadline/forge/pull_requests.py",
        "        patches.check_size(size)\n",
        "",
        (f"{PLAIN_CHANGES}[many copies]",),
    ),
    Mutant(
        "patches: git inflates binary data before it is refused",
        "threadline/forge/pull_requests.py",
        "        patches.check_diff(request.diff)\n",
        "",
        ("tests/forge/test_pull_requests.py::test_binary_data_is_refused_before_git_reads_it",),
    ),
    Mutant(
        "policy: a call of high risk is made without an approval",
        "threadline/tools/policy.py",
        "    PolicyRule(Verdict.PROPOSE, risks=frozenset({Risk.HIGH})),\n",
        "",
        (
            "tests/approvals/test_policy_activities.py::test_direct_call_of_high_risk_waits_and_the_model_learns_it",
        ),
    ),
    Mutant(
        "policy: an approved call is made although its record has changed since",
        "threadline/tools/runner.py",
        (
            "return None if assessed.changes == context.approved_changes else "
            "_record_changed(assessed)"
        ),
        "return None",
        (
            "tests/approvals/test_policy_activities.py::test_approved_call_is_refused_when_the_record_has_changed_since",
        ),
    ),
    Mutant(
        "roles: the role of one requester gives the record to all of them",
        "threadline/tools/roles.py",
        "        return not missing\n",
        "        return missing != set(users)\n",
        ("tests/tools/test_roles_rules.py::test_every_requester_needs_the_role",),
    ),
    Mutant(
        "approvals: a former approver decides",
        "threadline/approvals/model.py",
        "        if press.user_id in approvers_now:\n",
        "        if approvers_now:\n",
        (
            "tests/approvals/test_approval_store.py::"
            "test_click_that_may_not_decide_is_refused[medium-U2-more3-no longer an approver]",
        ),
    ),
    Mutant(
        "approvals: a click in time is refused when a worker handles it late",
        "threadline/approvals/activities.py",
        "at = min(press.at or now, now)",
        "at = now",
        (
            "tests/approvals/test_approval_activities.py::test_click_in_time_counts_when_it_is_handled_late[-1.0-approved]",
        ),
    ),
    Mutant(
        "ledger: any transient fault deletes the intent, and the next attempt repeats the change",
        "threadline/tools/runner.py",
        "        except NotDone:\n",
        "        except Transient:\n",
        ("tests/tools/test_ledger_rules.py::test_change_before_a_fault_is_found_by_the_next_try",),
    ),
    Mutant(
        "ledger: a change that may still take effect is made again at once",
        "threadline/tools/runner.py",
        "if rest and not (found and found.success):",
        "if rest and found and not found.success:",
        (
            "tests/tools/test_ledger_rules.py::"
            "test_missing_change_is_waited_for_before_it_is_made_again",
        ),
    ),
    Mutant(
        "confidence: the weight of an unneeded source is lost",
        "threadline/decisions/model.py",
        " / sum(weight for weight, _ in parts)",
        "",
        (f"{WORST_AND_BEST}[without a source]",),
    ),
    Mutant(
        name="deletion: an absence is believed at the first look",
        file="threadline/threads/absence.py",
        before="MIN_LOOKS = 2\n",
        after="MIN_LOOKS = 1\n",
        tests=(f"{FORGETTING}::test_message_that_is_seen_again_needs_two_new_looks",),
    ),
    Mutant(
        name="deletion: an absence is believed where Slack shows nothing older",
        file="threadline/threads/absence.py",
        before="    if not absence.older_is_shown:\n",
        after="    if not absence.older_is_shown and not absence.newer_is_shown:\n",
        tests=(f"{ABSENCE}::test_forgotten_message_is_no_deletion",),
    ),
    Mutant(
        name="deletion: every message that Slack does not show counts as deleted",
        file="threadline/threads/absence.py",
        before="    doubt = _doubt(absence)\n",
        after='    doubt = ""\n',
        tests=(f"{FORGETTING}::test_forgetting_slack_erases_nothing_and_is_reported_once",),
    ),
    Mutant(
        name="deletion: an inferred deletion keeps no copy",
        file="threadline/threads/message_table.py",
        before="            steps = [_KEEP, _KEEP_FILES, _DELETE, _DELETE_FILES, _PURGE, _EDIT]\n",
        after="            steps = [_DELETE, _DELETE_FILES, _PURGE, _EDIT]\n",
        tests=(f"{RESTORED}::test_case_reads_as_before_with_its_title_and_files",),
    ),
    Mutant(
        name="deletion: a deletion that is seen later keeps the copy",
        file="threadline/threads/message_table.py",
        before="            steps = [_KEEP, _KEEP_FILES, _DELETE, _DELETE_FILES, _PURGE, _EDIT]\n",
        after="            steps = [_KEEP, _KEEP_FILES, _DELETE, _DELETE_FILES, _EDIT]\n",
        tests=(f"{RESTORED}::test_seen_deletion_leaves_no_copy",),
    ),
]
