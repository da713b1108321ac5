"""Composes emails and hands them to the mail server.

An email that the server refuses was not sent. If the server does not answer after the text, the
outcome is unknown. Its replies: https://www.rfc-editor.org/rfc/rfc5321#section-4.2 (4yz may be
tried again, 5yz may not).
"""

import hashlib
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from email import policy
from email.errors import MessageError
from email.header import Header
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from email.policy import EmailPolicy
from email.utils import format_datetime, parseaddr

import aiosmtplib
import structlog

from threadline.db.rate_limits import Rate
from threadline.errors import NotDone, Permanent, Transient
from threadline.sales.model import MailAccount, Tls

_MAX_PLAIN_WORD = 60
"""Characters of the longest word that fits on a line of a header, after the header's name."""


class _WholeHeaders(EmailPolicy):
    """Encodes a subject, and a sender's name, as a whole.

    The standard library encodes single words of them, and loses blanks between two encoded words
    where it folds a line. See https://github.com/python/cpython/issues/144156.
    """

    def fold_binary(self, name: str, value: str) -> bytes:
        if name == "Subject":
            return self._header(name, _encode(name, value))
        if name == "From" and not value.isascii():
            display_name, address = parseaddr(value)
            return self._header(name, f"{_encode(name, display_name)}\n <{address}>")
        return super().fold_binary(name, value)

    def _header(self, name: str, encoded: str) -> bytes:
        return f"{name}: {encoded}\n".replace("\n", self.linesep).encode("ascii")


def _encode(name: str, text: str) -> str:
    fits_lines = all(len(word) <= _MAX_PLAIN_WORD for word in text.split())
    charset = "us-ascii" if text.isascii() and fits_lines else "utf-8"
    return Header(text, charset, header_name=name).encode()


_SEVEN_BITS = _WholeHeaders(linesep="\r\n", cte_type="7bit")
"""A form that any server accepts."""


@dataclass(frozen=True)
class EmailSettings:
    """The sender of emails and their limits.

    `domains`: email outside of these always needs an approval; a subdomain is outside.
    `fits_approval`: whether an approval shows the whole email; one that no approver can read in
    full is not drafted. `rate`: emails to one address in a time.
    """

    fits_approval: Callable[[Mapping[str, str]], bool]
    sender: str = ""
    domains: Collection[str] = ()
    rate: Rate | None = None

    def is_allowed(self, recipient: str) -> bool:
        """Return whether mail may go to the domain of an address without an approval."""
        return recipient.rpartition("@")[2] in self.domains


def compose_message(
    sender: str, recipient: str, subject: str, body: str, message_id: str, at: datetime
) -> EmailMessage:
    """Return a plain text message to one address (RFC 5322).

    The bytes are parsed again, since the standard library decodes text that looks encoded: the
    result must have exactly these headers, this subject, and only this recipient.

    Args:
        sender: An address, with a name if it has one.
        at: The time of sending, with its zone.

    Raises:
        ValueError: A header holds a line break, or would be parsed as another text.
    """
    message = EmailMessage(policy=_SEVEN_BITS)
    message["From"] = sender
    message["To"] = recipient
    message["Subject"] = subject
    message["Date"] = format_datetime(at)
    message["Message-ID"] = message_id
    message.set_content(body)
    unlike = "a header of the mail would decode to a different text"
    try:
        read = BytesHeaderParser(policy=policy.SMTP).parsebytes(message.as_bytes())
    except MessageError:
        raise ValueError(unlike) from None
    recipients = {read["To"], message["To"]}
    subjects = {read["Subject"], message["Subject"]}
    if read.keys() != message.keys() or recipients != {recipient} or subjects != {subject}:
        raise ValueError(unlike)
    return message


def make_message_id(operation_key: str, sender: str) -> str:
    """Return an id that is the same for the same operation, so that a mailbox recognises a
    duplicate.
    """
    digest = hashlib.sha256(operation_key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"<{digest}@{parseaddr(sender)[1].rpartition('@')[2]}>"


TIMEOUT = 5.0
"""Seconds for each step; the tool's own limit covers all steps."""
_ACCOUNT = "The mail server does not accept the account: check THREADLINE_SMTP_URL."
_AWAY = "The mail server could not be reached: check THREADLINE_SMTP_URL, and the network."
_NO_TLS = (
    "The mail server offers no encryption (STARTTLS), so nothing was sent: use an address with "
    "smtps:// or another port, or ?tls=none for a server on this machine."
)
_UNTRUSTED = (
    "The mail server's certificate is not trusted, so nothing was sent: check THREADLINE_SMTP_URL."
)


class SmtpMailer:
    """Hands emails to a mail server. It connects for each email: emails are few, and servers close
    idle connections.

    `tls`: checks the server's certificate; None for the machine's own list.
    """

    setup_hint = "Set THREADLINE_SMTP_URL, THREADLINE_SMTP_FROM and THREADLINE_EMAIL_DOMAINS."

    def __init__(
        self, account: MailAccount, *, tls: ssl.SSLContext | None = None, timeout: float = TIMEOUT
    ) -> None:
        self._account = account
        self._tls = tls
        self._timeout = timeout

    async def check(self) -> None:
        """Log in. Raises like `send`."""
        async with self._connected():
            pass

    async def send(self, message: EmailMessage) -> None:
        """Hand over one email.

        Raises:
            Permanent: the server refuses the email; nothing was sent.
            NotDone: the server is away or asks to wait; nothing was sent.
            Transient: the connection broke after the text, or the answer was neither a refusal nor
                250, so the email may have been sent.
        """
        sender, recipient = (parseaddr(str(message[name]))[1] for name in ("From", "To"))
        async with self._connected() as server:
            with _before_text():
                await server.mail(sender)
                await server.rcpt(recipient)
            try:
                await server.data(message.as_bytes())
            except (aiosmtplib.SMTPException, OSError) as error:
                _log_failure(error)
                # The library gives an unreadable reply a code below those of SMTP.
                if isinstance(error, aiosmtplib.SMTPResponseException) and 400 <= error.code < 600:
                    raise _reply_error(error) from None
                raise Transient("The mail server did not confirm the mail.") from None

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[aiosmtplib.SMTP]:
        account = self._account
        server = aiosmtplib.SMTP(
            hostname=account.host,
            port=account.port,
            timeout=self._timeout,
            use_tls=account.tls is Tls.IMPLICIT,
            start_tls=False,
            tls_context=self._tls,
        )
        with _before_text():
            await server.connect()
        try:
            with _before_text():
                if account.tls is Tls.STARTTLS:
                    await server.ehlo()
                    if not server.supports_extension("starttls"):
                        raise Permanent(_NO_TLS)
                    await server.starttls()
                if account.user:
                    await server.login(account.user, account.password.get_secret_value())
            yield server
        finally:
            # The server's answer to the text is known by then.
            with suppress(aiosmtplib.SMTPException, OSError):
                await server.quit()
            server.close()


@contextmanager
def _before_text() -> Iterator[None]:
    """Translate errors before the text of an email into `Permanent` or `NotDone`: nothing was sent
    then. They have no cause, since the library's own text repeats the server's.
    """
    try:
        yield
    except (aiosmtplib.SMTPException, OSError) as error:
        _log_failure(error)
        raise _translated(error) from None


def _translated(error: Exception) -> Permanent | NotDone:
    if isinstance(error, ssl.SSLCertVerificationError) or isinstance(
        error.__cause__, ssl.SSLCertVerificationError
    ):
        return Permanent(_UNTRUSTED)
    match error:
        case aiosmtplib.SMTPAuthenticationError() if error.code < 500:
            return NotDone("The mail server cannot check the account now.")
        case aiosmtplib.SMTPAuthenticationError() | aiosmtplib.SMTPNotSupported():
            return Permanent(_ACCOUNT)
        case aiosmtplib.SMTPResponseException():
            return _reply_error(error)
        case aiosmtplib.SMTPRecipientsRefused() if error.recipients:
            return _reply_error(error.recipients[0])
        case _:
            return NotDone(_AWAY)


def _reply_error(refused: aiosmtplib.SMTPResponseException) -> Permanent | NotDone:
    """Return the error for a reply, by its code only: its text may name hosts and people."""
    if 400 <= refused.code < 500:
        return NotDone(
            f"The mail server asks to wait (code {refused.code}), and the mail was not sent."
        )
    whom = (
        "the recipient: check the address"
        if isinstance(refused, aiosmtplib.SMTPRecipientRefused)
        else "the mail"
    )
    if isinstance(refused, aiosmtplib.SMTPSenderRefused):
        whom = "the sender: check THREADLINE_SMTP_FROM"
    return Permanent(f"The mail server refuses {whom} (code {refused.code}). Nothing was sent.")


def _log_failure(error: Exception) -> None:
    structlog.get_logger().info(
        "mail_failed", error=type(error).__name__, code=getattr(error, "code", None)
    )
