"""Emails: drafted, sent once over a real server, and above a risk only after an approval."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import text

from tests.sales.customers import Directory
from tests.sales.mail_server import MailServer, serving
from tests.support.tool_results import code_of, message_of
from tests.support.tool_scene import ToolScene
from threadline.approvals.activities import PostgresProposals
from threadline.approvals.blocks import fits_on_card
from threadline.approvals.model import ApprovalRules, ProposedAction
from threadline.approvals.store import ApprovalStore
from threadline.conversations.blocks import answer_of
from threadline.db.engine import Database
from threadline.db.rate_limits import Rate
from threadline.errors import NotDone, Transient
from threadline.sales import tools as sales
from threadline.sales.email import EmailSettings, SmtpMailer
from threadline.sales.model import parse_mail_account
from threadline.sales.store import EmailDraftStore
from threadline.sales.tools import BEYOND_DOMAINS
from threadline.slack.users import UserDirectory
from threadline.tools.context import Services
from threadline.tools.model import ErrorCode, Risk, ToolResult
from threadline.tools.policy import BUILT_IN, CallRules, PolicyRule, Verdict
from threadline.tools.proposals import Proposals

SENDER = "Acme Sales <sales@acme.example>"
OWN = "ana@acme.example"
LEAD = "ben@shop.example"
NOBODY = "zoe@shop.example"
LETTER = {"subject": "Our call", "body": "Hello,\n\nit was good to talk."}


MEDIUM_IS_FREE = (PolicyRule(Verdict.MAKE, risks=frozenset({Risk.MEDIUM})), *BUILT_IN)
ALL_IS_FREE = (PolicyRule(Verdict.MAKE),)


@dataclass
class Post:
    """A desk with a mail server."""

    desk: ToolScene
    server: MailServer
    database: Database

    async def drafted(self, to: str = OWN, **more: Any) -> str:
        given: dict[str, Any] = LETTER | more
        return str((await self.desk.done("email.draft", to=to, **given))["draft_id"])

    async def send(self, draft_id: str, **more: Any) -> ToolResult:
        return await self.desk.ask(
            "email.send", draft_id=draft_id, reason="They asked for it.", **more
        )

    async def action(self) -> ProposedAction:
        async with self.database.begin() as tx:
            return (await ApprovalStore(tx).unfinished_after(0, 100))[-1]

    async def undecided(self) -> list[str]:
        """Return the actions that wait for a decision."""
        async with self.database.begin() as tx:
            return [each.action_id for each in await ApprovalStore(tx).unfinished_after(0, 100)]

    async def status(self, draft_id: str = "MAIL-1") -> str:
        query = text("SELECT status FROM email_drafts WHERE draft_id = :id")
        async with self.database.begin() as tx:
            return str((await tx.execute(query, {"id": draft_id})).scalar_one())


MakePost = Callable[..., Post]


@pytest.fixture
async def make_post(database: Database) -> AsyncIterator[MakePost]:
    async with serving() as server:

        def make(
            rules: Sequence[PolicyRule] = BUILT_IN,
            domains: Sequence[str] = ("acme.example", "shop.example"),
            *,
            sets_up_mail: bool = True,
            approvers: Sequence[str] = ("U7",),
            rate: Rate | None = None,
        ) -> Post:
            post = Post(ToolScene(database, ()), server, database)
            settings = (
                EmailSettings(fits_on_card, SENDER, domains, rate)
                if sets_up_mail
                else EmailSettings(fits_on_card)
            )
            services = (
                Services()
                .with_service(UserDirectory, Directory())
                .with_service(EmailSettings, settings)
                .with_service(Proposals, PostgresProposals(ApprovalRules(tuple(approvers))))
                .with_service(CallRules, CallRules(tuple(rules)))
            )
            if sets_up_mail:
                services = services.with_service(
                    SmtpMailer, SmtpMailer(parse_mail_account(server.url))
                )
            post.desk = ToolScene(database, sales.TOOLS, services=services)
            return post

        yield make


@pytest.fixture
def post(make_post: MakePost) -> Post:
    return make_post()


async def test_draft_is_shown_whole_and_not_sent(post: Post) -> None:
    given: dict[str, Any] = LETTER
    result = await post.desk.ask("email.draft", to="Ana@ACME.example", **given)
    assert result.data == {"draft_id": "MAIL-1", "to": OWN, "sent": False, **LETTER}
    assert (
        "> To: ana@acme.example\n> Subject: Our call\n> Hello,\n> \n> it was good to talk."
        in result.display_text
    )
    assert (post.server.received, await post.status()) == ([], "draft")
    [message] = answer_of(
        "Here you are.", [(each.kind, each.records) for each in result.structured]
    )
    for words in ("MAIL-1", OWN, "Our call", "it was good to talk."):
        assert words in json.dumps(message.blocks)


async def test_draft_is_sent_once_as_it_is(post: Post) -> None:
    sent = await post.send((await post.drafted()).lower())
    [received] = post.server.received
    assert (received["From"], received["To"], received["Subject"]) == (SENDER, OWN, "Our call")
    assert received["Message-ID"] == sent.data["message_id"]
    assert received.get_content().rstrip().replace("\r\n", "\n") == LETTER["body"]
    assert "MAIL-1 was already sent" in message_of(await post.send("MAIL-1"))
    assert len(post.server.received) == 1


async def test_draft_is_sent_once_by_concurrent_calls(post: Post) -> None:
    draft = await post.drafted()
    results = await asyncio.gather(*(post.send(draft) for _ in range(6)))
    assert [each.success for each in results].count(True) == 1
    assert len(post.server.received) == 1


async def test_email_with_lost_result_is_not_sent_again(post: Post) -> None:
    draft = await post.drafted()
    post.desk.ledger.lost = RuntimeError("the worker died")
    with pytest.raises(RuntimeError):
        await post.send(draft, call_id="once")
    post.desk.ledger.lost = None
    found = await post.send(draft, call_id="once")
    assert (found.success, found.data["sent"]) == (True, True)
    assert len(post.server.received) == 1


async def test_unconfirmed_email_is_never_sent_again(post: Post) -> None:
    draft = await post.drafted()
    post.server.drops = True
    with pytest.raises(Transient):
        await post.send(draft, call_id="once", retries_left=2)
    with pytest.raises(Transient, match="may still take effect"):
        await post.send(draft, call_id="once", retries_left=1)
    post.desk.clock.advance(60)
    unknown = await post.send(draft, call_id="once", retries_left=1)
    assert code_of(unknown) is ErrorCode.OUTCOME_UNKNOWN
    assert "may have gone out or not" in message_of(unknown)
    assert "may have been sent" in message_of(await post.send(draft))
    assert (len(post.server.received), await post.status()) == (1, "sending")


async def test_email_of_a_dead_worker_has_an_unknown_outcome(post: Post) -> None:
    draft = await post.drafted()
    async with post.database.begin() as tx:
        query = text("UPDATE email_drafts SET status = 'sending', operation_key = :key")
        key = "T1:C1:1760000000.000100:1:1:once"
        await tx.execute(query, {"key": key})
    await post.desk.intend("email.send", "once", 60, draft_id=draft, reason="They asked for it.")
    unknown = await post.send(draft, call_id="once")
    assert code_of(unknown) is ErrorCode.OUTCOME_UNKNOWN
    assert post.server.received == []


async def test_email_is_sent_later_when_the_server_asks_to_wait(post: Post) -> None:
    draft = await post.drafted()
    post.server.replies["RCPT"] = "451 try later"
    with pytest.raises(NotDone):
        await post.send(draft, call_id="once", retries_left=1)
    last = await post.send(draft, call_id="other")
    assert code_of(last) is ErrorCode.SERVICE_UNAVAILABLE
    assert await post.status() == "draft"
    post.server.replies.clear()
    assert (await post.send(draft, call_id="once", retries_left=1)).success
    assert len(post.server.received) == 1


async def test_refused_email_stays_a_draft(post: Post) -> None:
    draft = await post.drafted()
    post.server.replies["RCPT"] = "550 no such user"
    refused = await post.send(draft)
    assert "code 550" in message_of(refused)
    assert (post.server.received, await post.status()) == ([], "draft")


@pytest.mark.parametrize(
    "to", ["ana@mail.acme.example", "ana@acme.example.other.example", "ana@notacme.example"]
)
async def test_email_beyond_the_domains_waits_for_an_approval(post: Post, to: str) -> None:
    result = await post.send(await post.drafted(to))
    assert (result.data["risk"], post.server.received, await post.undecided()) == (
        "high",
        [],
        ["ACT-1"],
    )
    [card] = result.structured
    assert card.records[0]["arguments"]["note"] == BEYOND_DOMAINS


async def test_no_rule_sends_email_beyond_the_domains_unasked(make_post: MakePost) -> None:
    draft = await make_post().drafted(LEAD)
    later = make_post(ALL_IS_FREE, domains=("acme.example",))
    assert "needs an approval" in message_of(await later.send(draft))
    assert later.server.received == []


@pytest.mark.parametrize(
    ("to", "risk", "rules", "waits"),
    [
        (OWN, "low", BUILT_IN, False),
        (LEAD, "medium", BUILT_IN, True),
        (LEAD, "medium", MEDIUM_IS_FREE, False),
        (NOBODY, "high", MEDIUM_IS_FREE, True),
        (NOBODY, "high", ALL_IS_FREE, False),
    ],
)
async def test_rules_set_the_risk_from_which_an_email_waits(
    make_post: MakePost, to: str, risk: str, rules: Sequence[PolicyRule], waits: bool
) -> None:
    post = make_post(rules)
    await post.desk.done("crm.update", user_id="U2", title="Buyer")
    result = await post.send(await post.drafted(to))
    if not waits:
        assert (result.data["sent"], len(post.server.received), await post.undecided()) == (
            True,
            1,
            [],
        )
        return
    assert (post.server.received, await post.undecided(), await post.status()) == (
        [],
        ["ACT-1"],
        "draft",
    )
    assert result.data["risk"] == risk
    assert result.data["waits_for"] == ["U7"]
    [card] = result.structured
    assert card.kind == "approval"
    shown = {"draft_id": "MAIL-1", "to": to, **LETTER}
    assert card.records[0]["arguments"] == shown
    action = await post.action()
    assert action.action == {
        "tool": "email.send",
        "arguments": {"draft_id": "MAIL-1", "reason": "They asked for it."},
        "shown": shown,
    }


async def test_repeated_call_makes_one_proposal(post: Post) -> None:
    draft = await post.drafted(LEAD)
    post.desk.ledger.lost = RuntimeError("the worker died")
    with pytest.raises(RuntimeError):
        await post.send(draft, call_id="once")
    post.desk.ledger.lost = None
    post.desk.clock.advance(60)
    waits = await post.send(draft, call_id="once")
    assert await post.undecided() == [waits.data["action_id"]]


async def test_risk_is_high_for_several_requesters(make_post: MakePost) -> None:
    post = make_post(MEDIUM_IS_FREE)
    await post.desk.done("crm.update", user_id="U2", title="Buyer")
    for to, other in ((OWN, "U2"), (LEAD, "UGUEST")):
        waits = await post.send(await post.drafted(to), co_requesters={other: "Another"})
        assert (waits.data["risk"], post.server.received) == ("high", [])


@pytest.mark.parametrize("user_id", ["U1", "UGUEST"])
async def test_requester_cannot_lower_the_risk_of_an_address(
    make_post: MakePost, user_id: str
) -> None:
    post = make_post(MEDIUM_IS_FREE)
    await post.desk.done("crm.update", user_id=user_id, email=NOBODY)
    draft = await post.drafted(NOBODY)
    with_ben: dict[str, Any] = {"user_id": "U2", "co_requesters": {user_id: "Ana (U1)"}}
    for asking in ({"user_id": user_id}, with_ben):
        waits = await post.send(draft, **asking)
        assert (waits.data["risk"], post.server.received) == ("high", [])
    # Other users see it as recorded, and so does the requester once another user has set it last.
    assert (await post.send(draft, user_id="U2")).data["sent"]
    for by, address in (("U2", "zoe@acme.example"), ("U2", NOBODY)):
        await post.desk.done("crm.update", user_id=by, lead_id="LEAD-1", email=address)
    assert (await post.send(await post.drafted(NOBODY), user_id=user_id)).data["sent"]


async def test_imported_address_has_a_medium_risk(make_post: MakePost) -> None:
    post = make_post(MEDIUM_IS_FREE)
    async with post.database.begin() as tx:
        query = "INSERT INTO crm_leads (team, email, created_at) VALUES ('T1', :at, now())"
        await tx.execute(text(query), {"at": NOBODY})
    assert (await post.send(await post.drafted(NOBODY))).data["sent"]


async def test_email_is_refused_without_approvers(make_post: MakePost) -> None:
    post = make_post(approvers=())
    assert "no approvers are set: ask the admin" in message_of(
        await post.send(await post.drafted(LEAD))
    )
    assert post.server.received == []


async def test_draft_of_another_thread_is_not_found(post: Post) -> None:
    draft = await post.drafted()
    elsewhere: list[Mapping[str, str]] = [
        {"thread_ts": "1760000000.000200"},
        {"channel": "C2"},
        {"team": "T2"},
    ]
    for where in elsewhere:
        assert "this thread has no draft MAIL-1" in message_of(await post.send(draft, **where))


async def test_line_breaks_add_no_header(post: Post) -> None:
    draft = await post.desk.done(
        "email.draft",
        to=OWN,
        subject="Hi\r\nBcc: zoe@shop.example\nX-Other: 1",
        body="Hello\r\nBcc: not a header",
    )
    await post.send(draft["draft_id"])
    [received] = post.server.received
    assert received["Subject"] == "Hi Bcc: zoe@shop.example X-Other: 1"
    assert (received["Bcc"], received["X-Other"]) == (None, None)
    assert post.server.envelopes == [("sales@acme.example", [OWN])]
    for to in (f"{OWN}\r\nBcc: {LEAD}", f"{OWN}, {LEAD}", f"Ana <{OWN}>"):
        assert "not a mail address" in message_of(
            await post.desk.refused("email.draft", to=to, **LETTER)
        )


async def test_encoded_subject_and_address_are_refused(post: Post) -> None:
    refused = await post.desk.refused(
        "email.draft", to=OWN, subject="Hi =?utf-8?q?Another?=", body="Hello"
    )
    assert "=?" in message_of(refused)
    coded = "=?us-ascii?q?zoe=40other.example?=@acme.example"
    assert "not a mail address" in message_of(
        await post.desk.refused("email.draft", to=coded, **LETTER)
    )
    assert "not a mail address" in message_of(await post.desk.refused("crm.update", email=coded))


async def test_stored_draft_with_an_encoded_subject_is_not_sent(post: Post) -> None:
    draft = await post.drafted()
    async with post.database.begin() as tx:
        await tx.execute(
            text("UPDATE email_drafts SET subject = '=?utf-8?q?Hi=0D=0ABcc:_z@x.example?='")
        )
    assert "MAIL-1 cannot be sent as drafted" in message_of(await post.send(draft))
    assert (post.server.received, await post.status()) == ([], "draft")


async def test_email_too_long_to_be_shown_whole_is_refused(post: Post) -> None:
    refused = await post.desk.refused("email.draft", to=OWN, subject="Hi", body="&<>" * 400)
    assert "shorten" in message_of(refused)
    for given in ({"subject": "x" * 151, "body": "x"}, {"subject": "x", "body": "x" * 1_401}):
        result = await post.desk.refused("email.draft", to=OWN, **given)
        assert code_of(result) is ErrorCode.INVALID_ARGUMENTS
    whole = await post.desk.done("email.draft", to=OWN, subject="Hi", body="x" * 1_400)
    assert len(whole["body"]) == 1_400


async def test_secret_is_not_sent(post: Post) -> None:
    draft = await post.desk.done(
        "email.draft", to=OWN, subject="Hi", body="Use postgres://shop:hunter2@db/shop now."
    )
    assert "hunter2" not in str(draft)
    await post.send(draft["draft_id"])
    assert "hunter2" not in post.server.received[0].as_string()


async def test_emails_are_only_drafted_without_a_mail_server(make_post: MakePost) -> None:
    post = make_post(sets_up_mail=False)
    assert {"email.draft"} == {each for each in post.desk.names() if each.startswith("email.")}
    await post.drafted("anybody@other.example")


async def test_email_to_a_lead_is_logged_as_interaction(make_post: MakePost) -> None:
    post = make_post(MEDIUM_IS_FREE)
    await post.desk.done("crm.update", user_id="U2", title="Buyer")
    await post.send(await post.drafted(LEAD))
    [put] = (await post.desk.done("crm.get", lead_id="LEAD-1"))["interactions"]
    assert (put["kind"], put["summary"], put["by"]) == ("email", "Our call", "U1")


async def test_emails_to_one_address_are_rate_limited(make_post: MakePost) -> None:
    post = make_post(rate=Rate(1, 60.0))
    assert (await post.send(await post.drafted())).success
    second = await post.drafted()
    assert code_of(await post.send(second)) is ErrorCode.TOO_MANY_CHANGES
    assert (len(post.server.received), await post.status(second)) == (1, "draft")
    post.desk.clock.advance(60)
    assert (await post.send(second)).success


async def test_old_drafts_are_deleted(post: Post) -> None:
    await post.drafted()
    at = post.desk.clock().timestamp()
    async with post.database.begin() as tx:
        assert await EmailDraftStore(tx).prune(at) == 0
        assert await EmailDraftStore(tx).prune(at + 1) == 1
    assert "this thread has no draft" in message_of(await post.send("MAIL-1"))
