"""The operator's system prompt: every section, the lasting parts first, and nothing that breaks out of its fence."""

from tests.operator.operating import THREAD, TOOLS
from threadline.operator import prompt as prompts
from threadline.operator.prompt import House, JobType, Runtime

HOUSE = House(TOOLS, [JobType("status_digest", "Posts a digest of the open RFPs to a channel.")])
RUNTIME = Runtime(THREAD, "U1", "T1:C1:1700000000.000100:3", "rfp_abc123")


def whole(**given: str) -> str:
    parts = {
        "patterns": "- update status: a → b",
        "analysis": "They want it changed.",
        "context": "<context>x</context>",
    }
    return prompts.assemble(HOUSE, RUNTIME, **(parts | given))


def test_every_section_is_there_with_what_is_given() -> None:
    told = whole()
    for section in (
        "- Read: opportunity_load, team_list",
        "- Scoped writes: opportunity_patch",
        "- Global: schedule_job",
        "- Speaking: slack_post_summary",
        "- Approval: propose_action",
        "# Past successful tool patterns\n<patterns>\n- update status: a → b\n</patterns>",
        "Available job types:\n- status_digest: Posts a digest",
        "- channel: C1\n- thread_ts: 1700000000.000100\n- slack_user_id: U1\n- rfp_id_scope: rfp_abc123\n"
        "- correlation_id: T1:C1:1700000000.000100:3",
        "<analysis>\nThey want it changed.\n</analysis>",
        "<context>x</context>",
    ):
        assert section in told


def test_without_a_scope_global_work_is_allowed() -> None:
    told = prompts.assemble(HOUSE, Runtime(THREAD, "U1", "corr"))
    assert "- rfp_id_scope: none - global operations allowed" in told


def test_what_is_not_there_has_no_heading() -> None:
    told = whole(patterns="", analysis="", context="")
    assert not [each for each in ("# Past", "# Analysis", "# Comprehensive") if each in told]


def test_all_turns_begin_with_the_same_bytes() -> None:
    lasting = prompts.fixed(HOUSE)
    other = prompts.assemble(HOUSE, Runtime(THREAD, "U2", "another"), analysis="Something else.")
    assert whole().startswith(lasting)
    assert other.startswith(lasting)
    assert "rfp_abc123" not in lasting
    assert len(lasting) > 4_000


def test_no_placeholder_is_left_and_a_dollar_in_what_people_say_is_none() -> None:
    assert "$" not in prompts.fixed(HOUSE)
    assert "$channel and ${oops}" in whole(context="$channel and ${oops}")


def test_a_house_without_tools_says_so() -> None:
    told = prompts.fixed(House(()))
    assert "- none: say what you would have looked up" in told
    assert "- none are set up here" in told


def test_a_bot_has_its_own_name() -> None:
    assert prompts.fixed(House((), bot_name="Polaris")).startswith("You are Polaris Operator")
