"""Mails from a thread: drafted and shown, sent once over a real server, and above a risk only when it is approved."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import text

from tests.sales.customers import Directory
from tests.sales.mail_server import MailServer, serving
from tests.support.tool_desk import Desk
from threadline.approvals.model import ProposedAction, Risk
from threadline.approvals.proposing import Approving, PostgresProposals
from threadline.approvals.tools import PROPOSALS
from threadline.conversations.blocks import answer_of
from threadline.db.engine import Database
from threadline.errors import Transient, Undone
from threadline.sales import email_tools as email
from threadline.sales import tools as crm
from threadline.sales.crm import PostgresCrm
from threadline.sales.email import Smtp
from threadline.sales.email_sending import PostgresOutbox, Sending
from threadline.sales.email_tools import MAILER, OUTBOX
from threadline.sales.mail_account import parse_account
from threadline.sales.tools import CRM
from threadline.tools.context import Ports
from threadline.tools.model import Code, ToolResult

SENDER = "Acme Sales <sales@acme.example>"
OWN, LEAD, NOBODY = "ana@acme.example", "ben@shop.example", "zoe@shop.example"
LETTER = {"subject": "Our call", "body": "Hello,\n\nit was good to talk."}


@dataclass
class Post:
    """A desk with a mail server; `started` are the actions that wait for somebody."""

    desk: Desk
    server: MailServer
    database: Database
    started: list[str] = field(default_factory=list)

    async def drafted(self, to: str = OWN, **more: Any) -> str:
        given: dict[str, Any] = LETTER | more
        return str((await self.desk.done("email.draft", to=to, **given))["draft_id"])

    async def send(self, draft_id: str, **more: Any) -> ToolResult:
        return await self.desk.ask("email.send", draft_id=draft_id, reason="They asked for it.", **more)

    async def action(self) -> ProposedAction:
        async with self.database.begin() as work:
            return await work.proposed_actions.get("T1", self.started[-1])

    async def status(self, draft_id: str = "MAIL-1") -> str:
        query = text("SELECT status FROM email_drafts WHERE draft_id = :id")
        async with self.database.begin() as work:
            return str((await work.connection.execute(query, {"id": draft_id})).scalar_one())


MakePost = Callable[..., Post]


@pytest.fixture
async def make_post(database: Database) -> AsyncIterator[MakePost]:
    async with serving() as server:

        def make(
            free: Risk = Risk.LOW,
            domains: Sequence[str] = ("acme.example", "shop.example"),
            *,
            sets_up_mail: bool = True,
            approvers: Sequence[str] = ("U7",),
        ) -> Post:
            post = Post(Desk(database, ()), server, database)

            async def start(team: str, action_id: str) -> None:
                post.started.append(action_id)

            people = Directory()
            sending = Sending(SENDER, domains, free) if sets_up_mail else Sending()
            ports = (
                Ports()
                .having(CRM, PostgresCrm(database, people))
                .having(OUTBOX, PostgresOutbox(database, people, sending))
                .having(PROPOSALS, PostgresProposals(database, Approving(tuple(approvers)), start))
            )
            if sets_up_mail:
                ports = ports.having(MAILER, Smtp(parse_account(server.url)))
            post.desk = Desk(database, [*email.TOOLS, *crm.TOOLS], ports=ports)
            return post

        yield make


@pytest.fixture
def post(make_post: MakePost) -> Post:
    return make_post()


def told(result: ToolResult) -> str:
    assert result.error
    return result.error.message


async def test_a_draft_is_shown_whole_and_nothing_is_sent(post: Post) -> None:
    given: dict[str, Any] = LETTER
    result = await post.desk.ask("email.draft", to="Ana@ACME.example", **given)
    assert result.data == {
        "draft_id": "MAIL-1",
        "to": OWN,
        "subject": "Our call",
        "body": "Hello,\n\nit was good to talk.",
        "sent": False,
    }
    assert result.display_text == (
        "MAIL-1 is drafted, and not sent.\n> To: ana@acme.example\n> Subject: Our call\n> Hello,\n> \n"
        "> it was good to talk."
    )
    assert (post.server.received, await post.status()) == ([], "draft")
    [message] = answer_of("Here you are.", [(each.kind, each.records) for each in result.structured])
    for words in ("MAIL-1", OWN, "Our call", "it was good to talk."):
        assert words in json.dumps(message.blocks)


async def test_what_is_sent_is_what_was_drafted_once(post: Post) -> None:
    sent = await post.send((await post.drafted()).lower())
    assert sent.display_text == "MAIL-1 is sent."
    [received] = post.server.received
    assert (received["From"], received["To"], received["Subject"]) == (SENDER, OWN, "Our call")
    assert received["Message-ID"] == sent.data["message_id"]
    assert received.get_content().rstrip().replace("\r\n", "\n") == LETTER["body"]
    again = await post.send("MAIL-1")
    assert "MAIL-1 was sent before, and a draft is sent only once" in told(again)
    assert len(post.server.received) == 1


async def test_of_many_that_send_one_draft_at_once_one_does(post: Post) -> None:
    draft = await post.drafted()
    results = await asyncio.gather(*(post.send(draft) for _ in range(6)))
    assert [each.success for each in results].count(True) == 1
    assert len(post.server.received) == 1


async def test_a_mail_whose_result_was_lost_is_found_and_not_sent_again(post: Post) -> None:
    draft = await post.drafted()
    post.desk.log.lost = RuntimeError("the worker died")
    with pytest.raises(RuntimeError):
        await post.send(draft, call_id="once")
    post.desk.log.lost = None
    found = await post.send(draft, call_id="once")
    assert (found.success, found.data["sent"]) == (True, True)
    assert len(post.server.received) == 1


@pytest.mark.parametrize(("drops", "confirms"), [(True, "250 OK"), (False, "251 queued"), (False, "queued")])
async def test_a_mail_that_nobody_has_confirmed_is_never_sent_again(post: Post, drops: bool, confirms: str) -> None:
    draft = await post.drafted()
    post.server.drops, post.server.confirms = drops, confirms
    with pytest.raises(Transient):
        await post.send(draft, call_id="once", retries_left=2)
    with pytest.raises(Transient, match="may still take effect"):
        await post.send(draft, call_id="once", retries_left=1)
    post.desk.clock.advance(60)
    unknown = await post.send(draft, call_id="once", retries_left=1)
    assert unknown.error
    assert unknown.error.code is Code.OUTCOME_UNKNOWN
    assert "may have gone out or not" in told(unknown)
    assert "may have been sent" in told(await post.send(draft))
    assert (len(post.server.received), await post.status()) == (1, "sending")


async def test_a_worker_that_died_before_it_sent_leaves_it_open_and_sends_nothing(post: Post) -> None:
    draft = await post.drafted()
    async with post.database.begin() as work:
        query = text("UPDATE email_drafts SET status = 'sending', operation_key = :key")
        key = "T1:C1:1760000000.000100:1:1:once"
        await work.connection.execute(query, {"key": key})
    post.desk.log.intents[key] = post.desk.clock().timestamp() - 60
    unknown = await post.send(draft, call_id="once")
    assert unknown.error
    assert unknown.error.code is Code.OUTCOME_UNKNOWN
    assert post.server.received == []


@pytest.mark.parametrize(("command", "reply"), [("RCPT", "451 try later"), ("DATA", "452 no room")])
async def test_a_server_that_asks_to_wait_gets_it_later(post: Post, command: str, reply: str) -> None:
    draft = await post.drafted()
    post.server.replies[command] = reply
    with pytest.raises(Undone):
        await post.send(draft, call_id="once", retries_left=1)
    last = await post.send(draft, call_id="other")
    assert last.error
    assert last.error.code is Code.SERVICE_UNAVAILABLE
    assert await post.status() == "draft"
    post.server.replies.clear()
    assert (await post.send(draft, call_id="once", retries_left=1)).success
    assert len(post.server.received) == 1


async def test_a_mail_that_the_server_refuses_stays_a_draft(post: Post) -> None:
    draft = await post.drafted()
    post.server.replies["RCPT"] = "550 no such user"
    refused = await post.send(draft)
    assert "refuses the recipient: check the address (code 550)" in told(refused)
    assert (post.server.received, await post.status()) == ([], "draft")


@pytest.mark.parametrize(
    "to", ["ana@other.example", "ana@mail.acme.example", "ana@acme.example.other.example", "ana@notacme.example"]
)
async def test_another_domain_is_refused_as_a_draft_and_says_whom_to_ask(post: Post, to: str) -> None:
    refused = await post.desk.refused("email.draft", to=to, **LETTER)
    assert "THREADLINE_EMAIL_DOMAINS" in told(refused)


async def test_a_domain_that_was_taken_off_the_list_gets_nothing(make_post: MakePost) -> None:
    draft = await make_post().drafted(LEAD)
    later = make_post(Risk.HIGH, domains=("acme.example",))
    assert "THREADLINE_EMAIL_DOMAINS" in told(await later.send(draft))
    assert later.server.received == []


@pytest.mark.parametrize(
    ("to", "risk", "free", "waits"),
    [
        (OWN, "low", Risk.LOW, False),
        (LEAD, "medium", Risk.LOW, True),
        (LEAD, "medium", Risk.MEDIUM, False),
        (NOBODY, "high", Risk.MEDIUM, True),
        (NOBODY, "high", Risk.HIGH, False),
    ],
)
async def test_above_the_set_risk_a_mail_waits_for_an_approval(
    make_post: MakePost, to: str, risk: str, free: Risk, waits: bool
) -> None:
    post = make_post(free)
    await post.desk.done("crm.update", user_id="U2", title="Buyer")
    result = await post.send(await post.drafted(to))
    if not waits:
        assert (result.data["sent"], len(post.server.received), post.started) == (True, 1, [])
        return
    assert (post.server.received, post.started, await post.status()) == ([], ["ACT-1"], "draft")
    assert result.data["risk"] == risk
    assert result.data["waits_for"] == ["U7"]
    [card] = result.structured
    assert card.kind == "approval"
    assert card.records[0]["arguments"] == {"draft_id": "MAIL-1", "to": to, **LETTER}
    action = await post.action()
    assert action.action == {
        "tool": "email.send",
        "arguments": {"draft_id": "MAIL-1", "reason": "They asked for it."},
    }


async def test_a_call_that_is_tried_again_waits_once(post: Post) -> None:
    draft = await post.drafted(LEAD)
    post.desk.log.lost = RuntimeError("the worker died")
    with pytest.raises(RuntimeError):
        await post.send(draft, call_id="once")
    post.desk.log.lost = None
    post.desk.clock.advance(60)
    assert (await post.send(draft, call_id="once")).data["action_id"] == "ACT-1"
    assert set(post.started) == {"ACT-1"}


async def test_where_several_have_asked_no_address_is_their_own(post: Post) -> None:
    result = await post.send(await post.drafted(OWN), others=("Ben (U2)",), other_ids=("U2",))
    assert (result.data["risk"], post.server.received) == ("high", [])


async def test_where_several_have_asked_nobody_is_on_record_either(make_post: MakePost) -> None:
    post = make_post(Risk.MEDIUM)
    await post.desk.done("crm.update", user_id="U2", title="Buyer")
    waits = await post.send(await post.drafted(LEAD), others=("Gus (UGUEST)",), other_ids=("UGUEST",))
    assert (waits.data["risk"], post.server.received) == ("high", [])


@pytest.mark.parametrize("user_id", ["U1", "UGUEST"])
async def test_who_asks_cannot_put_an_address_on_record_for_a_mail_of_theirs(make_post: MakePost, user_id: str) -> None:
    post = make_post(Risk.MEDIUM)
    await post.desk.done("crm.update", user_id=user_id, email=NOBODY)
    draft = await post.drafted(NOBODY)
    with_ben: dict[str, Any] = {"user_id": "U2", "others": ("Ana (U1)",), "other_ids": (user_id,)}
    for asking in ({"user_id": user_id}, with_ben):
        waits = await post.send(draft, **asking)
        assert (waits.data["risk"], post.server.received) == ("high", [])
    # To somebody else it is on record, and so it is when another has said so last.
    assert (await post.send(draft, user_id="U2")).data["sent"]
    for by, address in (("U2", "zoe@acme.example"), ("U2", NOBODY)):
        await post.desk.done("crm.update", user_id=by, lead_id="LEAD-1", email=address)
    assert (await post.send(await post.drafted(NOBODY), user_id=user_id)).data["sent"]


async def test_an_address_that_was_loaded_into_the_database_is_on_record(make_post: MakePost) -> None:
    post = make_post(Risk.MEDIUM)
    async with post.database.begin() as work:
        query = "INSERT INTO crm_leads (team, email, created_at) VALUES ('T1', :at, now())"
        await work.connection.execute(text(query), {"at": NOBODY})
    assert (await post.send(await post.drafted(NOBODY))).data["sent"]


async def test_without_approvers_it_is_refused(make_post: MakePost) -> None:
    post = make_post(approvers=())
    assert "THREADLINE_APPROVERS" in told(await post.send(await post.drafted(LEAD)))
    assert post.server.received == []


async def test_a_draft_of_another_thread_or_team_is_not_there(post: Post) -> None:
    draft = await post.drafted()
    elsewhere: list[Mapping[str, str]] = [{"thread_ts": "1760000000.000200"}, {"channel": "C2"}, {"team": "T2"}]
    for where in elsewhere:
        assert "this thread has no draft MAIL-1" in told(await post.send(draft, **where))


async def test_line_breaks_in_a_subject_and_an_address_add_no_header(post: Post) -> None:
    draft = await post.desk.done(
        "email.draft", to=OWN, subject="Hi\r\nBcc: zoe@shop.example\nX-Other: 1", body="Hello\r\nBcc: not a header"
    )
    await post.send(draft["draft_id"])
    [received] = post.server.received
    assert received["Subject"] == "Hi Bcc: zoe@shop.example X-Other: 1"
    assert (received["Bcc"], received["X-Other"]) == (None, None)
    assert post.server.envelopes == [("sales@acme.example", [OWN])]
    for to in (f"{OWN}\r\nBcc: {LEAD}", f"{OWN}, {LEAD}", f"Ana <{OWN}>"):
        assert "not a mail address" in told(await post.desk.refused("email.draft", to=to, **LETTER))


async def test_a_subject_or_an_address_in_code_is_refused_with_what_to_do(post: Post) -> None:
    for subject in ("=?utf-8?q?Hi=0D=0ABcc:_zoe@shop.example?=", "Hi =?utf-8?q?Another?="):
        refused = await post.desk.refused("email.draft", to=OWN, subject=subject, body="Hello")
        assert "a subject cannot contain =?" in told(refused)
    coded = "=?us-ascii?q?zoe=40other.example?=@acme.example"
    assert "not a mail address" in told(await post.desk.refused("email.draft", to=coded, **LETTER))
    assert "not a mail address" in told(await post.desk.refused("crm.update", email=coded))


async def test_a_draft_that_would_be_read_as_something_else_is_not_taken(post: Post) -> None:
    draft = await post.drafted()
    async with post.database.begin() as work:
        await work.connection.execute(text("UPDATE email_drafts SET subject = '=?utf-8?q?Hi=0D=0ABcc:_z@x.example?='"))
    assert "MAIL-1 cannot be sent as drafted. Nothing was sent. Draft it again" in told(await post.send(draft))
    assert (post.server.received, await post.status()) == ([], "draft")


async def test_a_mail_that_an_approver_could_not_read_whole_is_refused(post: Post) -> None:
    refused = await post.desk.refused("email.draft", to=OWN, subject="Hi", body="&<>" * 400)
    assert "shorten" in told(refused)
    for given in ({"subject": "x" * 151, "body": "x"}, {"subject": "x", "body": "x" * 1_401}):
        result = await post.desk.refused("email.draft", to=OWN, **given)
        assert result.error
        assert result.error.code is Code.INVALID_ARGUMENTS
    whole = await post.desk.done("email.draft", to=OWN, subject="Hi", body="x" * 1_400)
    assert len(whole["body"]) == 1_400


async def test_a_secret_is_not_mailed(post: Post) -> None:
    draft = await post.desk.done("email.draft", to=OWN, subject="Hi", body="Use postgres://shop:hunter2@db/shop now.")
    assert "hunter2" not in str(draft)
    await post.send(draft["draft_id"])
    assert "hunter2" not in post.server.received[0].as_string()


async def test_without_a_mail_server_mails_are_drafted_and_none_is_sent(make_post: MakePost) -> None:
    post = make_post(sets_up_mail=False)
    assert {"email.draft"} == {each for each in post.desk.names() if each.startswith("email.")}
    await post.drafted("anybody@other.example")


async def test_a_mail_to_a_customer_is_put_down_with_them(make_post: MakePost) -> None:
    post = make_post(Risk.MEDIUM)
    await post.desk.done("crm.update", user_id="U2", title="Buyer")
    await post.send(await post.drafted(LEAD))
    [put] = (await post.desk.done("crm.get", lead_id="LEAD-1"))["interactions"]
    assert (put["kind"], put["summary"], put["by"]) == ("email", "Our call", "U1")


async def test_old_drafts_are_forgotten(post: Post) -> None:
    await post.drafted()
    at = post.desk.clock().timestamp()
    async with post.database.begin() as work:
        assert await work.letters.prune(at) == 0
        assert await work.letters.prune(at + 1) == 1
    assert "this thread has no draft" in told(await post.send("MAIL-1"))
