"""Texts that hold a secret of a known format, and texts that hold none. The secrets are
concatenated from parts, so that no scanner takes this file for a leak. None of them was ever
issued.
"""

import base64
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Secret:
    """`text` is the written message, `value` the part of it that must be gone."""

    kind: str
    text: str
    value: str


def _in(kind: str, before: str, value: str, after: str = "") -> Secret:
    return Secret(kind, before + value + after, value)


def _part(length: int, alphabet: str = "aB3dE5fG7hJ9kLmN2pQ4rS6tU8vW0xYz") -> str:
    return (alphabet * (length // len(alphabet) + 1))[:length]


def _jwt() -> str:
    parts = (
        {"alg": "HS256", "typ": "JWT"},
        {"sub": "1234567890", "name": "A. Person", "iat": 1516239022},
    )
    return ".".join(
        [
            *(
                base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
                for part in parts
            ),
            _part(43),
        ]
    )


def _pem(kind: str, lines: int = 4) -> str:
    body = "\n".join([_part(64)] * lines)
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"


HEX = "0123456789abcdef"
_RSA = _pem("RSA " + "PRIVATE KEY")
_GCP = _pem("PRIVATE " + "KEY").replace("\n", "\\n")
_ENCRYPTED = _RSA.replace(
    "\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF0123456789ABCDEF\n\n", 1
).replace("\n-----END", "\naB3d=\n-----END")

SECRETS: tuple[Secret, ...] = (
    # Code hosts and package registries
    _in("GitHub, classic", "use ", "gh" + "p_" + _part(36), " to clone"),
    _in("GitHub, OAuth", "", "gh" + "o_" + _part(36)),
    _in("GitHub, user", "token: ", "gh" + "u_" + _part(36)),
    _in("GitHub, server", "x-access-token:", "gh" + "s_" + _part(36), "@github.com"),
    _in("GitHub, fine-grained", "`", "github_" + "pat_" + _part(22) + "_" + _part(59), "`"),
    _in("GitLab, personal", "GITLAB=", "gl" + "pat-" + _part(20)),
    _in("GitLab, runner", "", "gl" + "rt-" + _part(20)),
    _in("GitLab, deploy", "docker login with ", "gl" + "dt-" + _part(20)),
    _in("npm", "//registry.example/:_authToken=", "np" + "m_" + _part(36)),
    _in("PyPI", "TWINE: ", "py" + "pi-AgEIcHlwaS5vcmc" + _part(90)),
    _in("RubyGems", "", "ruby" + "gems_" + _part(48, HEX)),
    _in("Docker Hub", "docker login -p ", "dckr_" + "pat_" + _part(27)),
    _in("Artifactory", "key=", "AK" + "Cp5" + _part(30), " "),
    # Clouds
    _in("AWS key id", "aws_access_key_id = ", "AK" + "IA" + "Q3EXAMPLE7Z2K4M6"),
    _in("AWS session key id", "", "AS" + "IA" + "Q3EXAMPLE7Z2K4M6"),
    _in(
        "AWS secret beside its id",
        "AK" + "IA" + "Q3EXAMPLE7Z2K4M6 and then ",
        _part(19) + "/" + _part(20),
    ),
    _in("AWS secret, named", "aws_secret_access_key=", _part(20) + "/" + _part(19)),
    _in("Google API key", "maps fail with key=", "AI" + "za" + _part(35)),
    _in("Google OAuth token", "", "ya" + "29." + _part(60)),
    _in("Google client secret", '"client_secret": "', "GOC" + "SPX-" + _part(28), '"'),
    _in("Google service account", '{"type": "service_account", "private_key": "', _GCP, '\\n"}'),
    _in(
        "Azure storage",
        "DefaultEndpointsProtocol=https;AccountName=x;Account" + "Key=",
        _part(86) + "==",
        ";Suffix",
    ),
    _in(
        "Azure service bus",
        "Endpoint=sb://x/;SharedAccessKeyName=root;SharedAccess" + "Key=",
        _part(43) + "=",
    ),
    _in(
        "Azure SAS",
        "https://x.blob.example/c?sv=2022-11-02&sig=",
        _part(43) + "%3D",
        "&se=2030-01-01",
    ),
    _in("Azure client secret", "AZURE: ", _part(3) + "8Q" + "~" + _part(34)),
    _in("AWS presigned", "https://b.s3.example/k?X-Amz-Date=1&X-Amz-Signature=", _part(64, HEX)),
    _in("DigitalOcean", "", "do" + "p_v1_" + _part(64, HEX)),
    _in("Heroku", "", "HR" + "KU-" + _part(36)),
    _in("Databricks", "host and ", "da" + "pi" + _part(32, HEX)),
    _in("Vault", "VAULT: ", "hv" + "s." + _part(24)),
    _in("Terraform Cloud", "", _part(14) + ".atlas" + "v1." + _part(60)),
    # Models
    _in("Anthropic", "ANTHROPIC_API_KEY=", "sk-" + "ant-api03-" + _part(93) + "AA"),
    _in("OpenAI, legacy", "", "sk-" + _part(20) + "T3Blbk" + "FJ" + _part(20)),
    _in("OpenAI, project", "I used ", "sk-" + "proj-" + _part(60)),
    _in("Hugging Face", "", "hf" + "_" + _part(34)),
    _in("Groq", "", "gs" + "k_" + _part(52)),
    # Chats and mail
    _in("Slack bot", "bot: ", "xox" + "b-1234567890-1234567890123-" + _part(24)),
    _in("Slack user", "", "xox" + "p-1234567890-1234567890-1234567890-" + _part(32, HEX)),
    _in("Slack app", "", "xa" + "pp-1-A0123456789-1234567890123-" + _part(64, HEX)),
    _in("Slack rotating", "", "xox" + "e.xox" + "p-1-" + _part(160)),
    _in("Slack webhook", "https://hooks.slack.com/services/", "T01234567/B01234567/" + _part(24)),
    _in("Discord bot", "", "MT" + _part(22) + "." + _part(6) + "." + _part(27)),
    _in("Discord webhook", "https://discord.com/api/webhooks/", "123456789012345678/" + _part(68)),
    _in("Telegram bot", "https://api.telegram.example/bot123456789:", "AA" + _part(33), "/getMe"),
    _in("SendGrid", "", "SG" + "." + _part(22) + "." + _part(43)),
    _in("Mailchimp", "", _part(32, HEX) + "-us" + "12"),
    _in("Mailgun", "", "ke" + "y-" + _part(32, HEX)),
    _in("Twilio", "sid ", "S" + "K" + _part(32, HEX)),
    # Payment and products
    _in("Stripe, live", "", "sk_" + "live_" + _part(24)),
    _in("Stripe, test", "STRIPE=", "sk_" + "test_" + _part(24)),
    _in("Stripe, restricted", "", "rk_" + "live_" + _part(24)),
    _in("Stripe webhook", "", "wh" + "sec_" + _part(32)),
    _in("Square", "", "sq0" + "csp-" + _part(43)),
    _in("Shopify", "", "shp" + "at_" + _part(32, HEX)),
    _in("Linear", "", "lin_" + "api_" + _part(40)),
    _in("Notion", "", "nt" + "n_" + _part(46)),
    _in("Atlassian", "", "ATA" + "TT3" + _part(180)),
    _in("Grafana", "", "gls" + "a_" + _part(32) + "_1a2b3c4d"),
    _in("New Relic", "", "NR" + "AK-" + "Q3EXAMPLE7Z2K4M6Q3EXAMPLE7Z"),
    _in("Sentry", "", "snt" + "rys_" + _part(60)),
    _in("Figma", "", "fig" + "d_" + _part(40)),
    _in("Google refresh token", "", "1/" + "/0" + _part(60)),
    _in("crates.io", "", "ci" + "o" + _part(32)),
    _in("Facebook", "", "EA" + "A" + _part(120).replace("-", "a")),
    _in("Supabase", "", "sb" + "p_" + _part(40, HEX)),
    _in("PlanetScale", "", "pscale_" + "tkn_" + _part(43)),
    _in("Doppler", "", "dp" + ".st." + _part(43)),
    _in("Airtable", "", "pa" + "t" + _part(14) + "." + _part(64, HEX)),
    _in("Postman", "", "PM" + "AK-" + _part(24, HEX) + "-" + _part(34, HEX)),
    _in("Pulumi", "", "pu" + "l-" + _part(40, HEX)),
    _in("a key of another model", "", "s" + "k-" + _part(32, HEX)),
    # Keys
    _in("encrypted private key", "", _ENCRYPTED),
    _in("private key in one line", "", _RSA.replace("\n", " ")),
    _in("private key in a quotation", "", _RSA.replace("\n", "\n&gt; ")),
    _in("RSA private key", "the key is\n", _RSA, "\nand it does not work"),
    _in("OpenSSH private key", "", _pem("OPENSSH " + "PRIVATE KEY", 8)),
    _in("EC private key", "", _pem("EC " + "PRIVATE KEY", 2)),
    _in("PGP private key", "", _pem("PGP " + "PRIVATE KEY BLOCK")),
    _in(
        "private key that was cut off",
        "",
        "-----BEGIN " + "PRIVATE KEY-----\n" + _part(64) + "\n" + _part(40),
    ),
    _in("PuTTY key", "Private-" + "Lines: 2\n", _part(64) + "\n" + _part(40), "\nPrivate-MAC: 00"),
    _in("age key", "", "AGE-SECRET-" + "KEY-1" + "Q3EXAMPLE7Z2K4M6" * 4),
    _in("JSON Web Token", "the request has ", _jwt(), " in it"),
    # Headers and addresses
    _in("bearer", "Authorization: Bearer ", _part(40)),
    _in(
        "basic",
        "curl -H 'Authorization: Basic ",
        base64.b64encode(b"admin:" + b"hunter2hunter2").decode(),
        "'",
    ),
    _in("basic, letters alone", "Authorization: Basic ", base64.b64encode(b"user:pass").decode()),
    _in("X-Api-Key", "X-Api-Key: ", _part(32, HEX)),
    _in("Postgres", "postgres://shop:", "s3cr3t" + "-pw", "@db.example:5432/shop"),
    _in("MySQL with an @", "mysql://root:", "p@ss" + "w0rd!", "@10.0.0.1/app"),
    _in(
        "MongoDB", "mongodb+srv://app:", "Zx9" + "kLmQ2", "@cluster0.example.net/?retryWrites=true"
    ),
    _in("Redis", "redis://:", "r3dis" + "pass", "@cache:6379/0"),
    _in("AMQP", "amqp://guest:", "guest" + "guest", "@mq:5672/"),
    _in(
        "address as Slack links it",
        "<https://bob:",
        "letme" + "in99",
        "@jira.example/browse/X|jira>",
    ),
    _in(
        "address that Slack takes for mail",
        "postgres://u:",
        "<mailto:" + "hun" + "ter2@db.example|x@db.example>",
        "/x",
    ),
    _in(
        "ADO.NET",
        "Server=db;Database=x;User Id=sa;Pass" + "word=",
        "correct" + "horse",
        ";Encrypt=true",
    ),
    _in("JDBC", "jdbc:mysql://db/x?user=app&pass" + "word=", "hun" + "terhunter", "&useSSL=true"),
    _in("token in a query", "https://api.example/v1?access_token=", _part(30), "&page=2"),
    _in("token in front of a host", "https://", "a1B2" * 8, "@git.example/x.git"),
    _in("session in a cookie", "Cookie: theme=dark; session=", _part(40)),
    _in("Java session", "GET /cart;JSESSIONID=", _part(32, HEX)),
    _in("bearer, in a sentence", "I sent Bearer ", _part(40), " and got 401"),
    # People's words
    _in("password is", "my password is ", "hun" + "ter2", ", can you look?"),
    _in("password:", "password: ", "Sommer" + "2024!"),
    _in("Password in bold", "*Password:* `", "Tr0ub4dor" + "&amp;3", "`"),
    _in("password for", "the password for the staging admin is ", "Qwerty" + "12345"),
    _in("password, no verb", "log in with password ", "Summer" + "2024!"),
    _in("German", "Passwort: ", "geh" + "eim99"),
    _in("environment", "DB_PASS" + "WORD=", "swordfish"),
    _in("YAML", "db:\n  user: x\n  pass" + "word: ", "s3cr3t" + "pw"),
    _in("JSON", '{"user": "bob", "password": "', "hun" + "ter2", '"}'),
    _in("JSON, escaped", '{\\"password\\": \\"', "hun" + "ter2", '\\"}'),
    _in("Python", "PASS" + 'WORD = "', "swordfish", '"'),
    _in("Spring", "spring.datasource.password=", "letme" + "in", "\nspring.jpa.show-sql=true"),
    _in("Spring, as YAML", "spring.datasource.password: ", "correct" + "horse"),
    _in("properties", "db.password=", "correct" + "horse"),
    _in("JSON, letters and a hyphen", '{"password": "', "correct" + "-horse", '"}'),
    _in("JSON, client secret of letters", '{"client_secret": "', "abcdef" + "ghijkl", '"}'),
    _in("client secret of letters", "client_secret=", "abcdef" + "ghijkl"),
    _in("api key", "api_key: ", _part(32, HEX)),
    _in("client secret", "client_secret=", _part(30)),
    _in("Django", "SECRET_KEY = '", "django-insecure-" + "9$x!k2_m" + _part(30), "'"),
    _in("command line", "mysqldump --host db --password=", "hun" + "ter2", " shop"),
    _in("mysql", "mysql -u root -p", "hun" + "ter2", " shop"),
    _in("curl", "curl -u admin:", "hun" + "ter2", " https://x.example"),
    _in("user and pass", "user: bob, pass: ", "hun" + "ter2"),
    _in("pass=", "run it with pass=", "hun" + "ter2"),
    _in("an option", "app --api-key ", "hun" + "ter2hunter2", " --verbose"),
    _in("the token is", "the token is ", _part(24)),
    _in("the secret is", "the secret is ", "s3" + "cr3t"),
    _in("secret:", "client_secret: ", "s3" + "cr3t99"),
    _in("sshpass", "sshpass -p ", "hun" + "ter2", " ssh x"),
    # Secrets that the rules do not know: counted, and listed in docs/security.md
    _in("only letters, in a sentence", "my password is ", "correcthorse"),
    _in("only letters, under a plain name", "password: ", "letme" + "in"),
    _in("only letters, with blanks around the sign", "db.password = ", "correct" + "horse"),
    _in("only letters, as an argument", "connect(password=", "correct" + "horse", ", host=db)"),
    _in("only letters, a token", '{"token": "', "abcdef" + "ghijkl", '"}'),
    _in("only letters, joined by a line", '{"password": "', "correct" + "_horse", '"}'),
    _in("a passphrase of words", "the passphrase is ", "correct horse battery staple"),
    _in("without any word that says so", "log in as admin with ", "hun" + "ter2"),
    _in("a session's id, as a column", "session_id ", _part(40)),
    _in("Datadog, bare hexadecimal", "", _part(32, HEX)),
)
