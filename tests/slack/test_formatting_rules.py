"""What is said in Slack: nothing lost, nothing too long, nobody called by mistake."""

import re
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from threadline.cases.model import Severity
from threadline.slack import formatting
from threadline.slack.formatting import Evidence, Findings

BROADCAST = re.compile(r"<!|<@|(?<![\w.])@(?:channel|here|everyone|group)\b", re.IGNORECASE)

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


def test_allowed_user_is_called_and_addresses_stay_whole() -> None:
    text = "<@U1|ann> see bob@here.com, > quote, https://x.example/?a=1&b=2"
    assert formatting.neutralise(text, {"U1"}) == "<@U1> see bob@here.com, > quote, https://x.example/?a=1&b=2"


@given(hostile)
@example("<!<!here>channel> <!subteam^S1|@all> <@U2|bo> @channel")
def test_neutralised_text_calls_nobody_and_stays_the_same(text: str) -> None:
    once = formatting.neutralise(text, {"U1"})
    assert not BROADCAST.search(once.replace("<@U1>", ""))
    assert formatting.neutralise(once, {"U1"}) == once


def test_findings_hold_all_fields_and_call_the_reporter_alone() -> None:
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
def test_every_part_of_findings_is_within_the_limits(length: int, filling: str) -> None:
    text = filling * (length // len(filling))
    long = replace(FOUND, title=text, summary=text, root_cause=text, components=(text,))
    for part in formatting.findings(long):
        assert 0 < len(part.text) <= formatting.TEXT_LIMIT
        markdown = [block["text"] for block in part.blocks if block["type"] == "markdown"]
        others = [block["text"]["text"] for block in part.blocks if block["type"] == "section"]
        assert all(0 < len(text) <= 12_000 for text in markdown)
        assert all(0 < len(text) <= 3_000 for text in others)
        assert sum(map(len, markdown)) + sum(map(len, others)) < 13_000
        assert not re.search(r"<!|<@(?!U1>)", part.text + "".join(markdown) + "".join(others))


def test_parts_are_numbered_and_framed_once() -> None:
    parts = formatting.findings(replace(FOUND, summary="word " * 6_000))
    kinds = [[block["type"] for block in part.blocks] for part in parts]
    assert kinds == [["section", "markdown"], ["markdown"], ["markdown", "context"]]
    assert [part.text.split("\n")[0][-5:] for part in parts] == ["(1/3)", "(2/3)", "(3/3)"]


def test_question_calls_the_reporter_alone() -> None:
    (asked,) = formatting.question("BUG-12", "U1", "Which browser, <@U2>? <!here>")
    assert asked.blocks[0]["text"]["text"] == "<@U1> *A question about BUG-12*"
    assert asked.blocks[1]["text"] == "Which browser, &lt;@U2>? &lt;!here>"
    assert asked.text == "<@U1> A question about BUG-12\nWhich browser, &lt;@U2&gt;? &lt;!here&gt;"


def test_notice_calls_its_mentions_and_may_be_a_headline_alone() -> None:
    (called,) = formatting.notice("It is **late**.", mentions=("S1", "U1"))
    assert called.blocks[0]["text"]["text"] == "<!subteam^S1> <@U1>"
    (bare,) = formatting.notice("", headline="Done")
    assert [block["type"] for block in bare.blocks] == ["section"]
    assert bare.text == "Done"


def test_text_that_is_no_id_is_no_mention() -> None:
    assert formatting.mention("!channel") == "!channel"
    assert formatting.mention("U1> <!here") == "U1&gt; &lt;!here"


def test_secret_longer_than_a_message_is_redacted_before_the_cut() -> None:
    key = "-----BEGIN " + "PRIVATE KEY-----\n" + ("aB3d" * 16 + "\n") * 250 + "-----END PRIVATE KEY-----"
    [said] = formatting.notice(f"the key is\n{key}\nreally")
    assert "aB3d" not in f"{said.text} {said.blocks}"
    assert "[redacted: private key]" in said.text
    found = formatting.findings(replace(FOUND, title=f"x {key}", root_cause=f"see {key}"))
    assert "aB3d" not in str(found)
