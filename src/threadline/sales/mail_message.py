"""Mails as they travel: RFC 5322, made by the standard library and read back, since it decodes what looks encoded."""

import hashlib
from datetime import datetime
from email import policy
from email.errors import MessageError
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from email.utils import format_datetime, parseaddr

_SEVEN_BITS = policy.SMTP.clone(cte_type="7bit")
"""What any server takes."""


def composed(sender: str, recipient: str, subject: str, body: str, message_id: str, at: datetime) -> EmailMessage:
    """One plain text to one address, which says in each header what it was given.

    Args:
        sender: an address, with a name if it has one.
        at: when it is sent, with its zone.

    Raises:
        ValueError: a header holds a line break, or would be read as something else.
    """
    message = EmailMessage(policy=_SEVEN_BITS)
    message["From"] = sender
    message["To"] = recipient
    message["Subject"] = subject
    message["Date"] = format_datetime(at)
    message["Message-ID"] = message_id
    message.set_content(body)
    if not _says(message, recipient, subject):
        raise ValueError("a header of the mail would decode to another text than was written")
    return message


def _says(message: EmailMessage, recipient: str, subject: str) -> bool:
    """Whether the bytes have these headers and no others, and go to this recipient alone."""
    try:
        read = BytesHeaderParser(policy=policy.SMTP).parsebytes(message.as_bytes())
    except MessageError:
        return False
    kept = (read.keys(), read["To"], message["To"], message["Subject"])
    return kept == (message.keys(), recipient, recipient, subject)


def message_id(operation_key: str, sender: str) -> str:
    """The same for the same operation: a mailbox that gets a mail twice can tell."""
    digest = hashlib.sha256(operation_key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"<{digest}@{parseaddr(sender)[1].rpartition('@')[2]}>"
