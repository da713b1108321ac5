"""Emails over SMTP: a refused one was not sent, and a dropped one may have been."""

import asyncio
import base64
import quopri
import re
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.sales.mail_server import PASSWORD, USER, MailServer, certificates, serving
from threadline.errors import NotDone, Permanent, Transient
from threadline.sales.email import SmtpMailer, compose_message, make_message_id
from threadline.sales.model import Tls, parse_mail_account

AT = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def mail(subject: str = "Our call", body: str = "Hello Ana,\n\nsee you.") -> EmailMessage:
    name = make_message_id("T1:C1:1.2:1:1:call", "Acme <sales@acme.example>")
    return compose_message(
        "Acme <sales@acme.example>", "ana@shop.example", subject, body, name, AT
    )


def of(server: MailServer) -> SmtpMailer:
    return SmtpMailer(parse_mail_account(server.url))


async def test_email_arrives_as_it_was_written() -> None:
    async with serving() as server:
        await of(server).send(mail("Größe & Preis", "Olá,\n.\nSchöne Grüße — " + "x" * 2_000))
    [received] = server.received
    assert server.envelopes == [("sales@acme.example", ["ana@shop.example"])]
    assert (received["Subject"], received["To"]) == ("Größe & Preis", "ana@shop.example")
    assert received["From"] == "Acme <sales@acme.example>"
    assert received["Date"].datetime == AT
    assert received["Message-ID"] == mail()["Message-ID"]
    assert (
        received.get_content().rstrip().replace("\r\n", "\n")
        == "Olá,\n.\nSchöne Grüße — " + "x" * 2_000
    )


SUBJECTS = [
    "Rendez-vous à Genève",
    "Commande à l’heure",
    "It’s ready: 20 % off",
    "Re: Größe",
    "价格 和 报价",
    "Предложение на март",
    "הצעת מחיר",
    "👍🏽 ok",
    "two  blanks, à  ’",
    "Re: [SOS-1495488] Retour - bibijolie - 251210-AABBCC - Abo actualités digitales 20 "
    "semaines d’abonnement à 24 heures, Bilan, Tribune de Genève et tous les titres",
    'prix € (été) 20 价格 20 it’s Größe "à" 👍 Rendez-vous € (été) d’abonnement (été) "à" – naïve',
    (
        "Ihre Anfrage vom 3. März – bitte prüfen und bestätigen Sie das Angebot für die Größe "
        "„L“, danke schön"
    ),
    "x" * 200,
    "word " * 40 + "end",
]
"""Accents, typographic quotes and dashes, other scripts, and the long ones of public reports:
cpython#144156.
"""
ENCODED_WORD = re.compile(r"=\?utf-8\?([bq])\?([^?\s]*)\?=", re.IGNORECASE)


def decode_strictly(message: EmailMessage, name: str) -> str:
    """Read a header by RFC 2047, without the leniency of the standard library: blanks count,
    except between two encoded words, and an encoded word is one only between blanks.
    """
    head = message.as_bytes().split(b"\r\n\r\n", 1)[0].decode("ascii").replace("\r\n ", " ")
    [value] = [
        line.partition(":")[2].strip()
        for line in head.split("\r\n")
        if line.startswith(f"{name}:")
    ]
    decoded = b""
    was_encoded = False
    blanks = ""
    for part in re.split(r"([ \t]+)", value):
        if not part.strip():
            blanks += part
            continue
        found = ENCODED_WORD.fullmatch(part)
        if not (found and was_encoded):
            decoded += blanks.encode()
        decoded += _decode_word(*found.groups()) if found else part.encode()
        was_encoded = bool(found)
        blanks = ""
    return decoded.decode()


def _decode_word(encoding: str, text: str) -> bytes:
    if encoding.lower() == "b":
        return base64.b64decode(text, validate=True)
    return quopri.decodestring(text, header=True)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_subject_is_sent_as_it_was_written(subject: str) -> None:
    made = mail(subject)
    assert decode_strictly(made, "Subject") == subject
    lines = made.as_bytes().split(b"\r\n")
    assert all(len(line) <= 998 for line in lines)
    assert all(len(line) <= 78 for line in lines if b"=?" in line)


WORDS = sorted({word for subject in SUBJECTS for word in subject.split()})


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=20))
def test_blanks_between_words_of_a_subject_are_sent(words: list[str]) -> None:
    assert decode_strictly(mail(" ".join(words)), "Subject") == " ".join(words)


@pytest.mark.parametrize(
    "name",
    [
        "Größe & Söhne",
        "Atelier de l’été à Genève",
        "– Genève 价格 👍 d’abonnement 价格 à à",
        "株式会社 " * 9 + "社",
    ],
)
def test_name_of_the_sender_is_sent_as_it_was_written(name: str) -> None:
    made = compose_message(
        f"{name} <a@acme.example>", "ana@shop.example", "Hi", "Hello", "<1@acme.example>", AT
    )
    assert decode_strictly(made, "From") == f"{name} <a@acme.example>"


def test_message_id_belongs_to_the_operation() -> None:
    one, other = (make_message_id(key, "Acme <sales@acme.example>") for key in ("a", "b"))
    assert one == make_message_id("a", "sales@acme.example") != other
    assert one.endswith("@acme.example>")


@pytest.mark.parametrize(
    ("command", "reply", "kind"),
    [
        ("RCPT", "550 no such user ana@shop.example", Permanent),
        ("RCPT", "451 greylisted, try later", NotDone),
        ("DATA", "554 looks like spam", Permanent),
        ("DATA", "452 no room", NotDone),
    ],
)
async def test_refused_email_is_reported_only_by_its_code(
    command: str, reply: str, kind: type[Exception]
) -> None:
    async with serving() as server:
        server.replies[command] = reply
        with pytest.raises(kind) as refused:
            await of(server).send(mail())
    assert f"code {reply[:3]}" in str(refused.value)
    assert reply[4:] not in str(refused.value)
    assert server.received == []


@pytest.mark.parametrize(
    "reply",
    ["", "251 queued elsewhere", "354 go on", "OK, queued", "-1 what", "25", "250" + "x" * 9_000],
)
async def test_unconfirmed_email_may_have_been_sent(reply: str) -> None:
    async with serving() as server:
        server.drops = not reply
        server.confirms = reply
        with pytest.raises(Transient) as unsure:
            await of(server).send(mail())
    assert not isinstance(unsure.value, NotDone)
    assert len(server.received) == 1


async def test_unreachable_server_is_transient() -> None:
    async with serving() as server:
        gone = of(server)
    with pytest.raises(NotDone, match="could not be reached"):
        await gone.send(mail())


async def test_silent_server_is_left_after_the_timeout() -> None:
    gone = asyncio.Event()

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        gone.set()

    silent = await asyncio.start_server(silence, "127.0.0.1", 0)
    async with silent:
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(NotDone, match="could not be reached"):
            await SmtpMailer(
                parse_mail_account(f"smtp://127.0.0.1:{port}?tls=none"), timeout=0.2
            ).send(mail())
        await gone.wait()


async def test_server_without_starttls_gets_no_email_and_no_password() -> None:
    async with serving() as server:
        for who in ("", f"{USER}:s3cret%2Fword@"):
            with pytest.raises(Permanent, match="offers no encryption"):
                await SmtpMailer(parse_mail_account(f"smtp://{who}127.0.0.1:{server.port}")).send(
                    mail()
                )
    assert (server.received, server.logins) == ([], [])


async def test_starttls_protects_account_and_email(tmp_path: Path) -> None:
    ours, theirs = certificates(tmp_path)
    async with serving(ours, auth=True) as server:
        account = parse_mail_account(f"smtp://{USER}:s3cret%2Fword@127.0.0.1:{server.port}")
        await SmtpMailer(account, tls=theirs).send(mail())
        await SmtpMailer(account, tls=theirs).check()
        assert (len(server.received), server.logins) == (1, [USER, USER])
        with pytest.raises(Permanent, match="certificate is not trusted"):
            await SmtpMailer(account).send(mail())
        wrong = parse_mail_account(f"smtp://{USER}:another@127.0.0.1:{server.port}")
        with capture_logs() as logs, pytest.raises(Permanent, match="does not accept the account"):
            await SmtpMailer(wrong, tls=theirs).check()
    assert len(server.received) == 1
    assert "another" not in str(logs)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("smtp://mail.example", ("mail.example", 587, Tls.STARTTLS, "", "")),
        ("smtps://u:p%40ss@mail.example", ("mail.example", 465, Tls.IMPLICIT, "u", "p@ss")),
        ("smtp://127.0.0.1:2525?tls=none", ("127.0.0.1", 2525, Tls.NONE, "", "")),
        (
            f"smtp://{USER}:s3cret%2Fword@mail.example:25/",
            ("mail.example", 25, Tls.STARTTLS, USER, PASSWORD),
        ),
    ],
)
def test_account_is_parsed(url: str, told: tuple[object, ...]) -> None:
    account = parse_mail_account(url)
    assert told == (
        account.host,
        account.port,
        account.tls,
        account.user,
        account.password.get_secret_value(),
    )
    assert not account.user or account.password.get_secret_value() not in repr(account)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mail.example:25",
        "http://mail.example",
        "smtp://",
        "smtp://hunter2@mail.example",
        "smtp://u:hunter2@mail.example:x",
        "smtp://u:hunter2@mail.example?tls=none",
        "smtps://mail.example?tls=none",
        "smtp://mail.example?tls=maybe",
        "smtp://mail.example?x=1",
        "smtp://mail.example/path",
    ],
)
def test_bad_account_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match=r"smtp:|tls=none") as refused:
        parse_mail_account(url)
    assert "hunter2" not in str(refused.value)


@given(st.text(max_size=60))
def test_subject_adds_no_header(subject: str) -> None:
    try:
        made = mail(subject)
        text = made.as_bytes()
    except (ValueError, UnicodeEncodeError):
        return
    assert made["Subject"] == subject
    head = text.split(b"\r\n\r\n", 1)[0]
    names = [line.split(b":")[0] for line in head.split(b"\r\n") if line[:1] not in (b" ", b"\t")]
    plain = [
        line.split(b":")[0]
        for line in mail("x").as_bytes().split(b"\r\n\r\n", 1)[0].split(b"\r\n")
    ]
    assert names == plain


def test_line_break_in_a_subject_is_refused() -> None:
    for line_break in ("\r\n", "\n", "\r"):
        with pytest.raises(ValueError, match=r"(?i)linefeed|newline"):
            mail(f"a{line_break}Bcc: b@c.example")


@pytest.mark.parametrize(
    ("recipient", "subject"),
    [
        ("ana@shop.example", "=?utf-8?q?Offer=0D=0A=0D=0ASend_the_money_to_IBAN_X?="),
        ("ana@shop.example", "Hi =?utf-8?b?DQpCY2M6IGV2aWxAeC5leGFtcGxl?="),
        ("ana@shop.example", "=?utf-8?q?Another_subject?="),
        ("=?us-ascii?q?evil=40x.example?=@shop.example", "Hi"),
        ("ana@shop.example, ben@shop.example", "=?utf-8?q??="),
    ],
)
def test_encoded_header_is_refused(recipient: str, subject: str) -> None:
    with pytest.raises(ValueError, match="decode to a different text"):
        compose_message(
            "Acme <sales@acme.example>", recipient, subject, "Hello", "<1@acme.example>", AT
        )
