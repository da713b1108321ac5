"""What is said in Slack: nothing lost, nothing too long, nobody called by mistake."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.cases.model import Severity
from threadline.slack import formatting
from threadline.slack.formatting import Evidence, Findings, Rendered

BROADCAST = re.compile(r"<!|<@|(?<![\w.])@(?:channel|here|everyone|group)\b", re.IGNORECASE)
FENCE = re.compile(r"`{3,}\w*")

TOKENS = [
    "<",
    "<!",
    "!channel>",
    "<!here>",
    "<@U1>",
    "<@U2|bo>",
    "<!subteam^S1|@all>",
    "@",
    "channel",
    "here",
    " ",
    "\n",
]
hostile = st.lists(st.sampled_from([*TOKENS, "@Everyone", "&lt;", "<b>", "|", ">"]) | st.text(max_size=3)).map("".join)
prose = st.text(st.characters(codec="utf-8", exclude_characters="`~"), max_size=2_000)
code = st.lists(st.sampled_from(["```", "```python", "~~~~", "\n", "\n\n", " ", "x = 1", "word" * 40, "- a", "`"])).map(
    "".join
)

FOUND = Findings(
    bug_id="BUG-12",
    title="Uploads fail & <!channel> is told",
    severity=Severity.S2,
    confidence=0.8,
    summary="Files over 5 MB fail. cc <@U9>, <@U1>",
    root_cause="The limit is read as bytes:\n```python\nif size < LIMIT:",
    turn=3,
    cost_usd=0.417,
    reported_by="U1",
    evidence=(Evidence("app/up`load.py", 42, "the\ncomparison"),),
    recommended_actions=("Read it as MB.", "Add a test."),
    components=("upload", "api"),
    pull_request="https://code.example/pr/7?a=1&b=2",
)


def test_escape_covers_slacks_three_characters() -> None:
    assert formatting.escape("a < b && c > d") == "a &lt; b &amp;&amp; c &gt; d"


@pytest.mark.parametrize(
    "text",
    [
        "<!channel>",
        "<!here|here>",
        "<!everyone>",
        "<!subteam^S1|@all>",
        "<!<!here>channel>",
        "<@U2>",
        "<@U2|bo>",
        "@channel",
    ],
)
def test_a_text_that_is_not_ours_calls_nobody(text: str) -> None:
    assert not BROADCAST.search(formatting.neutralise(text, {"U1"}))


def test_an_allowed_user_stays_called_and_addresses_stay_whole() -> None:
    text = "<@U1|ann> see bob@here.com, > quote, https://x.example/?a=1&b=2"
    assert formatting.neutralise(text, {"U1"}) == "<@U1> see bob@here.com, > quote, https://x.example/?a=1&b=2"


@given(hostile)
def test_no_live_call_survives_and_the_second_time_changes_nothing(text: str) -> None:
    once = formatting.neutralise(text, {"U1"})
    assert not BROADCAST.search(once.replace("<@U1>", ""))
    assert formatting.neutralise(once, {"U1"}) == once


@given(prose, st.integers(100, 300))
def test_nothing_is_lost_by_splitting(text: str, limit: int) -> None:
    pieces = formatting.split_markdown(text, limit)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(0 < len(piece) <= limit for piece in pieces)


@given(code, st.integers(100, 300))
def test_every_piece_is_within_the_limit_whatever_the_fences(text: str, limit: int) -> None:
    assert all(0 < len(piece) <= limit for piece in formatting.split_markdown(text, limit))


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), min_size=1, max_size=12), st.integers(100, 400))
def test_code_is_code_in_every_piece_and_prose_is_not(plan: list[tuple[bool, int]], limit: int) -> None:
    words = (f"{'c' if is_code else 'p'}{number}" for number, (is_code, count) in enumerate(plan) for _ in range(count))
    chapters = [(is_code, "\n".join(next(words) + "-" * 9 for _ in range(count))) for is_code, count in plan]
    text = "\n\n".join(f"```python\n{body}\n```" if is_code else body for is_code, body in chapters)
    seen: list[str] = []
    for piece in formatting.split_markdown(text, limit):
        inside = False
        for line in piece.split("\n"):
            if FENCE.fullmatch(line):
                inside = not inside
            elif line:
                assert line.startswith("c" if inside else "p")
                seen.append(line)
        assert not inside
    assert seen == [line for _, body in chapters for line in body.split("\n")]


def test_it_is_cut_at_a_paragraph_then_a_line_then_a_word() -> None:
    paragraphs = "a" * 60 + "\n\n" + "b" * 20 + "\n" + "c" * 60
    assert formatting.split_markdown(paragraphs, 120) == ["a" * 60, "b" * 20 + "\n" + "c" * 60]
    assert formatting.split_markdown("a" * 60 + "\n" + "b c " * 20, 120)[0] == "a" * 60
    assert formatting.split_markdown("word " * 40, 100)[0].endswith("word")


def test_indentation_of_code_survives_the_cut() -> None:
    pieces = formatting.split_markdown("```\n" + "\n".join("    deep()" for _ in range(40)) + "\n```", 100)
    assert all(line == "    deep()" for piece in pieces for line in piece.split("\n")[1:-1])


def test_a_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 100"):
        formatting.split_markdown("x", 99)


def test_findings_hold_all_that_was_found_and_call_the_reporter_alone() -> None:
    (message,) = formatting.findings(FOUND)
    head, body, foot = message.blocks
    assert head["text"]["text"].startswith("*BUG-12: Uploads fail &amp; &lt;!channel&gt; is told*\nSeverity S2")
    assert "confidence 80%" in head["text"]["text"]
    assert "components upload, api" in head["text"]["text"]
    assert "<@U1>" in head["text"]["text"]
    assert body["type"] == "markdown"
    assert "&lt;@U9>, <@U1>" in body["text"]
    assert "if size &lt; LIMIT:\n```\n\n## Evidence\n\n- `app/up'load.py:42`: the comparison" in body["text"]
    assert "1. Read it as MB.\n2. Add a test." in body["text"]
    assert foot["elements"][0]["text"] == "Turn 3 · $0.42 · <https://code.example/pr/7?a=1&amp;b=2|Pull request>"
    assert not BROADCAST.search(message.text)


@given(st.integers(1, 40_000), st.sampled_from(["x", "& ", "<!channel> ", "```\n", "a\n\n"]))
def test_every_part_of_findings_is_within_slacks_limits(length: int, filling: str) -> None:
    text = filling * (length // len(filling))
    long = replace(FOUND, title=text, summary=text, root_cause=text, components=(text,))
    for part in formatting.findings(long):
        _check(part)


def test_parts_are_numbered_and_framed_once() -> None:
    parts = formatting.findings(replace(FOUND, summary="word " * 6_000))
    kinds = [[block["type"] for block in part.blocks] for part in parts]
    assert kinds == [["section", "markdown"], ["markdown"], ["markdown", "context"]]
    assert [part.text.split("\n")[0][-5:] for part in parts] == ["(1/3)", "(2/3)", "(3/3)"]


def test_a_question_calls_the_reporter_whatever_the_agent_writes() -> None:
    (asked,) = formatting.question("BUG-12", "U1", "Which browser, <@U2>? <!here>")
    assert asked.blocks[0]["text"]["text"] == "<@U1> *A question about BUG-12*"
    assert asked.blocks[1]["text"] == "Which browser, &lt;@U2>? &lt;!here>"
    assert asked.text == "<@U1> A question about BUG-12\nWhich browser, &lt;@U2&gt;? &lt;!here&gt;"


def test_a_notice_calls_whom_it_is_told_to_and_may_be_a_headline_alone() -> None:
    (called,) = formatting.notice("It is **late**.", mentions=("S1", "U1"))
    assert called.blocks[0]["text"]["text"] == "<!subteam^S1> <@U1>"
    (bare,) = formatting.notice("", headline="Done")
    assert [block["type"] for block in bare.blocks] == ["section"]
    assert bare.text == "Done"


def test_what_is_no_id_is_never_a_mention() -> None:
    assert formatting.mention("!channel") == "!channel"
    assert formatting.mention("U1> <!here") == "U1&gt; &lt;!here"


def _check(part: Rendered) -> None:
    assert 0 < len(part.text) <= formatting.TEXT_LIMIT
    markdown = [block["text"] for block in part.blocks if block["type"] == "markdown"]
    others = [block["text"]["text"] for block in part.blocks if block["type"] == "section"]
    assert all(0 < len(text) <= 12_000 for text in markdown)
    assert all(0 < len(text) <= 3_000 for text in others)
    assert sum(map(len, markdown)) + sum(map(len, others)) < 13_000
    assert not re.search(r"<!|<@(?!U1>)", part.text + "".join(markdown) + "".join(others))


def test_a_key_that_is_longer_than_a_message_is_recognised_before_the_text_is_cut() -> None:
    key = "-----BEGIN " + "PRIVATE KEY-----\n" + ("aB3d" * 16 + "\n") * 250 + "-----END PRIVATE KEY-----"
    [said] = formatting.notice(f"the key is\n{key}\nreally")
    assert "aB3d" not in f"{said.text} {said.blocks}"
    assert "[redacted: private key]" in said.text
    found = formatting.findings(replace(FOUND, title=f"x {key}", root_cause=f"see {key}"))
    assert "aB3d" not in str(found)
