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

from threadline.domain.secret_rules import Rule, anything, is_mixed, is_random

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


def _token(kind: str, body: str, *hints: str, accepts: Callable[[str], bool] = anything, group: int = 0) -> Rule:
    """A token that begins where a word begins: so no match starts inside another, and time stays linear."""
    return Rule(kind, re.compile(rf"(?<![A-Za-z0-9_-]){body}"), hints, group, accepts)


_PRIVATE_KEY = re.compile(
    # Up to its last line; without one, as many lines of base64 as follow, for a text that was cut. No dashes are
    # crossed, so that many first lines do not each search the whole text.
    r"-----BEGIN [^-\n]{0,40}PRIVATE KEY[^-\n]{0,10}-----"
    r"(?:(?:[^-]|-(?!----))*+-----END [^-\n]{0,60}-----|(?:(?:\s|\\[nr]|>|&gt;)*+[A-Za-z0-9+/=]{24,}+)++)"
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

OURS: tuple[Rule, ...] = (
    Rule("private key", _PRIVATE_KEY, ("PRIVATE KEY",)),
    Rule(
        "private key", re.compile(r"(?<=Private-Lines: )\d+\s++((?:[A-Za-z0-9+/=]{20,}+\s*+)++)"), ("Private-Lines",), 1
    ),
    _token("private key", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}", "AGE-SECRET-KEY-1"),
    Rule("AWS secret key", _AWS_SECRET, ("AKIA", "ASIA"), 1, is_random),
    Rule("webhook", _WEBHOOK, ("hooks.slack.com", "api/webhooks", "webhook.office.com"), 1),
    _token("JSON Web Token", r"eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_=-]*+){1,4}", "eyJ"),
    _token("Anthropic key", rf"sk-ant-{_B}{{16,}}", "sk-ant-"),
    _token("API key", rf"sk-{_B}{{20,}}", "sk-", accepts=is_random),
    _token("API key", r"sk-[a-f0-9]{32,}", "sk-"),
    _token("Slack token", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9%/+=-]{8,}", "xox"),
    _token("Slack token", r"xapp-[A-Za-z0-9-]{10,}", "xapp-"),
    _token("GitHub token", r"gh[oprsu]_[A-Za-z0-9]{20,}", "gh"),
    _token("GitHub token", r"github_pat_[A-Za-z0-9_]{20,}", "github_pat_"),
    _token("GitLab token", rf"(?:gl[a-z]{{2,6}}-|GR1348941){_B}{{20,}}", "gl", "GR1348941", accepts=is_random),
    _token("Google key", rf"AIza{_B}{{30,}}", "AIza"),
    _token("Google token", r"ya29\.[A-Za-z0-9._-]{20,}", "ya29."),
    _token("Google secret", rf"GOCSPX-{_B}{{20,}}", "GOCSPX-"),
    _token("Google token", rf"1//0{_B}{{30,}}", "1//0"),
    _token("npm token", r"npm_[A-Za-z0-9]{30,}", "npm_"),
    _token("PyPI token", rf"pypi-{_B}{{50,}}", "pypi-"),
    _token("RubyGems key", r"rubygems_[0-9a-f]{40,}", "rubygems_"),
    _token("crates.io token", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])", "cio", accepts=is_random),
    _token("Docker token", rf"dckr_(?:pat|oat)_{_B}{{20,}}", "dckr_"),
    _token("Stripe key", r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}", "k_live_", "k_test_"),
    _token("Stripe secret", r"whsec_[A-Za-z0-9+/=]{20,}", "whsec_"),
    _token("SendGrid key", rf"SG\.{_B}{{16,}}\.{_B}{{16,}}", "SG."),
    _token("Mailgun key", r"key-[0-9a-f]{32}(?![A-Za-z0-9])", "key-"),
    _token("Shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", "shp"),
    _token("Square token", rf"(?:sq0[a-z]{{3}}-{_B}{{22,}}|EAAA{_B}{{56,}})", "sq0", "EAAA", accepts=is_random),
    _token("Facebook token", r"EAA[A-Za-z0-9]{80,}", "EAA"),
    _token("DigitalOcean token", r"do[opr]_v1_[0-9a-f]{60,}", "_v1_"),
    _token("Heroku key", rf"HRKU-{_B}{{30,}}", "HRKU-"),
    _token("Linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}", "lin_"),
    _token("Notion token", r"(?:ntn|secret)_[A-Za-z0-9]{40,}", "ntn_", "secret_", accepts=is_mixed),
    _token("Atlassian token", r"ATATT3[A-Za-z0-9_=-]{40,}", "ATATT3"),
    _token("New Relic key", r"NRAK-[A-Z0-9]{20,}", "NRAK-"),
    _token("Grafana token", r"gl(?:c|sa)_[A-Za-z0-9_+/=]{30,}", "glc_", "glsa_"),
    _token("Vault token", rf"hv[bsr]\.{_B}{{20,}}", "hvs.", "hvb.", "hvr."),
    _token("Terraform token", rf"[A-Za-z0-9]{{14}}\.atlasv1\.{_B}{{40,}}", ".atlasv1."),
    _token("Hugging Face token", r"hf_[A-Za-z0-9]{30,}", "hf_"),
    _token("API key", r"(?:gsk_|r8_|xai-|pplx-|nvapi-)[A-Za-z0-9_-]{30,}", "gsk_", "r8_", "xai-", "pplx-", "nvapi-"),
    _token("Databricks token", r"dapi[0-9a-f]{32}", "dapi"),
    _token("Supabase token", r"sb(?:p|_secret)_[A-Za-z0-9_-]{20,}", "sbp_", "sb_secret_"),
    _token("PlanetScale token", r"pscale_(?:tkn|pw|oauth)_[\w.=-]{30,}", "pscale_"),
    _token("Doppler token", r"dp\.[a-z]{2,6}\.[A-Za-z0-9]{40,}", "dp."),
    _token("Sentry token", r"sntry[sua]_[A-Za-z0-9_+/=]{30,}", "sntry"),
    _token("Figma token", rf"figd_{_B}{{30,}}", "figd_"),
    _token("Airtable token", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "pat"),
    _token("Postman key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", "PMAK-"),
    _token("Pulumi token", r"pul-[0-9a-f]{40}", "pul-"),
    _token("Azure secret", r"[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}", "8Q~"),
    _token("Telegram token", r"(?:bot)?\d{8,10}:([A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])", ":", accepts=is_random, group=1),
)
DETECTED = tuple(_detected())
