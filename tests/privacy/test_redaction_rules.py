"""Secrets are redacted, innocent text is not, and no text takes long."""

import importlib
import inspect
import pkgutil
import re
import statistics
import time
from dataclasses import replace
from pathlib import Path

import detect_secrets.plugins
import pytest
from detect_secrets.plugins.base import BasePlugin
from hypothesis import given
from hypothesis import strategies as st

from tests.privacy.innocent_corpus import INNOCENT
from tests.privacy.secrets_corpus import SECRETS, Secret
from threadline.privacy.redaction import redact, redact_value
from threadline.privacy.secret_rules import _DETECTOR, RULES, SHAPES
from threadline.slack.formatting import redact_files
from threadline.slack.model import FileRef

NOT_USED = {
    "Base64HighEntropyString": (
        "hits hashes, identifiers and the names of images, which a bug report is full of"
    ),
    "HexHighEntropyString": "hits commits, digests and trace ids",
    "IPPublicDetector": "an address is no secret, and often what the bug is about",
    "KeywordDetector": (
        "hits labels of forms and lines of code, one a line; the rules by words have its keywords"
    ),
    "JwtTokenDetector": "takes quadratic time on a hostile text; ours finds the same",
    "OpenAIDetector": "takes quadratic time on a hostile text; ours finds the same",
    "NpmDetector": (
        "takes quadratic time on a hostile text; ours finds the same, and the bare token"
    ),
    "PrivateKeyDetector": "finds the first line of a key alone; ours takes the key",
    "CloudantDetector": "takes quadratic time on spaces; the words around such a key say the same",
    "IbmCloudIamDetector": (
        "takes quadratic time on spaces; the words around such a key say the same"
    ),
    "IbmCosHmacDetector": (
        "takes quadratic time on spaces; the words around such a key say the same"
    ),
    "SoftlayerDetector": (
        "takes quadratic time on spaces; the words around such a key say the same"
    ),
}
"""The detector's unused plugins, each with its reason."""
UNKNOWN = (
    "only letters, in a sentence",
    "only letters, under a plain name",
    "only letters, with blanks around the sign",
    "only letters, as an argument",
    "only letters, a token",
    "only letters, joined by a line",
    "a passphrase of words",
    "without any word that says so",
    "a session's id, as a column",
    "Datadog, bare hexadecimal",
)
"""Secrets that the rules miss, as listed in docs/security.md."""
_SEEN = 6
"""Number of successive characters of a secret that must not survive."""


def leaks(secret: Secret) -> bool:
    left = redact(secret.text)
    value = secret.value
    return any(value[at : at + _SEEN] in left for at in range(max(1, len(value) - _SEEN + 1)))


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret.kind)
def test_secret_of_known_format_is_replaced_by_its_mark(secret: Secret) -> None:
    assert leaks(secret) == (secret.kind in UNKNOWN)
    if secret.kind not in UNKNOWN:
        before, after = secret.text.split(secret.value, maxsplit=1)
        left = redact(secret.text)
        assert re.fullmatch(
            re.escape(redact(before)) + r"\[redacted: [\w .]+\]" + re.escape(after), left
        ), left


WRAPPERS = ("_{}_", "started\\n{}", "https://shop.invalid/?next=%3D{}", "dump-{}.txt", "x_{}")
"""Slack's italics, a log line's escaped line break, an address, a file's name, a name in code."""
_AMBIGUOUS = {("Mailgun", "dump-{}.txt"), ("Mailgun", "x_{}")} | {
    (kind, "dump-{}.txt") for kind in ("Spring, as YAML", "properties", "client secret of letters")
}
"""Keys of a cache look like the first, code the others: `password=args.password`."""


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_secret_is_found_in_any_surroundings(wrapper: str) -> None:
    """The bare value where its form is enough, otherwise with the words that mark it as a
    secret.
    """
    missed = []
    for secret in SECRETS:
        if secret.kind in UNKNOWN or (secret.kind, wrapper) in _AMBIGUOUS:
            continue
        bare = replace(secret, text=secret.value)
        shown = bare if not leaks(bare) else secret
        if leaks(replace(shown, text=wrapper.format(shown.text))):
            missed.append(secret.kind)
    assert missed == []


def test_text_between_first_and_last_line_of_a_key_stays() -> None:
    begin = "-----BEGIN RSA " + "PRIVATE KEY-----"
    end = "-----END {}-----"
    steps = " as the first line. Steps: open Settings, upload the file, press Save. It ends with "
    for last in ("CERTIFICATE", "RSA " + "PRIVATE KEY"):
        text = f"Expected {begin}{steps}{end.format(last)}, and it does not"
        assert redact(text) == text


def test_secret_is_found_after_letters_with_longer_lower_case() -> None:
    assert "hunter2" not in redact(
        "\u0130\u0130\u0130 \u0130stanbul: my password is hunter2, look"
    )


@pytest.mark.parametrize("text", INNOCENT)
def test_text_of_bug_reports_is_not_changed(text: str) -> None:
    assert redact(text) == text


def test_figures_in_the_document_are_those_of_the_corpus() -> None:
    told = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    missed = sum(leaks(secret) for secret in SECRETS)
    changed = sum(redact(text) != text for text in INNOCENT)
    assert len(SECRETS) >= 60
    assert len(INNOCENT) >= 200
    assert (
        f"| secrets of known formats | {len(SECRETS)} | {missed} missed "
        f"({missed / len(SECRETS):.1%}) |"
    ) in told
    assert (
        f"| innocent texts | {len(INNOCENT)} | {changed} changed ({changed / len(INNOCENT):.1%}) |"
        in told
    )


def test_each_rule_of_our_own_finds_a_secret() -> None:
    for rule in SHAPES:
        assert any(rule.apply(secret.text) != secret.text for secret in SECRETS), (
            rule.kind,
            rule.hints,
        )


def test_each_rules_hints_are_in_its_findings() -> None:
    for rule in RULES:
        for text in (*(secret.text for secret in SECRETS), *INNOCENT):
            if rule.apply(text) != text:
                assert any(
                    hint in (text.lower() if rule.folds else text) for hint in rule.hints
                ), (
                    rule.kind,
                    text,
                )


def test_each_plugin_of_the_detector_is_used_or_left_out() -> None:
    """A new plugin in a release fails this test until it is judged."""
    found = {
        name
        for module in pkgutil.iter_modules(detect_secrets.plugins.__path__)
        for name, plugin in vars(
            importlib.import_module(f"detect_secrets.plugins.{module.name}")
        ).items()
        if inspect.isclass(plugin)
        and issubclass(plugin, BasePlugin)
        and isinstance(plugin.secret_type, str)
    }
    assert {plugin.__name__ for plugin, *_ in _DETECTOR} | set(NOT_USED) == found


_PIECES = st.sampled_from(
    [
        *(secret.text for secret in SECRETS),
        *(secret.value for secret in SECRETS),
        *(
            "password=",
            "password is ",
            "token: ",
            "://a:",
            "@",
            "[redacted: ",
            "[redacted: password]",
            "]",
            " ",
            "\n",
        ),
        *(
            "'",
            '"',
            "`",
            "&amp;",
            "<",
            ">",
            ";",
            "--",
            "-----BEGIN ",
            "PRIVATE KEY-----",
            "eyJ",
            "sk-",
            "\ud800",
            "\x00",
        ),
    ]
)
texts = st.lists(_PIECES | st.text(max_size=8), max_size=12).map("".join)


@given(texts)
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


HOSTILE = (
    *(
        "-eyJ",
        "eyJa_eyJ",
        "sk-ant-",
        "%3D",
        "\\n",
        "x_npm_",
        "pypi-a",
        "password=a-",
        "basic YT",
        "a",
        " ",
        "-",
        "@",
    ),
    *(
        "_",
        "?",
        "\n",
        "eyJ",
        "sk-",
        "sk-a",
        "ghp_",
        "gl",
        "glagent-",
        "npm_",
        "xoxb-1-",
        "AC",
        "1",
        "11:",
        "12345678:",
    ),
    *(
        "://",
        "://a:",
        "://a:b@",
        "https://aaaaaaaaaaaaaaaaaaaa",
        "password",
        "password=",
        "pass: user",
        "password=[",
    ),
    *(
        "password=&amp;",
        "password is ",
        "password of a b c ",
        "password" + " " * 40,
        "token is",
        "api_key",
        "aws key ",
    ),
    *(
        "authorization: bearer ",
        "cookie: ",
        "cookie: a=b;",
        "curl -u ",
        "mysql -",
        "sshpass ",
        "user pass: ",
    ),
    *(
        "-----BEGIN RSA PRIVATE KEY----- Version: ",
        "-----BEGIN RSA PRIVATE KEY-----\\n\\",
        "Comment: a ",
    ),
    *(
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----" + "A" * 30,
        "Private-Lines: 1 " + "A" * 20,
    ),
    *(
        "AKIA" + "A" * 16 + " ",
        "M" * 24 + ".",
        "?a",
        ";password",
        "&token=",
        "A_",
        "PASSWORD",
        " APA12345678",
    ),
    *("<mailto:", "hooks.slack.com/services/", "[redacted: ", "SG.", "1//0", "8Q~", ".atlasv1."),
)


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("end", ["", "!", '"'])
def test_long_text_is_redacted_in_linear_time(unit: str, end: str) -> None:
    """Measures CPU seconds of this thread, independent of other processes; a quadratic rule takes
    many.
    """
    text = (unit * (40_000 // len(unit) + 1))[: 40_000 - len(end)] + end
    began = time.thread_time()
    redact(text)
    assert time.thread_time() - began < 0.8


def test_text_without_secrets_is_redacted_fast(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints the cost for texts of three lengths. A rule without hints exceeds the bound, a slow
    machine does not.
    """
    words = " ".join(text for text in INNOCENT if "\n" not in text)
    costs = {}
    for length in (200, 2_000, 40_000):
        text = (words * (length // len(words) + 1))[:length]
        taken = []
        for _ in range(20):
            began = time.thread_time()
            redact(text)
            taken.append(time.thread_time() - began)
        costs[length] = statistics.median(taken) * 1e6
    with capsys.disabled():
        print(  # noqa: T201 - the figure is the purpose
            "\nredaction, median µs by characters:",
            {length: round(cost) for length, cost in costs.items()},
        )
    assert costs[200] < 5_000


def test_file_names_are_redacted() -> None:
    token = "gh" + "p_" + "a1B2" * 9
    assert redact_files(
        (FileRef("F1", f"dump {token}.txt", "text/plain", 3), FileRef("F2", "a.png"))
    ) == (
        FileRef("F1", "dump [redacted: GitHub token].txt", "text/plain", 3),
        FileRef("F2", "a.png"),
    )


def test_value_of_any_depth_and_kind_is_redacted() -> None:
    token = "gh" + "p_" + "a1B2" * 9
    nested: list[object] = []
    for _ in range(100):
        nested = [nested, f"x {token}"]

    class Odd:
        def __repr__(self) -> str:
            return f"<Odd {token}>"

    value = redact_value(
        {"a": [token, 1, None, True, 2.5], token: {"b": (token,)}, "c": Odd(), "d": nested}
    )

    assert token not in repr(value)
    assert value["a"] == ["[redacted: GitHub token]", 1, None, True, 2.5]


def test_field_with_a_secret_name_is_redacted() -> None:
    assert redact_value({"BOT_TOKEN": "x", "password": ["y"], "token": 7, "author": "z"}) == {
        "BOT_TOKEN": "[redacted: secret]",
        "password": ["[redacted: secret]"],
        "token": 7,
        "author": "z",
    }
