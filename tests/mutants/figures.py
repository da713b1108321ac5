"""Planted faults in the figures of the designs: each named test has the figure as the design
writes it.
"""

from tests.mutants.mutant import Mutant

CASES = "tests/cases/test_case_workflow.py"
TALK = "tests/conversations/test_conversation_workflow.py"
REACT = "tests/conversations/test_react_loop_rules.py"
TURN = "tests/conversations/test_turn_activities.py"
DEFAULT = "tests/wiring/test_settings_rules.py::test_default_is_the_figure_of_the_design"
PROPERTIES = "tests/properties/test_properties.py"
RETRIES = "tests/properties/test_retries_workflow.py"
CONFIDENCE = "tests/decisions/test_confidence_rules.py"
DECISION = "tests/decisions/test_decision_rules.py"
FLOWS = f"{CONFIDENCE}::test_example_flows_of_the_design_follow_its_formula[factors0-0.905]"
THRESHOLD = f"{CONFIDENCE}::test_confidence_equal_to_a_threshold_reaches_it"
WEIGHTS = ("SOURCE_WEIGHT", "SIMPLICITY_WEIGHT", "CONTEXT_WEIGHT", "TOOLS_WEIGHT")
WINDOW = f"{PROPERTIES}::test_property_5_prompt_has_at_most_20_messages_within_the_budget"
FITS = "tests/conversations/test_prompt_rules.py::test_oldest_of_21_messages_are_summarised"
THROTTLE = f"{PROPERTIES}::test_property_13_more_than_10_requests_within_60_seconds_are_throttled"
LIMITED = (
    f"{RETRIES}::test_property_11_rate_limited_call_waits_2_to_the_attempt_and_is_retried_3_times"
)
TRIED = f"{RETRIES}::test_tool_that_does_not_answer_is_tried_3_times_after_1_and_2_seconds"


def weights(*values: float) -> str:
    return "".join(f"{name} = {value}\n" for name, value in zip(WEIGHTS, values, strict=True))


def figure(name: str, file: str, right: str, wrong: str, *tests: str) -> Mutant:
    """Return a mutant with a wrong figure in a file below `threadline/`."""
    return Mutant(f"figures: {name}", f"threadline/{file}", right, wrong, tests)


BUG_BOT = [
    figure(
        "a question to the reporter waits for three hours instead of two",
        "cases/model.py",
        "reporter_timeout: float = 2 * 3600",
        "reporter_timeout: float = 3 * 3600",
        f"{DEFAULT}[a question's time]",
        f"{CASES}::test_unanswered_question_leads_to_a_turn_that_may_not_ask",
    ),
    figure(
        "findings wait for 24 hours instead of 48",
        "cases/model.py",
        "developer_timeout: float = 48 * 3600",
        "developer_timeout: float = 24 * 3600",
        f"{DEFAULT}[a finding's time]",
        f"{CASES}::test_silence_of_developers_resolves_after_48_hours",
    ),
    figure(
        "by default a question to the reporter waits for three hours",
        "settings.py",
        "reporter_timeout: Seconds = 2 * 3600",
        "reporter_timeout: Seconds = 3 * 3600",
        f"{DEFAULT}[a question's time as set]",
    ),
    figure(
        "by default findings wait for 24 hours",
        "settings.py",
        "developer_timeout: Seconds = 48 * 3600",
        "developer_timeout: Seconds = 24 * 3600",
        f"{DEFAULT}[a finding's time as set]",
    ),
]

COPILOT = [
    figure(
        "the loop asks for tools six times instead of five",
        "conversations/model/conversation.py",
        "DEFAULT_MAX_STEPS = 5",
        "DEFAULT_MAX_STEPS = 6",
        f"{REACT}::test_model_that_always_asks_for_tools_is_asked_for_words",
    ),
    figure(
        "a conversation asks for tools six times",
        "conversations/model/conversation.py",
        "max_steps: int = DEFAULT_MAX_STEPS",
        "max_steps: int = DEFAULT_MAX_STEPS + 1",
        f"{DEFAULT}[steps]",
    ),
    figure(
        "by default a conversation asks for tools six times",
        "settings.py",
        "conversation_max_steps: int = Field(5,",
        "conversation_max_steps: int = Field(6,",
        f"{DEFAULT}[steps as set]",
    ),
    figure(
        "the last call of a turn may ask for tools",
        "conversations/turn.py",
        "self.answer_of(await self.ask(ToolChoice.NONE))",
        "self.answer_of(await self.ask(ToolChoice.AUTO))",
        f"{REACT}::test_model_that_always_asks_for_tools_is_asked_for_words",
    ),
    figure(
        "the request of the last call of a turn allows tools",
        "conversations/think.py",
        "        request.choice,\n        tight=tight,",
        '        type(request.choice)("auto"),\n        tight=tight,',
        f"{TURN}::test_last_call_of_a_turn_shows_the_tools_and_forbids_them",
    ),
    figure(
        "a request to the Responses API does not forbid tools",
        "models/responses.py",
        'asked["tool_choice"] = prompt.tool_choice.value',
        'asked["tool_choice"] = "auto"',
        "tests/models/test_answers.py::test_responses_request_has_what_the_dialogue_needs",
    ),
    figure(
        "a request to the chat API does not forbid tools",
        "models/chat_completions.py",
        'asked["tool_choice"] = prompt.tool_choice.value',
        'asked["tool_choice"] = "auto"',
        "tests/models/test_answers.py::test_chat_request_forbids_tools_where_the_prompt_does",
    ),
    figure(
        "the model reads 21 messages",
        "models/model.py",
        "MESSAGES = 20\n",
        "MESSAGES = 21\n",
        WINDOW,
    ),
    figure(
        "the model reads 15 messages",
        "models/model.py",
        "MESSAGES = 20\n",
        "MESSAGES = 15\n",
        FITS,
    ),
]

SLACK_BOT = [
    figure(
        "the eleventh request of a minute is answered",
        "db/rate_limits.py",
        "Rate(10, 60.0)",
        "Rate(11, 60.0)",
        THROTTLE,
    ),
    figure(
        "a minute has 59 seconds",
        "db/rate_limits.py",
        "Rate(10, 60.0)",
        "Rate(10, 59.0)",
        THROTTLE,
    ),
    figure(
        "the same words are no duplicate after 119 seconds",
        "conversations/store/messages.py",
        "_SAME_WITHIN = 120",
        "_SAME_WITHIN = 119",
        f"{PROPERTIES}::test_property_10_same_words_within_120_seconds_are_a_duplicate",
    ),
    figure(
        "an answer has 2,001 characters",
        "conversations/model/answers.py",
        "LIMIT = 2_000\n",
        "LIMIT = 2_001\n",
        f"{PROPERTIES}::"
        "test_property_9_answer_has_at_most_2000_characters_unless_details_are_asked_for",
    ),
    figure(
        "waits after a rate limit grow by half",
        "models/errors.py",
        "wait = max(2.0 **",
        "wait = max(1.5 **",
        f"{PROPERTIES}::"
        "test_property_11_wait_after_a_rate_limit_is_2_to_the_attempt_or_the_servers",
        LIMITED,
    ),
    figure(
        "a rate-limited model is called again four times",
        "conversations/contract.py",
        "retry=retry_policy(2, 60, attempts=4)",
        "retry=retry_policy(2, 60, attempts=5)",
        LIMITED,
    ),
    figure(
        "a rate-limited model is called again twice",
        "conversations/contract.py",
        "retry=retry_policy(2, 60, attempts=4)",
        "retry=retry_policy(2, 60, attempts=3)",
        LIMITED,
    ),
    figure(
        "a tool is tried four times",
        "conversations/contract.py",
        "retry=retry_policy(1, 20, attempts=3), heartbeat",
        "retry=retry_policy(1, 20, attempts=4), heartbeat",
        TRIED,
    ),
    figure(
        "a tool is tried again at once",
        "conversations/contract.py",
        "retry=retry_policy(1, 20, attempts=3), heartbeat",
        "retry=retry_policy(0.2, 20, attempts=3), heartbeat",
        TRIED,
    ),
    figure(
        "the waits between tries do not double",
        "threads/activity_options.py",
        "backoff_coefficient=2.0",
        "backoff_coefficient=1.0",
        TRIED,
    ),
    figure(
        "a conversation is kept for 60 days",
        "settings.py",
        "conversation_retention_days: float = Field(90,",
        "conversation_retention_days: float = Field(60,",
        f"{DEFAULT}[memory]",
    ),
    figure(
        "a silent conversation's workflow ends after 12 hours",
        "conversations/model/conversation.py",
        "idle_timeout: float = 24 * 3600",
        "idle_timeout: float = 12 * 3600",
        f"{DEFAULT}[silence]",
        f"{TALK}::test_silence_ends_the_run_and_the_next_message_starts_another",
    ),
    figure(
        "by default a silent conversation's workflow ends after 12 hours",
        "settings.py",
        "conversation_idle_timeout: Seconds = 24 * 3600",
        "conversation_idle_timeout: Seconds = 12 * 3600",
        f"{DEFAULT}[silence as set]",
    ),
    figure(
        "a tool's name has 120 characters",
        "tools/registry.py",
        "MAX_NAME_LENGTH = 100",
        "MAX_NAME_LENGTH = 120",
        "tests/conversations/test_replies_rules.py::test_workflow_gets_the_beginning_of_a_reply_and_no_arguments",
    ),
]

DECISIONS = [
    *(
        figure(
            f"the weights are {', '.join(map(str, wrong))}",
            "decisions/model.py",
            weights(0.3, 0.2, 0.3, 0.2),
            weights(*wrong),
            FLOWS,
        )
        for wrong in (
            (0.2, 0.3, 0.3, 0.2),
            (0.3, 0.3, 0.2, 0.2),
            (0.3, 0.2, 0.2, 0.3),
            (0.4, 0.2, 0.3, 0.1),
        )
    ),
    figure(
        "a contradiction takes less than half",
        "decisions/model.py",
        "CONFLICT_FACTOR = 0.5",
        "CONFLICT_FACTOR = 0.6",
        f"{CONFIDENCE}::test_conflict_and_failed_retrieval_lower_confidence[conflict-0.5]",
    ),
    figure(
        "a failed retrieval leaves 0.8 of the confidence",
        "decisions/model.py",
        "NO_RETRIEVAL_FACTOR = 0.7",
        "NO_RETRIEVAL_FACTOR = 0.8",
        f"{CONFIDENCE}::test_conflict_and_failed_retrieval_lower_confidence[retrieval_failed-0.7]",
    ),
    figure(
        "high confidence begins at 0.8",
        "decisions/model.py",
        "high: float = 0.75",
        "high: float = 0.8",
        THRESHOLD,
    ),
    figure(
        "low confidence is below 0.4",
        "decisions/model.py",
        "low: float = 0.5",
        "low: float = 0.4",
        THRESHOLD,
    ),
    figure(
        "by default high confidence begins at 0.8",
        "settings.py",
        "decision_high: float = Field(0.75,",
        "decision_high: float = Field(0.8,",
        f"{DEFAULT}[high]",
    ),
    figure(
        "by default low confidence is below 0.4",
        "settings.py",
        "decision_low: float = Field(0.5,",
        "decision_low: float = Field(0.4,",
        f"{DEFAULT}[low]",
    ),
    figure(
        "an escalation is stored with a confidence of 0.5",
        "decisions/model.py",
        "ESCALATION_CAP = 0.35",
        "ESCALATION_CAP = 0.5",
        f"{DECISION}::test_example_flows_end_as_in_the_design",
        f"{DECISION}::test_escalation_is_always_below_one_half",
    ),
    figure(
        "a decision is made with three messages",
        "decisions/model.py",
        "RECENT_MESSAGES = 5",
        "RECENT_MESSAGES = 3",
        "tests/decisions/test_decide_activities.py::test_decision_is_made_with_the_last_five_messages",
    ),
    figure(
        "a threat to sue is not handed over",
        "decisions/model.py",
        '    "sue": r"su(?:e|es|ed|ing)",\n',
        "",
        "tests/decisions/test_sensitive_topics_rules.py::test_topic_is_found_in_each_inflection[sue]",
    ),
    figure(
        "the success of tools is one half if none ran",
        "decisions/model.py",
        "return 1.0 if succeeded + failed == 0",
        "return 0.5 if succeeded + failed == 0",
        f"{CONFIDENCE}::test_tool_success_is_the_share_that_succeeded_and_1_without_any",
    ),
    figure(
        "a confidence of 2 is valid",
        "decisions/model.py",
        "        if not 0 <= value <= 1:\n            problems",
        "        if not 0 <= value <= 2:\n            problems",
        f"{DECISION}::test_numbers_outside_0_and_1_are_problems",
    ),
    figure(
        "a failed answer does not announce the handover to a person",
        "conversations/model/answers.py",
        '    "I have handed it over to a person on the team, with the conversation so far. "\n',
        '    "I have failed. "\n',
        "tests/decisions/test_decision_texts_rules.py::test_failed_answer_is_admitted_and_handed_to_a_team_member",
    ),
]

OPERATOR = [
    figure(
        "a question has 4,000 characters",
        "operator/model/routing.py",
        "MAX_QUESTION = 5_000",
        "MAX_QUESTION = 4_000",
        "tests/operator/test_message_rules.py::test_long_question_is_cut_at_a_word",
    ),
    figure(
        "three tool patterns are recalled",
        "operator/memory.py",
        "MAX_PATTERNS = 5",
        "MAX_PATTERNS = 3",
        "tests/operator/test_memory_rules.py::test_patterns_are_five_at_most_without_removed_tools",
    ),
    figure(
        "an analysis has five sentences",
        "operator/prompt.py",
        "MAX_SENTENCES = 4",
        "MAX_SENTENCES = 5",
        "tests/operator/test_prompt_rules.py::test_analysis_keeps_at_most_four_sentences",
    ),
    figure(
        "the operator asks for tools nine times instead of eight",
        "operator/model/protocol.py",
        "MAX_STEPS = 8",
        "MAX_STEPS = 9",
        "tests/operator/test_turn_start_activities.py::test_rfp_of_the_message_goes_before_that_of_the_thread",
    ),
]

MUTANTS: list[Mutant] = [*BUG_BOT, *COPILOT, *SLACK_BOT, *DECISIONS, *OPERATOR]
