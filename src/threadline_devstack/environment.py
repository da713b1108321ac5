"""The variables that each process gets from the caller's environment: those that its settings
read, and no others.
"""

from collections.abc import Iterable, Mapping

from threadline import settings

MACHINE = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "RUST_LOG"),
)
"""Variables for every process: this machine's folders and locale."""

PROXIES = tuple(
    form for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY") for form in (name, name.lower())
)
"""Variables for processes that talk to a real service; a proxy cannot reach the sandboxes on this
machine.
"""

TEMPORAL = (
    *(
        "TEMPORAL_ADDRESS",
        "TEMPORAL_NAMESPACE",
        "TEMPORAL_API_KEY",
        "TEMPORAL_PROFILE",
        "TEMPORAL_CONFIG_FILE",
    ),
    *("TEMPORAL_TLS", "TEMPORAL_TLS_SERVER_NAME", "TEMPORAL_TLS_SERVER_CA_CERT_PATH"),
    *(
        "TEMPORAL_TLS_CLIENT_CERT_PATH",
        "TEMPORAL_TLS_CLIENT_KEY_PATH",
        "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION",
    ),
)
"""Variables that Temporal's own SDK reads."""
SERVICES = ("THREADLINE_JIRA_", "THREADLINE_GITHUB_")
"""Prefixes of the settings of one service each."""


def _of(*groups: type[settings.SettingsGroup]) -> tuple[str, ...]:
    return tuple(name for group in groups for name in group.variables())


_COMMON = (*TEMPORAL, *_of(settings.PayloadSettings, settings.LogSettings))
GATEWAY = (
    *_COMMON,
    *_of(
        settings.SlackSettings,
        settings.ChannelSettings,
        settings.QueueSettings,
        settings.DatabaseSettings,
    ),
)
_GATEWAY_ALONE = ("SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET")
CORE = (
    *(name for name in GATEWAY if name not in _GATEWAY_ALONE),
    *_of(settings.CaseSettings, settings.WorkerSettings),
    *_of(settings.RepositorySettings, settings.GitHubSettings, settings.ModelSettings),
    *_of(
        settings.ConversationSettings,
        settings.ApprovalSettings,
        settings.AccessSettings,
        settings.DecisionSettings,
    ),
    *_of(settings.JiraSettings, settings.CiSettings, settings.MailSettings),
    # for `threadline explain`, which runs beside the core worker
    *_of(settings.TemporalUiSettings),
)
AGENTS = (*_COMMON, *_of(settings.RepositorySettings, settings.AgentSettings))
"""No Slack token, no push credential, no owner of the database: an agent cannot leak a secret that
it cannot reach.
"""
CODEC = _of(settings.PayloadSettings, settings.LogSettings, settings.CodecSettings)
"""The codec server has the keys and a port, and no access to encrypted data."""
COMMANDS = tuple(dict.fromkeys((*GATEWAY, *CORE, *AGENTS)))
"""Variables for the commands that read a running stack: `cases`, `doctor`, `explain`, `replay`."""


def without_a_service(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the `SERVICES` that the caller's environment does not configure; a partly configured
    one is the caller's.
    """
    return tuple(
        prefix
        for prefix in SERVICES
        if not any(name.startswith(prefix) for name in given if given[name])
    )


def pick(source: Mapping[str, str], *names: Iterable[str]) -> dict[str, str]:
    """Return those of the named variables that are set and not empty."""
    return {name: source[name] for group in names for name in group if source.get(name)}
