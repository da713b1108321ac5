"""Secrets that are known by their shape, whatever stands around them: the detector's rules, and our own.

The detector is https://github.com/Yelp/detect-secrets. Its plugins give the patterns; what it does with files, lines
and networks is not used.
"""

import re
from collections.abc import Callable, Iterator
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

from threadline.privacy.secret_rule import BEGIN, Rule, anything, is_mixed, is_random

_DETECTOR: tuple[tuple[type[Any], str, tuple[str, ...], Callable[[str], bool]], ...] = (
    (artifactory.ArtifactoryDetector, "Artifactory key", ("AKC", "AP"), is_random),
    (aws.AWSKeyDetector, "AWS key", ("A3T", "ABIA", "ACCA", "AKIA", "ASIA", "aws", "AWS", "Aws"), anything),
    (azure_storage_key.AzureStorageKeyDetector, "Azure storage key", ("AccountKey=",), anything),
    (basic_auth.BasicAuthDetector, "password", ("://",), anything),
    (discord.DiscordBotTokenDetector, "Discord token", (".",), is_random),
    (github_token.GitHubTokenDetector, "GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), anything),
    (gitlab_token.GitLabTokenDetector, "GitLab token", ("gl", "GR1348941"), anything),
    (mailchimp.MailchimpDetector, "Mailchimp key", ("-us",), is_mixed),
    (pypi_token.PypiTokenDetector, "PyPI token", ("pypi-",), anything),
    (sendgrid.SendGridDetector, "SendGrid key", ("SG.",), anything),
    (slack.SlackDetector, "Slack token", ("xox", "XOX", "hooks.slack.com"), anything),
    (square_oauth.SquareOAuthDetector, "Square secret", ("sq0csp-",), anything),
    (stripe.StripeDetector, "Stripe key", ("k_live_",), anything),
    (telegram_token.TelegramBotTokenDetector, "Telegram token", (":",), is_mixed),
    (twilio.TwilioKeyDetector, "Twilio key", ("AC", "SK"), is_mixed),
)
LEFT_OUT = {
    "Base64HighEntropyString": "hits hashes, identifiers and the names of images, which a bug report is full of",
    "HexHighEntropyString": "hits commits, digests and trace ids",
    "IPPublicDetector": "an address is no secret, and often what the bug is about",
    "KeywordDetector": "hits labels of forms and lines of code, one a line; secret_words.py has its keywords",
    "JwtTokenDetector": "takes quadratic time on a hostile text; ours finds the same",
    "OpenAIDetector": "takes quadratic time on a hostile text; ours finds the same",
    "NpmDetector": "takes quadratic time on a hostile text; ours finds the same, and the bare token",
    "PrivateKeyDetector": "finds the first line of a key alone; ours takes the key",
    "CloudantDetector": "takes quadratic time on spaces; the words around such a key say the same",
    "IbmCloudIamDetector": "takes quadratic time on spaces; the words around such a key say the same",
    "IbmCosHmacDetector": "takes quadratic time on spaces; the words around such a key say the same",
    "SoftlayerDetector": "takes quadratic time on spaces; the words around such a key say the same",
}
"""The detector's other plugins, and why their rules are not used."""

_AROUND = re.compile(r'[\s=:"]*(?:AccountKey=)?')
"""What some patterns of the detector take along before the secret."""


def _detected() -> Iterator[Rule]:
    for plugin, kind, hints, accepts in _DETECTOR:
        for pattern in plugin.denylist:
            # In these two a group is the secret; in the others groups are alternatives inside of it.
            group = pattern.groups if plugin in (aws.AWSKeyDetector, basic_auth.BasicAuthDetector) else 0
            yield Rule(kind, pattern, hints, group, accepts, lead=_AROUND, trail=' \t\r\n"')


def _token(kind: str, body: str, *hints: str, accepts: Callable[[str], bool] = anything) -> Rule:
    """A token whose first letters, its hints, also end common words: it begins where a word begins."""
    anchor = re.compile("|".join(re.escape(hint.lower()) for hint in hints))
    return Rule(kind, re.compile(BEGIN + body), hints, accepts=accepts, anchor=anchor)


def _prefixed(kind: str, body: str, *hints: str, accepts: Callable[[str], bool] = anything) -> Rule:
    """A token that no word ends like, so it is found behind anything.

    Time stays linear as long as a match fails within a few characters of its start, or takes the whole run with it.
    """
    return Rule(kind, re.compile(body), hints, accepts=accepts)


_GAP = r"(?:[\s>\"'`,.|#*+/]|\\+[nrt]?|&(?:gt|amp|quot);)*+"
_PRIVATE_KEY = re.compile(
    # Its first line, headers, lines of base64, and the last line if it follows: a text may have been cut. Nothing else
    # is crossed: words between two such lines are somebody's words, and many first lines must not each search the text.
    r"-----BEGIN [^-\n]{0,40}PRIVATE KEY[^-\n]{0,10}-----"
    rf"(?:{_GAP}(?:Proc-Type: ?4,ENCRYPTED|DEK-Info: ?[\w-]{{3,20}},[0-9A-Fa-f]{{8,64}}|"
    r"(?:Version|Comment|Hash|Charset): ?[^\n\\]{0,120}+)){0,6}+"
    rf"(?:{_GAP}[A-Za-z0-9+/=]{{24,}}+)++"
    rf"(?:(?:{_GAP}[A-Za-z0-9+/=]++){{0,2}}+{_GAP}-----END [^-\n]{{0,40}}PRIVATE KEY[^-\n]{{0,10}}-----"
    rf"|{_GAP}[A-Za-z0-9+/=]++{_GAP}\Z)?+"
)
_AWS_SECRET = re.compile(
    r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z]).{0,160}?(?<![A-Za-z0-9/+=])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    re.DOTALL,
)
_WEBHOOK = re.compile(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks|"
    r"webhook\.office\.com/webhookb2)/([\w/@.-]{20,})"
)
_B = r"[A-Za-z0-9_-]"
_JWT = r"eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_=-]*+){0,4}+"

OURS: tuple[Rule, ...] = (
    Rule("private key", _PRIVATE_KEY, ("PRIVATE KEY",)),
    Rule(
        "private key", re.compile(r"(?<=Private-Lines: )\d+\s++((?:[A-Za-z0-9+/=]{20,}+\s*+)++)"), ("Private-Lines",), 1
    ),
    _prefixed("private key", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}", "AGE-SECRET-KEY-1"),
    Rule("AWS secret key", _AWS_SECRET, ("AKIA", "ASIA"), 1, is_random),
    Rule("webhook", _WEBHOOK, ("hooks.slack.com", "api/webhooks", "webhook.office.com"), 1),
    # A run without a dot is matched as well, and refused: else each start in it would search the rest of it.
    _token("JSON Web Token", _JWT, "eyJ", accepts=lambda text: "." in text),
    _prefixed("JSON Web Token", _JWT, "eyJ", accepts=lambda text: ".eyJ" in text),
    _prefixed("Anthropic key", rf"sk-ant-{_B}{{16,}}", "sk-ant-", accepts=is_random),
    _prefixed("API key", rf"sk-proj-{_B}{{20,}}", "sk-proj-", accepts=is_random),
    _token("API key", rf"sk-{_B}{{20,}}", "sk-", accepts=is_random),
    _token("API key", r"sk-[a-f0-9]{32,}", "sk-"),
    _token("Slack token", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9%/+=-]{8,}", "xox"),
    _prefixed("Slack token", r"xapp-\d-[A-Za-z0-9-]{10,}", "xapp-"),
    _prefixed("GitHub token", r"gh[oprsu]_[A-Za-z0-9]{20,}", "gh"),
    _prefixed("GitHub token", r"github_pat_[A-Za-z0-9_]{20,}", "github_pat_"),
    _token("GitLab token", rf"(?:gl[a-z]{{2,6}}-|GR1348941){_B}{{20,}}", "gl", "GR1348941", accepts=is_random),
    _prefixed("Google key", rf"AIza{_B}{{30,}}", "AIza"),
    _prefixed("Google token", r"ya29\.[A-Za-z0-9._-]{20,}", "ya29."),
    _prefixed("Google secret", rf"GOCSPX-{_B}{{20,}}", "GOCSPX-"),
    _token("Google token", rf"1//0{_B}{{30,}}", "1//0"),
    _prefixed("npm token", r"npm_[A-Za-z0-9]{30,}", "npm_"),
    _prefixed("PyPI token", rf"pypi-{_B}{{50,}}", "pypi-", accepts=is_random),
    _prefixed("RubyGems key", r"rubygems_[0-9a-f]{40,}", "rubygems_"),
    _token("crates.io token", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])", "cio", accepts=is_random),
    _token("Artifactory key", r"AKC[A-Za-z0-9]{20,}", "AKC", accepts=is_random),
    _prefixed("Docker token", rf"dckr_(?:pat|oat)_{_B}{{20,}}", "dckr_"),
    _token("Stripe key", r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}", "sk_live_", "sk_test_", "rk_live_", "rk_test_"),
    _prefixed("Stripe secret", r"whsec_[A-Za-z0-9+/=]{20,}", "whsec_"),
    _token("SendGrid key", rf"SG\.{_B}{{16,}}\.{_B}{{16,}}", "SG."),
    _token("Mailgun key", r"(?<![A-Za-z0-9][_-])key-[0-9a-f]{32}(?![A-Za-z0-9])", "key-"),
    _prefixed("Shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", "shp"),
    _token("Square token", rf"(?:sq0[a-z]{{3}}-{_B}{{22,}}|EAAA{_B}{{56,}})", "sq0", "EAAA", accepts=is_random),
    _token("Facebook token", r"EAA[A-Za-z0-9]{80,}", "EAA"),
    _prefixed("DigitalOcean token", r"do[opr]_v1_[0-9a-f]{60,}", "_v1_"),
    _prefixed("Heroku key", rf"HRKU-{_B}{{30,}}", "HRKU-"),
    _prefixed("Linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}", "lin_"),
    _prefixed("Notion token", r"(?:ntn|secret)_[A-Za-z0-9]{40,}", "ntn_", "secret_", accepts=is_mixed),
    _prefixed("Atlassian token", r"ATATT3[A-Za-z0-9_=-]{40,}", "ATATT3"),
    _prefixed("New Relic key", r"NRAK-[A-Z0-9]{20,}", "NRAK-"),
    _token("Grafana token", r"gl(?:c|sa)_[A-Za-z0-9_+/=]{30,}", "glc_", "glsa_"),
    _token("Vault token", rf"hv[bsr]\.{_B}{{20,}}", "hvs.", "hvb.", "hvr."),
    _prefixed("Terraform token", rf"[A-Za-z0-9]{{14}}\.atlasv1\.{_B}{{40,}}", ".atlasv1."),
    _prefixed("Hugging Face token", r"hf_[A-Za-z0-9]{30,}", "hf_"),
    _token("API key", r"(?:gsk_|r8_|xai-|pplx-|nvapi-)[A-Za-z0-9_-]{30,}", "gsk_", "r8_", "xai-", "pplx-", "nvapi-"),
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
    Rule(
        "Telegram token",
        re.compile(r"(?<![A-Za-z0-9_-])(?:bot)?\d{8,10}:([A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])"),
        (":",),
        1,
        is_random,
    ),
)
DETECTED = tuple(_detected())
