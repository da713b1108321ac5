"""A real mail server on a free port of this machine, which accepts, refuses and drops mails as its
test sets.
"""

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import SMTP as POLICY
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER = "sales"
PASSWORD = "s3cret/word"


class MailServer:
    """`replies`: replies to RCPT or DATA instead of accepting them; `confirms`: the reply after a
    mail is stored; `drops`: it hangs up there without a reply.
    """

    def __init__(self) -> None:
        self.port = 0
        self.received: list[EmailMessage] = []
        self.envelopes: list[tuple[str, list[str]]] = []
        self.logins: list[str] = []
        self.replies: dict[str, str] = {}
        self.confirms = "250 OK"
        self.drops = False

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}?tls=none"

    async def handle_RCPT(  # noqa: N802 - the server looks for the command by this name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if "RCPT" not in self.replies:
            envelope.rcpt_tos.append(address)
        return self.replies.get("RCPT", "250 OK")

    async def handle_DATA(  # noqa: N802 - as above
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if refused := self.replies.get("DATA"):
            return refused
        content = envelope.content
        assert isinstance(content, bytes)
        message = BytesParser(policy=POLICY).parsebytes(content)
        assert isinstance(message, EmailMessage)
        self.received.append(message)
        self.envelopes.append((str(envelope.mail_from), list(envelope.rcpt_tos)))
        if self.drops:
            assert isinstance(server.transport, asyncio.Transport)
            server.transport.abort()
        return self.confirms

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append(data.login.decode())
        known = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=known, handled=False)


@asynccontextmanager
async def serving(
    tls: ssl.SSLContext | None = None, *, auth: bool = False
) -> AsyncIterator[MailServer]:
    """Args:
    tls: for STARTTLS; without it, the server has none.
    auth: the server asks for the account.
    """
    mail = MailServer()

    def session() -> SMTP:
        asked: dict[str, Any] = (
            {"authenticator": mail.authenticate, "auth_required": True} if auth else {}
        )
        return SMTP(mail, hostname="mail.test", tls_context=tls, enable_SMTPUTF8=False, **asked)

    server = await asyncio.get_running_loop().create_server(session, "127.0.0.1", 0)
    mail.port = server.sockets[0].getsockname()[1]
    try:
        yield mail
    finally:
        server.close()
        await server.wait_closed()


def certificates(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server's context, for 127.0.0.1, and the context of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail.test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = made.public_bytes(serialization.Encoding.PEM)
    file = folder / "mail.pem"
    file.write_bytes(private + public)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cadata=public.decode())
