"""How a mail server is written down: one address with who sends, and how the way there is kept private."""

from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import SecretStr

_FORM = "write it as smtp://user:password@host:587, or smtps://user:password@host:465"
_SCHEMES = {"smtp": 587, "smtps": 465}


class Tls(StrEnum):
    STARTTLS = "starttls"
    """The server has to offer it: without, nothing is sent."""
    IMPLICIT = "implicit"
    NONE = "none"
    """For a server on this machine that has none."""


@dataclass(frozen=True)
class Account:
    """`user` is empty for a server that asks for none."""

    host: str
    port: int
    tls: Tls
    user: str = ""
    password: SecretStr = field(default_factory=lambda: SecretStr(""))


def parse_account(url: str) -> Account:
    """`smtp://` (with STARTTLS) or `smtps://`; signs of a password that an address has no room for are `%`-encoded.

    Raises:
        ValueError: it is no such address; the message does not repeat it.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise ValueError(_FORM) from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.path.strip("/") or options.keys() - {"tls"}:
        raise ValueError(_FORM)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(user) != bool(password):
        raise ValueError(f"a user and a password go together; {_FORM}")
    tls = Tls.IMPLICIT if parts.scheme == "smtps" else Tls.STARTTLS
    if "tls" in options:
        if options["tls"] != Tls.NONE or tls is Tls.IMPLICIT:
            raise ValueError("the address takes only the parameter ?tls=none, for an smtp:// server without encryption")
        if user:
            raise ValueError("a password is not sent without encryption: leave out ?tls=none, or the user")
        tls = Tls.NONE
    return Account(parts.hostname, port or _SCHEMES[parts.scheme], tls, user, SecretStr(password))
