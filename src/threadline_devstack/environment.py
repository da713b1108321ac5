"""What each process may know: nothing of the caller's environment but what is named here."""

from collections.abc import Iterable, Mapping

MACHINE = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "RUST_LOG"),
)
"""For every process: where things are on this machine, and how people read and write here."""

PROXIES = tuple(form for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY") for form in (name, name.lower()))
"""For whoever talks to a real service; a proxy cannot reach the sandboxes on this machine."""

TEMPORAL = (
    *("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE"),
    *("TEMPORAL_TLS", "TEMPORAL_TLS_SERVER_NAME", "TEMPORAL_TLS_SERVER_CA_CERT_PATH"),
    *("TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_KEY_PATH", "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION"),
)
_LOG = ("THREADLINE_LOG_LEVEL",)
_KEYS = ("THREADLINE_PAYLOAD_KEYS",)
"""For whoever talks to Temporal."""
_SLACK = ("SLACK_BOT_TOKEN", "SLACK_API_URL")
_CHANNELS = (
    "THREADLINE_REPORTS_CHANNEL",
    "THREADLINE_SUMMARIES_CHANNEL",
    "THREADLINE_ESCALATION_CHANNEL",
    "THREADLINE_EXTERNAL_PEOPLE",
    "THREADLINE_CONVERSATION_CHANNELS",
)
_LIMITS = (
    *("THREADLINE_REPORTER_TIMEOUT", "THREADLINE_DEVELOPER_TIMEOUT", "THREADLINE_TURN_TIMEOUT"),
    *("THREADLINE_TURN_BUDGET_USD", "THREADLINE_CASE_BUDGET_USD", "THREADLINE_MAX_QUESTIONS"),
    *("THREADLINE_PULL_REQUEST_POLL", "THREADLINE_ONCALL", "THREADLINE_SLA", "THREADLINE_SERVICES"),
    "THREADLINE_CATCH_UP_INTERVAL",
)
_DEPLOYMENT = ("THREADLINE_DEPLOYMENT", "THREADLINE_BUILD_ID")
_CODE = ("THREADLINE_REPO", "THREADLINE_HOME", "THREADLINE_WORKSPACES")
_MODEL = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "THREADLINE_INVESTIGATOR_MODEL", "THREADLINE_AGENT_SLOTS"),
    *("THREADLINE_QUERY_DATABASES", "THREADLINE_QUERY_VIEWS", "THREADLINE_LOKI_URL", "THREADLINE_LOKI_SELECTOR"),
)
_REMOTE = (
    *("THREADLINE_JIRA_URL", "THREADLINE_JIRA_EMAIL", "THREADLINE_JIRA_TOKEN"),
    *("THREADLINE_GITHUB_REPOSITORY", "THREADLINE_GITHUB_TOKEN", "THREADLINE_GITHUB_API_URL"),
    *("THREADLINE_SMTP_URL", "THREADLINE_SMTP_FROM", "THREADLINE_EMAIL_DOMAINS", "THREADLINE_EMAIL_RISK"),
)
"""The services behind toolsets."""
SERVICES = ("THREADLINE_JIRA_", "THREADLINE_GITHUB_")
"""How the names of one service's settings begin."""
_OPENAI = (
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "THREADLINE_OPENAI_MODEL", "THREADLINE_OPENAI_API"),
    *("THREADLINE_OPENAI_TIMEOUT", "THREADLINE_OPENAI_PRICES"),
    *("THREADLINE_EMBEDDINGS", "THREADLINE_EMBEDDINGS_MODEL"),
)
_TALK = (
    *("THREADLINE_CONVERSATION_MAX_TURNS", "THREADLINE_CONVERSATION_QUIET", "THREADLINE_CONVERSATION_MODEL_PATIENCE"),
    *("THREADLINE_CONVERSATION_CONTEXT_TOKENS", "THREADLINE_CONVERSATION_RETENTION_DAYS", "THREADLINE_TOOL_LOG_DAYS"),
    *("THREADLINE_MEMORY_DAYS", "THREADLINE_OPERATOR_CONTEXT_TOKENS", "THREADLINE_MUTATIONS_PER_MINUTE"),
    *("THREADLINE_APPROVERS", "THREADLINE_APPROVAL_EXPIRY"),
    *("THREADLINE_DECISION_HIGH", "THREADLINE_DECISION_LOW", "THREADLINE_DECISION_QUESTIONS"),
    *("THREADLINE_SENSITIVE_WORDS", "THREADLINE_HANDOVER_REMINDER"),
    "THREADLINE_DECISION_VARIANTS",
)

GATEWAY = (*TEMPORAL, *_KEYS, *_LOG, *_SLACK, *_CHANNELS, "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "DATABASE_URL")
_WORKER = ("THREADLINE_CACHED_WORKFLOWS", "DATABASE_URL", "GITHUB_TOKEN", "GITHUB_API_URL")
_EXPLAINING = ("THREADLINE_TEMPORAL_UI",)
"""For the command, which is run where the core worker is."""
CORE = (
    *(*TEMPORAL, *_KEYS, *_LOG, *_SLACK, *_CHANNELS, *_LIMITS, *_CODE, *_DEPLOYMENT),
    *(*_OPENAI, *_TALK, *_REMOTE, *_WORKER, *_EXPLAINING),
)
AGENTS = (*TEMPORAL, *_KEYS, *_LOG, *_CODE, *_MODEL, "THREADLINE_AGENT_DATABASE_URL")
"""No Slack token, no push credential, no owner of the database: what an agent cannot reach it cannot leak."""

CODEC = (*_KEYS, *_LOG, "THREADLINE_CODEC_TOKEN", "THREADLINE_CODEC_ORIGINS")
"""It has the keys and a port, and no way to what is encrypted."""

COMMANDS = tuple(dict.fromkeys((*GATEWAY, *CORE, *AGENTS)))
"""For the commands that look into a running stack: `cases`, `doctor`, `explain`, `replay`."""


def without_a_service(given: Mapping[str, str]) -> tuple[str, ...]:
    """Of `SERVICES`, those that the caller's environment does not name; one that it names in part is the caller's."""
    return tuple(prefix for prefix in SERVICES if not any(name.startswith(prefix) for name in given if given[name]))


def pick(source: Mapping[str, str], *names: Iterable[str]) -> dict[str, str]:
    """Those of the named variables that are set to something."""
    return {name: source[name] for group in names for name in group if source.get(name)}
