"""Secrets that only the words around them give away: what is assigned to a password, or stands in an address.

People write about passwords and tokens far more often than they write them down, so a value has to look like a secret.
"""

import base64
import re
from collections.abc import Callable
from dataclasses import replace

from threadline.privacy.secret_rule import BEGIN, Rule, anything, is_mixed, is_random

_VALUE = r"""((?:&(?:amp|lt|gt);|\[(?!redacted:\ )|\\(?![\\"'nrt])|[^\s"'`<>,;\[\\])+)"""
"""A run of characters, with what Slack escaped; it ends before quotes, separators, and a mark of ours. The end of its
pattern, so that it need not be possessive, which takes too much before Python 3.11.5 (python/cpython#106052)."""


_LETTERS = r"([a-z-]{6,60}+)(?=[*_~]{0,2}(?:[\s;&\"'`\\]|\.?(?:\s|\Z)))"
"""Letters alone, up to the end of a value in a configuration; behind an argument there is a comma or a bracket."""


def _after(*words: str) -> str:
    """Behind one of the words; a look behind must know its width."""
    return "(?:" + "|".join(f"(?<={word})|(?<={word}[_ -])" for word in words) + ")"


_START = "(?<![a-z])"
_OF_PEOPLE = (
    r"pass[_-]?word|passwd|pass[_-]?phrase|pass[_-]?code|contrase(?:ñ|n)a|passwort|kennwort|(?<=mot de )passe|"
    rf"{_after('db', 'database', 'user', 'admin', 'root', 'smtp', 'ftp', 'redis', 'key')}pass|{_START}(?:pwd|passw|pw)"
)
_OF_APPS = (
    r"secret[_-]?access[_-]?key|secret[_-]?key(?:[_-]?base)?|"
    rf"{_after('client', 'app', 'signing', 'shared', 'webhook', 'jwt', 'consumer', 'oauth')}secret|{_START}secret"
)
_KEYS = (
    "api",
    "auth",
    "access",
    "service",
    "account",
    "encryption",
    "master",
    "license",
    "private",
    "subscription",
    "db",
)
_TOKENS = ("access", "auth", "refresh", "bearer", "api", "bot", "app", "session", "security", "deploy", "id", "csrf")
_OF_MACHINES = rf"{_after(*_KEYS, 'database')}key|{_after(*_TOKENS)}token|{_START}token"
"""Names of what is secret, from the word on at which an anchor finds them."""
_AT_PASS, _AT_SECRET, _AT_KEY = ("pass", "pwd", "pw", "contrase", "kennwort"), ("secret",), ("key", "token")
_IS = r"""[*_~`"'\\\])]{0,4}[ \t]{0,3}(?::=|=>|={1,3}|:)[*_~]{0,2}[ \t]{0,3}\\?["'`]?"""
"""Between a name and its value: the marks of Slack's bold and code, the end of a key in JSON, and an operator."""
_TRAIL = ".,:;)*_~"
_HARMLESS = re.compile(
    r"""(?ix) [*x•.\#_?-]{2,} | [$%:{].* | &lt;.* | [\w.]+[(\[].* | .*\}
    | (?:your|my|the|some|new|old|insert|enter)[_-].* | (?:example|sample|dummy|change[_-]?me|placeholder|todo).*
    | (?:base64|utf-?8|sha-?\d|md5|bcrypt|argon2|oauth|http|rfc|latin).*
    | (?:none|null|nil|undefined|true|false|yes|no|string|str|text|required|missing|invalid|empty|expired|incorrect
        |wrong|blank|reset|unset|optional|hidden|redacted|removed|varchar|char|bytes|int|number|object|value|field|password
        |passwd|passwort|pass|pwd|pw|secret|token|key|apikey|login|username|user|email|not|changed|encrypted|hashed
        |unknown|disabled|enabled|forgotten|mandatory)\d{0,2}
    | (?:os|self|process|config|settings|request|req|args|env|environ|params|this|options|ctx|user|data|form)\..*
    | v?\d[\d.,:/-]*(?:st|nd|rd|th|px|em|ms|min|kb|mb|gb|chars?|[smhd%])? | \d{4}-\d\d-\d\d.*"""
)
"""Placeholders, labels, words of code, amounts and dates."""
_SIGNS = "!@#$%^*+=?~"


_CODE = re.compile(r"(?i)(?:too|must|not|is|no)-.*|.+(?:password|passwd|pwd|secret|token)")
"""Codes of errors, and names of variables, which letters alone can be where a password can."""


def _chosen(value: str) -> bool:
    """What people choose as a password: four characters at least, and a digit or a sign among letters."""
    if len(value) < 4 or _HARMLESS.fullmatch(value):
        return False
    odd = any(each.isdigit() or each in _SIGNS for each in value)
    return odd and any(each.isalpha() for each in value)


def _chosen_well(value: str) -> bool:
    """The same, where only its look says that it is one."""
    return len(value) >= 8 and _chosen(value) and is_mixed(value) and (is_random(value) or not value.isalnum())


def _credentials(value: str) -> bool:
    """Behind a header's name also letters alone, when no name in code looks like them."""
    return is_mixed(value) or (len(value) >= 16 and value not in (value.lower(), value.upper()))


def _issued(value: str) -> bool:
    """What a machine hands out: longer, with digits."""
    return len(value) >= 8 and is_mixed(value) and not _HARMLESS.fullmatch(value)


def _no_label(value: str) -> bool:
    return len(value) >= 4 and not _HARMLESS.fullmatch(value)


def _plain(value: str) -> bool:
    """A password of letters alone, where its place says that it is one."""
    return _no_label(value) and not _CODE.fullmatch(value)


def _basic(value: str) -> bool:
    """What a header's `Basic` announces: a name and a password, with a colon between them."""
    try:
        pair = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except ValueError:
        return False
    return ":" in pair and pair.isprintable()


def _no_placeholder(value: str) -> bool:
    return not re.fullmatch(r"(?i)[*x.•]+|…|&lt;.*|[$%:{].*", value)


def _rule(kind: str, pattern: str, hints: tuple[str, ...], accepts: Callable[[str], bool], trail: str = _TRAIL) -> Rule:
    return Rule(kind, re.compile(pattern, re.IGNORECASE), hints, 1, accepts, folds=True, trail=trail)


def _named(
    kind: str, pattern: str, names: tuple[str, ...], accepts: Callable[[str], bool], trail: str = _TRAIL
) -> Rule:
    """A rule whose pattern begins at one of the names."""
    return replace(_rule(kind, pattern, names, accepts, trail), anchor=re.compile("|".join(names)))


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
    _named("password", rf"{BEGIN}(?:user(?:name)?|login)\b[^\n]{{1,40}}?\bpass: ?{_VALUE}", ("user", "login"), _chosen),
    _named("secret", rf"(?:{_OF_APPS})\d?{_IS}{_VALUE}", _AT_SECRET, _chosen),
    _named("key or token", rf"(?:{_OF_MACHINES})\d?{_IS}{_VALUE}", _AT_KEY, _issued),
    # Letters alone are a name in code, but not in quotes, in an environment, or in a connection string; nor where no
    # blank surrounds the sign and no argument follows, nor under a dotted name.
    _named("password", rf"(?:{_OF_PEOPLE})\d?{_IS}(?<=[\"'`])([a-z-]{{6,40}})(?=\\?[\"'`])", _AT_PASS, _plain),
    _named("secret", rf"(?:{_OF_APPS})\d?{_IS}(?<=[\"'`])([a-z]{{10,60}})(?=\\?[\"'`])", _AT_SECRET, _plain),
    _named("password", rf"(?:{_OF_PEOPLE})\d?={_LETTERS}", _AT_PASS, _plain),
    _named("secret", rf"(?:{_OF_APPS})\d?={_LETTERS}", _AT_SECRET, _plain),
    _named("password", rf"(?<=\.)(?:{_OF_PEOPLE})\d?:[ \t]{{0,3}}{_LETTERS}", _AT_PASS, _plain),
    Rule(
        "password",
        re.compile(rf"(?<![a-z])[A-Z_]{{0,40}}(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|SECRET)=[\"']?{_VALUE}"),
        ("PASS", "PWD", "SECRET"),
        1,
        _no_label,
    ),
    _rule(
        "connection string",
        r"(?:AccountKey|SharedAccessKey|SharedAccessSignature|SharedSecretKey)=([^\s;\"'<>\[]{8,})",
        ("accountkey", "sharedaccess", "sharedsecret"),
        anything,
    ),
)
_TOLD = (
    _named(
        "password",
        rf"(?:{_OF_PEOPLE}|{_START}secret)(?: (?:for|of|to|on|at|in)(?: [\w@.'-]{{1,30}}){{1,4}}?)?"
        rf"[ \t]{{1,2}}(?:is|was|ist|war|es|est|set to|to)(?: now| still| just)?:?[ \t]{{1,2}}[\"'`*_]{{0,2}}{_VALUE}",
        (*_AT_PASS, *_AT_SECRET),
        _chosen,
    ),
    _named("password", rf"(?:{_OF_PEOPLE})[ \t]{{1,2}}[\"'`]?{_VALUE}", _AT_PASS, _chosen_well),
    _named(
        "key or token",
        rf"(?:{_OF_MACHINES})[ \t]{{1,2}}(?:is|was|ist)(?: now)?:?[ \t]{{1,2}}[\"'`*_]{{0,2}}{_VALUE}",
        _AT_KEY,
        lambda value: len(value) >= 16 and _issued(value),
    ),
    _rule(
        "password",
        rf"(?<=--)[a-z-]{{0,20}}(?:password|passwd|pass|token|secret|api-key|apikey)[ =][\"']?{_VALUE}",
        ("--",),
        _chosen,
    ),
    _named("password", rf"{BEGIN}sshpass\b[^\n]{{0,40}}?-p ?[\"']?{_VALUE}", ("sshpass",), _no_label),
    _named("password", rf"{BEGIN}mysql\w*\b[^\n]{{0,80}}?[ ]-p{_VALUE}", ("mysql",), _no_label),
    _named(
        "password",
        rf"{BEGIN}curl\b[^\n]{{0,200}}?[ ](?:-u|--user)[ =]?[\"']?[^\s:\"']{{1,100}}:([^\s\"'<>\[]++)",
        ("curl",),
        _no_placeholder,
    ),
)
_HEADERS = (
    _named(
        "session",
        rf"{BEGIN}cookie:(?:[^\n]{{0,300}}?;)?[ ]?[\w.-]{{0,20}}(?:session|sid|auth|token)[\w.-]{{0,20}}={_VALUE}",
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
        r"(?:(?:bearer|basic|token|apikey|negotiate|digest|bot)[ \t]{1,3})?([A-Za-z0-9._~+/=:-]{8,}+)",
        ("authorization",),
        _credentials,
    ),
    _named("credentials", rf"{BEGIN}basic[ \t]{{1,3}}([A-Za-z0-9+/]{{8,400}}+={{0,2}})", ("basic",), _basic),
    _named("token", rf"{BEGIN}bearer[ \t]{{1,3}}([A-Za-z0-9._~+/=-]{{16,}}+)", ("bearer",), is_mixed),
)
ADDRESSES = (
    # Slack takes what follows the password's colon for a mail address: user:<mailto:password@host|password@host>
    _rule(
        "password",
        r"://[^\s:/@<>]{0,200}:(<mailto:[^\s@|>]{1,200}@[^\s|>]{1,200}\|[^\s>]{1,400}>)",
        ("<mailto:",),
        anything,
    ),
    # As far as the last @ before a slash, since passwords hold what addresses should not; a port is no password.
    _rule(
        "password",
        r"://[^\s:/@<>\"'`|]{0,200}:(?!\d{1,5}[?#])([^\s/<>\"'`|]{1,200})@",
        ("://",),
        _no_placeholder,
        trail="",
    ),
    _rule("token", r"https?://([A-Za-z0-9_-]{20,200})@", ("@",), is_mixed),
    _rule(
        "signature",
        r"[?&;](?:sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature)=([A-Za-z0-9%+/=_-]{16,}+)",
        ("sig=", "signature=", "security-token="),
        anything,
    ),
)
WORDS = (*_HEADERS, *_ASSIGNED, *_TOLD)
