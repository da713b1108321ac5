"""The rules for secrets: some are recognised by their shape, others only by the words around them.

The shapes are those of detect-secrets, https://github.com/Yelp/detect-secrets, and our own. Only
the patterns of its plugins are used, not its handling of files, lines and networks, and twelve
plugins are not used at all: see tests/privacy/test_redaction_rules.py. People write about
passwords and tokens far more often than they write them down, so the value next to such a word
must look like a secret.
"""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from detect_secrets.plugins import (
    artifactory,
    aws,
    azure_storage_key,
    basic_auth,
    discord,
    github_token,
    gitlab_token,
    mailchimp,
    pypi_token,
    sendgrid,
    slack,
    square_oauth,
    stripe,
    telegram_token,
    twilio,
)

MARK = "[redacted: "
BEGIN = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"
    r"|(?<=\[\dm)|(?<=\[\d\dm))"
)
"""The beginning of a word; also after an escaped line break or character and a terminal's colour,
which end in a letter or digit.
"""


def always(_: str) -> bool:
    return True


def has_letters_and_digits(text: str) -> bool:
    """Whether it has letters and digits, as nearly every key and few words have."""
    return any(each.isdigit() for each in text) and any(each.isalpha() for each in text)


def looks_random(text: str) -> bool:
    """Whether it has capitals, small letters and digits: then it is neither a word nor a hash in
    hexadecimal.
    """
    return has_letters_and_digits(text) and text != text.lower() and text != text.upper()


_SMALL = {ord(each): each.lower() for each in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


@dataclass(frozen=True)
class SecretRule:
    """One kind of secret.

    Args:
        kind: the name in the mark.
        pattern: takes linear time on any text.
        hints: texts without which the pattern cannot match; the search for them is cheap and comes
            first. In lower case if the rule `folds`.
        group: the group of the pattern that is secret.
        accepts: refuses a value that only looks like a secret.
        folds: the hints are searched in the lower-cased text.
        lead: the start of the group that is not secret.
        trail: the characters at the end of the group that are not secret.
        anchor: a pattern for lower-cased text; the rule is tried only where it matches. Without
            it, a case-insensitive search for names would try every character.
    """

    kind: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    group: int = 0
    accepts: Callable[[str], bool] = always
    folds: bool = False
    lead: re.Pattern[str] | None = None
    trail: str = ""
    anchor: re.Pattern[str] | None = None

    def apply(self, text: str) -> str:
        """Return the text with a mark in place of each secret of this kind."""
        if self.anchor is None:
            return self.pattern.sub(self._replacement, text)
        pieces = []
        done = 0
        lowered = text.lower()
        # `lower` may change the length: İ becomes two characters
        if len(lowered) != len(text):
            lowered = text.translate(_SMALL)
        for at in self.anchor.finditer(lowered):
            if at.start() >= done and (match := self.pattern.match(text, at.start())):
                pieces += [text[done : match.start()], self._replacement(match)]
                done = match.end()
        return "".join((*pieces, text[done:]))

    def _replacement(self, match: re.Match[str]) -> str:
        whole = match[0]
        found = match[self.group]
        head = self.lead.match(found) if self.lead else None
        secret = found[head.end() if head else 0 :].rstrip(self.trail or None)
        if not secret or not self.accepts(secret):
            return whole
        start = match.start(self.group) - match.start() + (head.end() if head else 0)
        return f"{whole[:start]}{MARK}{self.kind}]{whole[start + len(secret) :]}"


# ---- Known by their shape

_DETECTOR: tuple[tuple[type[Any], str, tuple[str, ...], Callable[[str], bool]], ...] = (
    (artifactory.ArtifactoryDetector, "Artifactory key", ("AKC", "AP"), looks_random),
    (
        aws.AWSKeyDetector,
        "AWS key",
        ("A3T", "ABIA", "ACCA", "AKIA", "ASIA", "aws", "AWS", "Aws"),
        always,
    ),
    (azure_storage_key.AzureStorageKeyDetector, "Azure storage key", ("AccountKey=",), always),
    (basic_auth.BasicAuthDetector, "password", ("://",), always),
    (discord.DiscordBotTokenDetector, "Discord token", (".",), looks_random),
    (
        github_token.GitHubTokenDetector,
        "GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        always,
    ),
    (gitlab_token.GitLabTokenDetector, "GitLab token", ("gl", "GR1348941"), always),
    (mailchimp.MailchimpDetector, "Mailchimp key", ("-us",), has_letters_and_digits),
    (pypi_token.PypiTokenDetector, "PyPI token", ("pypi-",), always),
    (sendgrid.SendGridDetector, "SendGrid key", ("SG.",), always),
    (slack.SlackDetector, "Slack token", ("xox", "XOX", "hooks.slack.com"), always),
    (square_oauth.SquareOAuthDetector, "Square secret", ("sq0csp-",), always),
    (stripe.StripeDetector, "Stripe key", ("k_live_",), always),
    (telegram_token.TelegramBotTokenDetector, "Telegram token", (":",), has_letters_and_digits),
    (twilio.TwilioKeyDetector, "Twilio key", ("AC", "SK"), has_letters_and_digits),
)
_AROUND = re.compile(r'[\s=:"]*(?:AccountKey=)?')
"""Characters that some patterns of detect-secrets match before the secret."""
_SECRET_IN_GROUP = (aws.AWSKeyDetector, basic_auth.BasicAuthDetector)
"""In these two the group is the secret; in the others, groups are alternatives inside of it."""
VENDOR_SHAPES = tuple(
    SecretRule(
        kind,
        pattern,
        hints,
        pattern.groups if plugin in _SECRET_IN_GROUP else 0,
        accepts,
        lead=_AROUND,
        trail=' \t\r\n"',
    )
    for plugin, kind, hints, accepts in _DETECTOR
    for pattern in plugin.denylist
)


def _token(
    kind: str, body: str, *hints: str, accepts: Callable[[str], bool] = always
) -> SecretRule:
    """Return a rule for a token whose first letters, its hints, also end common words: the token
    must begin a word.
    """
    anchor = re.compile("|".join(re.escape(hint.lower()) for hint in hints))
    return SecretRule(kind, re.compile(BEGIN + body), hints, accepts=accepts, anchor=anchor)


def _prefixed(
    kind: str, body: str, *hints: str, accepts: Callable[[str], bool] = always
) -> SecretRule:
    """Return a rule for a token with a start that ends no word: it matches after any character.
    Time stays linear as long as a match fails within a few characters of its start, or consumes
    the whole run.
    """
    return SecretRule(kind, re.compile(body), hints, accepts=accepts)


_GAP = r"(?:[\s>\"'`,.|#*+/]|\\+[nrt]?|&(?:gt|amp|quot);)*+"
_PRIVATE_KEY = re.compile(
    # The first line, headers, lines of base64, and the last line if present: a text may have been
    # cut. The pattern crosses nothing else: words between two such lines are a person's own, and
    # many first lines must not each search the whole text.
    r"-----BEGIN [^-\n]{0,40}PRIVATE KEY[^-\n]{0,10}-----"
    rf"(?:{_GAP}(?:Proc-Type: ?4,ENCRYPTED|DEK-Info: ?[\w-]{{3,20}},[0-9A-Fa-f]{{8,64}}|"
    r"(?:Version|Comment|Hash|Charset): ?[^\n\\]{0,120}+)){0,6}+"
    rf"(?:{_GAP}[A-Za-z0-9+/=]{{24,}}+)++"
    rf"(?:(?:{_GAP}[A-Za-z0-9+/=]++){{0,2}}+{_GAP}-----END [^-\n]{{0,40}}PRIVATE "
    r"KEY[^-\n]{0,10}-----"
    rf"|{_GAP}[A-Za-z0-9+/=]++{_GAP}\Z)?+"
)
_AWS_SECRET = re.compile(
    r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z]).{0,160}?"
    r"(?<![A-Za-z0-9/+=])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    re.DOTALL,
)
_WEBHOOK = re.compile(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks|"
    r"webhook\.office\.com/webhookb2)/([\w/@.-]{20,})"
)
_TELEGRAM = re.compile(r"(?<![A-Za-z0-9_-])(?:bot)?\d{8,10}:([A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])")
_B = r"[A-Za-z0-9_-]"
_JWT = r"eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_=-]*+){0,4}+"

SHAPES: tuple[SecretRule, ...] = (
    SecretRule("private key", _PRIVATE_KEY, ("PRIVATE KEY",)),
    SecretRule(
        "private key",
        re.compile(r"(?<=Private-Lines: )\d+\s++((?:[A-Za-z0-9+/=]{20,}+\s*+)++)"),
        ("Private-Lines",),
        1,
    ),
    _prefixed("private key", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}", "AGE-SECRET-KEY-1"),
    SecretRule("AWS secret key", _AWS_SECRET, ("AKIA", "ASIA"), 1, looks_random),
    SecretRule("webhook", _WEBHOOK, ("hooks.slack.com", "api/webhooks", "webhook.office.com"), 1),
    # A run without a dot is matched as well, and rejected: else each start in it would search the
    # rest of the run.
    _token("JSON Web Token", _JWT, "eyJ", accepts=lambda text: "." in text),
    _prefixed("JSON Web Token", _JWT, "eyJ", accepts=lambda text: ".eyJ" in text),
    _prefixed("Anthropic key", rf"sk-ant-{_B}{{16,}}", "sk-ant-", accepts=looks_random),
    _prefixed("API key", rf"sk-proj-{_B}{{20,}}", "sk-proj-", accepts=looks_random),
    _token("API key", rf"sk-{_B}{{20,}}", "sk-", accepts=looks_random),
    _token("API key", r"sk-[a-f0-9]{32,}", "sk-"),
    _token("Slack token", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9%/+=-]{8,}", "xox"),
    _prefixed("Slack token", r"xapp-\d-[A-Za-z0-9-]{10,}", "xapp-"),
    _prefixed("GitHub token", r"gh[oprsu]_[A-Za-z0-9]{20,}", "gh"),
    _prefixed("GitHub token", r"github_pat_[A-Za-z0-9_]{20,}", "github_pat_"),
    _token(
        "GitLab token",
        rf"(?:gl[a-z]{{2,6}}-|GR1348941){_B}{{20,}}",
        "gl",
        "GR1348941",
        accepts=looks_random,
    ),
    _prefixed("Google key", rf"AIza{_B}{{30,}}", "AIza"),
    _prefixed("Google token", r"ya29\.[A-Za-z0-9._-]{20,}", "ya29."),
    _prefixed("Google secret", rf"GOCSPX-{_B}{{20,}}", "GOCSPX-"),
    _token("Google token", rf"1//0{_B}{{30,}}", "1//0"),
    _prefixed("npm token", r"npm_[A-Za-z0-9]{30,}", "npm_"),
    _prefixed("PyPI token", rf"pypi-{_B}{{50,}}", "pypi-", accepts=looks_random),
    _prefixed("RubyGems key", r"rubygems_[0-9a-f]{40,}", "rubygems_"),
    _token("crates.io token", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])", "cio", accepts=looks_random),
    _token("Artifactory key", r"AKC[A-Za-z0-9]{20,}", "AKC", accepts=looks_random),
    _prefixed("Docker token", rf"dckr_(?:pat|oat)_{_B}{{20,}}", "dckr_"),
    _token(
        "Stripe key",
        r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "rk_test_",
    ),
    _prefixed("Stripe secret", r"whsec_[A-Za-z0-9+/=]{20,}", "whsec_"),
    _token("SendGrid key", rf"SG\.{_B}{{16,}}\.{_B}{{16,}}", "SG."),
    _token("Mailgun key", r"(?<![A-Za-z0-9][_-])key-[0-9a-f]{32}(?![A-Za-z0-9])", "key-"),
    _prefixed("Shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", "shp"),
    _token(
        "Square token",
        rf"(?:sq0[a-z]{{3}}-{_B}{{22,}}|EAAA{_B}{{56,}})",
        "sq0",
        "EAAA",
        accepts=looks_random,
    ),
    _token("Facebook token", r"EAA[A-Za-z0-9]{80,}", "EAA"),
    _prefixed("DigitalOcean token", r"do[opr]_v1_[0-9a-f]{60,}", "_v1_"),
    _prefixed("Heroku key", rf"HRKU-{_B}{{30,}}", "HRKU-"),
    _prefixed("Linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}", "lin_"),
    _prefixed(
        "Notion token",
        r"(?:ntn|secret)_[A-Za-z0-9]{40,}",
        "ntn_",
        "secret_",
        accepts=has_letters_and_digits,
    ),
    _prefixed("Atlassian token", r"ATATT3[A-Za-z0-9_=-]{40,}", "ATATT3"),
    _prefixed("New Relic key", r"NRAK-[A-Z0-9]{20,}", "NRAK-"),
    _token("Grafana token", r"gl(?:c|sa)_[A-Za-z0-9_+/=]{30,}", "glc_", "glsa_"),
    _token("Vault token", rf"hv[bsr]\.{_B}{{20,}}", "hvs.", "hvb.", "hvr."),
    _prefixed("Terraform token", rf"[A-Za-z0-9]{{14}}\.atlasv1\.{_B}{{40,}}", ".atlasv1."),
    _prefixed("Hugging Face token", r"hf_[A-Za-z0-9]{30,}", "hf_"),
    _token(
        "API key",
        r"(?:gsk_|r8_|xai-|pplx-|nvapi-)[A-Za-z0-9_-]{30,}",
        "gsk_",
        "r8_",
        "xai-",
        "pplx-",
        "nvapi-",
    ),
    _prefixed("Databricks token", r"dapi[0-9a-f]{32}", "dapi"),
    _prefixed("Supabase token", r"sb(?:p|_secret)_[A-Za-z0-9_-]{20,}", "sbp_", "sb_secret_"),
    _prefixed("PlanetScale token", r"pscale_(?:tkn|pw|oauth)_[\w.=-]{30,}", "pscale_"),
    _token("Doppler token", r"dp\.[a-z]{2,6}\.[A-Za-z0-9]{40,}", "dp."),
    _prefixed("Sentry token", r"sntry[sua]_[A-Za-z0-9_+/=]{30,}", "sntry"),
    _prefixed("Figma token", rf"figd_{_B}{{30,}}", "figd_"),
    _token("Airtable token", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "pat"),
    _prefixed("Postman key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", "PMAK-"),
    _prefixed("Pulumi token", r"pul-[0-9a-f]{40}", "pul-"),
    _prefixed("Azure secret", r"[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}", "8Q~"),
    SecretRule("Telegram token", _TELEGRAM, (":",), 1, looks_random),
)

# ---- Known by the words around them

_VALUE = r"""((?:&(?:amp|lt|gt);|\[(?!redacted:\ )|\\(?![\\"'nrt])|[^\s"'`<>,;\[\\])+)"""
"""A run of characters, including Slack's escapes; it ends before quotes, separators, and our own
mark. It must come last in its pattern, so that it need not be possessive: before Python 3.11.5 a
possessive group matches too much (python/cpython#106052).
"""


_LETTERS = r"([a-z-]{6,60}+)(?=[*_~]{0,2}(?:[\s;&\"'`\\]|\.?(?:\s|\Z)))"
"""Letters only, up to the end of a value in a configuration; an argument is followed by a comma or
a bracket instead.
"""


def _after(*words: str) -> str:
    """Return a lookbehind for the words, each an alternative of fixed width as `re` requires."""
    return "(?:" + "|".join(f"(?<={word})|(?<={word}[_ -])" for word in words) + ")"


_START = "(?<![a-z])"
_OF_PEOPLE = (
    r"pass[_-]?word|passwd|pass[_-]?phrase|pass[_-]?code|contrase(?:ñ|n)a|passwort|kennwort|"
    r"(?<=mot de )passe|"
    rf"{_after('db', 'database', 'user', 'admin', 'root', 'smtp', 'ftp', 'redis', 'key')}pass"
    rf"|{_START}(?:pwd|passw|pw)"
)
_OF_APPS = (
    r"secret[_-]?access[_-]?key|secret[_-]?key(?:[_-]?base)?|"
    rf"{_after('client', 'app', 'signing', 'shared', 'webhook', 'jwt', 'consumer', 'oauth')}secret"
    rf"|{_START}secret"
)
_KEYS = (
    *("api", "auth", "access", "service", "account", "encryption"),
    *("master", "license", "private", "subscription", "db"),
)
_TOKENS = (
    "access",
    "auth",
    "refresh",
    "bearer",
    "api",
    "bot",
    "app",
    "session",
    "security",
    "deploy",
    "id",
    "csrf",
)
_OF_MACHINES = rf"{_after(*_KEYS, 'database')}key|{_after(*_TOKENS)}token|{_START}token"
"""Names of secrets; each starts at the word that an anchor finds."""
_AT_PASS = ("pass", "pwd", "pw", "contrase", "kennwort")
_AT_SECRET = ("secret",)
_AT_KEY = ("key", "token")
_IS = r"""[*_~`"'\\\])]{0,4}[ \t]{0,3}(?::=|=>|={1,3}|:)[*_~]{0,2}[ \t]{0,3}\\?["'`]?"""
"""The text between a name and its value: the marks of Slack's bold and code, the end of a key in
JSON, and an operator.
"""
_TRAIL = ".,:;)*_~"
_HARMLESS = re.compile(
    r"(?ix) [*x•.\#_?-]{2,} | [$%:{].* | (?:&lt;|<).* | [\w.]+[(\[].* | .*\}"
    r" | (?:your|my|the|some|new|old|insert|enter)[_-].*"
    r" | (?:example|sample|dummy|change[_-]?me|placeholder|todo).*"
    r" | (?:base64|utf-?8|sha-?\d|md5|bcrypt|argon2|oauth|http|rfc|latin).*"
    r" | (?:none|null|nil|undefined|true|false|yes|no|string|str|text|required|missing|invalid"
    r"|empty|expired|incorrect"
    r" |wrong|blank|reset|unset|optional|hidden|redacted|removed|varchar|char|bytes|int|number"
    r"|object|value|field|password"
    r" |passwd|passwort|pass|pwd|pw|secret|token|key|apikey|login|username|user|email|not|changed"
    r"|encrypted|hashed"
    r" |unknown|disabled|enabled|forgotten|mandatory)\d{0,2}"
    r" | (?:os|self|process|config|settings|request|req|args|env|environ|params|this|options|ctx"
    r"|user|data|form)\..*"
    r" | v?\d[\d.,:/-]*(?:st|nd|rd|th|px|em|ms|min|kb|mb|gb|chars?|[smhd%])?"
    r" | \d{4}-\d\d-\d\d.*"
)
"""Placeholders, labels, keywords of code, amounts and dates."""
_SIGNS = "!@#$%^*+=?~"


_CODE = re.compile(r"(?i)(?:too|must|not|is|no)-.*|.+(?:password|passwd|pwd|secret|token)")
"""Error codes and variable names, which may be letters only where a password may be, too."""


def _chosen(value: str) -> bool:
    """Whether a person may have chosen it as a password: at least four characters, with letters
    and a digit or a sign.
    """
    if len(value) < 4 or _HARMLESS.fullmatch(value):
        return False
    odd = any(each.isdigit() or each in _SIGNS for each in value)
    return odd and any(each.isalpha() for each in value)


def _chosen_well(value: str) -> bool:
    """As `_chosen`, but stricter: used where only the value's own form marks it as a password."""
    mixed = has_letters_and_digits(value) and (looks_random(value) or not value.isalnum())
    return mixed and len(value) >= 8 and _chosen(value)


def _credentials(value: str) -> bool:
    """Whether it may be the value of a credentials header; letters alone count only if no name in
    code looks like them.
    """
    return has_letters_and_digits(value) or (
        len(value) >= 16 and value not in (value.lower(), value.upper())
    )


def _issued(value: str) -> bool:
    """Whether a machine may have issued it: at least eight characters, with letters and digits."""
    return len(value) >= 8 and has_letters_and_digits(value) and not _HARMLESS.fullmatch(value)


def _no_label(value: str) -> bool:
    return len(value) >= 4 and not _HARMLESS.fullmatch(value)


def _plain(value: str) -> bool:
    """Whether it may be a password of letters only, at a place that marks it as one."""
    return _no_label(value) and not _CODE.fullmatch(value)


def _basic(value: str) -> bool:
    """Whether it is the value of a `Basic` header: a name and a password, joined by a colon."""
    try:
        pair = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except ValueError:
        return False
    return ":" in pair and pair.isprintable()


def _no_placeholder(value: str) -> bool:
    return not re.fullmatch(r"(?i)[*x.•]+|…|(?:&lt;|<).*|[$%:{].*", value)


def _rule(
    kind: str,
    pattern: str,
    hints: tuple[str, ...],
    accepts: Callable[[str], bool],
    trail: str = _TRAIL,
) -> SecretRule:
    return SecretRule(
        kind, re.compile(pattern, re.IGNORECASE), hints, 1, accepts, folds=True, trail=trail
    )


def _named(
    kind: str,
    pattern: str,
    names: tuple[str, ...],
    accepts: Callable[[str], bool],
    trail: str = _TRAIL,
) -> SecretRule:
    """A rule whose pattern begins at one of the names."""
    return replace(_rule(kind, pattern, names, accepts, trail), anchor=re.compile("|".join(names)))


_VARIABLE = re.compile(
    rf"(?<![a-z])[A-Z_]{{0,40}}(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|SECRET)=[\"']?{_VALUE}"
)
_ASSIGNED = (
    _rule(
        "password",
        r"[;?&][\w.-]{0,30}(?:password|passwd|pwd|pass|secret|token|api_?key|auth)="
        r"((?:&(?:lt|gt);|[^\s\"'`<>,;&\[])+)",
        (*_AT_PASS, *_AT_SECRET, *_AT_KEY, "auth="),
        _no_label,
        trail="",
    ),
    _named("password", rf"(?:{_OF_PEOPLE})\d?{_IS}{_VALUE}", _AT_PASS, _chosen),
    _rule("password", rf"(?<![a-z])pass['\"]?=['\"]?{_VALUE}", ("pass",), _chosen),
    _named(
        "password",
        rf"{BEGIN}(?:user(?:name)?|login)\b[^\n]{{1,40}}?\bpass: ?{_VALUE}",
        ("user", "login"),
        _chosen,
    ),
    _named("secret", rf"(?:{_OF_APPS})\d?{_IS}{_VALUE}", _AT_SECRET, _chosen),
    _named("key or token", rf"(?:{_OF_MACHINES})\d?{_IS}{_VALUE}", _AT_KEY, _issued),
    # Letters alone are a name in code, but a secret in quotes, in an environment, or in a
    # connection string; also where no blank surrounds the sign and no argument follows, and under
    # a dotted name.
    _named(
        "password",
        rf"(?:{_OF_PEOPLE})\d?{_IS}(?<=[\"'`])([a-z-]{{6,40}})(?=\\?[\"'`])",
        _AT_PASS,
        _plain,
    ),
    _named(
        "secret",
        rf"(?:{_OF_APPS})\d?{_IS}(?<=[\"'`])([a-z]{{10,60}})(?=\\?[\"'`])",
        _AT_SECRET,
        _plain,
    ),
    _named("password", rf"(?:{_OF_PEOPLE})\d?={_LETTERS}", _AT_PASS, _plain),
    _named("secret", rf"(?:{_OF_APPS})\d?={_LETTERS}", _AT_SECRET, _plain),
    _named("password", rf"(?<=\.)(?:{_OF_PEOPLE})\d?:[ \t]{{0,3}}{_LETTERS}", _AT_PASS, _plain),
    SecretRule("password", _VARIABLE, ("PASS", "PWD", "SECRET"), 1, _no_label),
    _rule(
        "connection string",
        r"(?:AccountKey|SharedAccessKey|SharedAccessSignature|SharedSecretKey)="
        r"([^\s;\"'<>\[]{8,})",
        ("accountkey", "sharedaccess", "sharedsecret"),
        always,
    ),
)
_TOLD = (
    _named(
        "password",
        rf"(?:{_OF_PEOPLE}|{_START}secret)(?: (?:for|of|to|on|at|in)(?: "
        r"[\w@.'-]{1,30}){1,4}?)?"
        r"[ \t]{1,2}(?:is|was|ist|war|es|est|set to|to)(?: now| still| just)?:?[ "
        rf"\t]{{1,2}}[\"'`*_]{{0,2}}{_VALUE}",
        (*_AT_PASS, *_AT_SECRET),
        _chosen,
    ),
    _named("password", rf"(?:{_OF_PEOPLE})[ \t]{{1,2}}[\"'`]?{_VALUE}", _AT_PASS, _chosen_well),
    _named(
        "key or token",
        (
            rf"(?:{_OF_MACHINES})[ \t]{{1,2}}(?:is|was|ist)(?: now)?:?[ "
            rf"\t]{{1,2}}[\"'`*_]{{0,2}}{_VALUE}"
        ),
        _AT_KEY,
        lambda value: len(value) >= 16 and _issued(value),
    ),
    _rule(
        "password",
        (
            r"(?<=--)[a-z-]{0,20}(?:password|passwd|pass|token|secret|api-key|apikey)[ "
            rf"=][\"']?{_VALUE}"
        ),
        ("--",),
        _chosen,
    ),
    _named(
        "password", rf"{BEGIN}sshpass\b[^\n]{{0,40}}?-p ?[\"']?{_VALUE}", ("sshpass",), _no_label
    ),
    _named("password", rf"{BEGIN}mysql\w*\b[^\n]{{0,80}}?[ ]-p{_VALUE}", ("mysql",), _no_label),
    _named(
        "password",
        (
            rf"{BEGIN}curl\b[^\n]{{0,200}}?[ ](?:-u|--user)[ "
            r"=]?[\"']?[^\s:\"']{1,100}:([^\s\"'<>\[]++)"
        ),
        ("curl",),
        _no_placeholder,
    ),
)
_HEADERS = (
    _named(
        "session",
        (
            rf"{BEGIN}cookie:(?:[^\n]{{0,300}}?;)?[ "
            rf"]?[\w.-]{{0,20}}(?:session|sid|auth|token)[\w.-]{{0,20}}={_VALUE}"
        ),
        ("cookie:",),
        _issued,
    ),
    _named(
        "session",
        rf"{BEGIN}(?:jsessionid|phpsessid|connect\.sid)={_VALUE}",
        ("jsessionid", "phpsessid", "connect.sid"),
        _issued,
    ),
    _rule(
        "credentials",
        r"authorization[\"'\]]{0,2}[ \t]{0,3}[:=][ \t]{0,3}[\"']?"
        r"(?:(?:bearer|basic|token|apikey|negotiate|digest|bot)[ "
        r"\t]{1,3})?([A-Za-z0-9._~+/=:-]{8,}+)",
        ("authorization",),
        _credentials,
    ),
    _named(
        "credentials",
        rf"{BEGIN}basic[ \t]{{1,3}}([A-Za-z0-9+/]{{8,400}}+={{0,2}})",
        ("basic",),
        _basic,
    ),
    _named(
        "token",
        rf"{BEGIN}bearer[ \t]{{1,3}}([A-Za-z0-9._~+/=-]{{16,}}+)",
        ("bearer",),
        has_letters_and_digits,
    ),
)
URLS = (
    # Slack takes the text after the password's colon for a mail address:
    # user:<mailto:password@host|password@host>
    _rule(
        "password",
        r"://[^\s:/@<>]{0,200}:(<mailto:[^\s@|>]{1,200}@[^\s|>]{1,200}\|[^\s>]{1,400}>)",
        ("<mailto:",),
        always,
    ),
    # Up to the last @ before a slash, since passwords hold characters that addresses should not; a
    # port is no password.
    _rule(
        "password",
        r"://[^\s:/@<>\"'`|]{0,200}:(?!\d{1,5}[?#])([^\s/<>\"'`|]{1,200})@",
        ("://",),
        _no_placeholder,
        trail="",
    ),
    _rule("token", r"https?://([A-Za-z0-9_-]{20,200})@", ("@",), has_letters_and_digits),
    _rule(
        "signature",
        r"[?&;](?:sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature)="
        r"([A-Za-z0-9%+/=_-]{16,}+)",
        ("sig=", "signature=", "security-token="),
        always,
    ),
)
CONTEXT = (*_HEADERS, *_ASSIGNED, *_TOLD)
RULES = (*SHAPES, *URLS, *VENDOR_SHAPES, *CONTEXT)
"""Shapes come first: they identify the kind of secret, while the words around a value only say
that it is secret. URLs come before detect-secrets, which ends a password at the first character
that a URL should not contain.
"""
