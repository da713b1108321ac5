"""The address of a repository: its name, its URL without credentials, and the credentials
separately.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import SecretStr

from threadline.errors import Permanent

_SCP_LIKE = re.compile(r"(?:[^@/\s]+@)?(?P<host>[^:/\s]{2,}):(?P<path>(?!//).+)")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# The shell only sees names of variables: the secret is in the environment, never in an argument
# list.
_HELPER = (
    "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n'"
    ' "$THREADLINE_GIT_USER" "$THREADLINE_GIT_PASSWORD"; }; f'
)


@dataclass(frozen=True)
class Remote:
    """A repository's address for git: a path or URL that is safe to show and store, and the
    credentials.
    """

    url: str
    user: str = ""
    password: SecretStr | None = None

    @classmethod
    def parse(cls, url: str) -> "Remote":
        """Split the credentials from `https://user:password@host/…`; a path or any other form
        stays unchanged.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.username is None:
            return cls(url)
        bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        user = unquote(parts.username)
        password = unquote(parts.password or "")
        # A token without a user is often written in the user's place.
        return (
            cls(bare, user, SecretStr(password))
            if password
            else cls(bare, "x-access-token", SecretStr(user))
        )

    def with_token(self, token: SecretStr) -> "Remote":
        return replace(self, user="x-access-token", password=token)

    @property
    def is_path(self) -> bool:
        return urlsplit(self.url).scheme in ("", "file") and self.host == ""

    @property
    def host(self) -> str:
        """The machine, without its port; empty for a path."""
        if "://" in self.url:
            return urlsplit(self.url).hostname or ""
        match = _SCP_LIKE.fullmatch(self.url)
        return match["host"] if match else ""

    @property
    def path(self) -> str:
        if "://" in self.url:
            return urlsplit(self.url).path
        match = _SCP_LIKE.fullmatch(self.url)
        return match["path"] if match else self.url

    @property
    def slug(self) -> str:
        """`owner/name`, in the hosts' notation."""
        return "/".join(self.path.rstrip("/").removesuffix(".git").split("/")[-2:])

    @property
    def link(self) -> str:
        """A URL for people."""
        if self.is_path:
            return self.url if "://" in self.url else Path(self.url).resolve().as_uri()
        return self.url if "://" in self.url else f"ssh://{self.host}/{self.path}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables that let git log in at this origin only."""
        if not self.password:
            return {}
        parts = urlsplit(self.url)
        return {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"credential.{parts.scheme}://{parts.netloc}.helper",
            "GIT_CONFIG_VALUE_0": _HELPER,
            "THREADLINE_GIT_USER": self.user,
            "THREADLINE_GIT_PASSWORD": self.password.get_secret_value(),
        }


def repositories_by_name(urls: Sequence[str]) -> dict[str, str]:
    """Return repositories by the name of their folder: `https://host/acme/shop.git` is `shop`.

    Raises:
        Permanent: two have the same name, or a name cannot be a folder in a workspace.
    """
    named: dict[str, str] = {}
    for url in urls:
        remote = Remote.parse(url.strip())
        name = remote.path.rstrip("/").rpartition("/")[2].removesuffix(".git")
        if not _NAME.fullmatch(name) or name.lower() == "attachments":
            raise Permanent(
                f"{remote.url!r} in THREADLINE_REPO has no usable name: let it end in a name "
                "such as shop.git"
            )
        if name.lower() in map(str.lower, named):
            raise Permanent(
                f"two repositories in THREADLINE_REPO are called {name}: give one of them "
                "another name"
            )
        named[name] = url.strip()
    return named
